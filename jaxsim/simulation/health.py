"""Divergence checks of a motion, by bounds that follow from its scenario.

Kinetic energy comes from the start, from gravity and from motors and pushes; far more than that is
a numerical error, and so is a rise of kinetic and potential energy that no work accounts for.
Divergence is also a joint that turns ten times in a step, a penetration deeper than half the
thickness, and a position so far away that it is rounded by a millimetre. The first sign is
recorded, with its time; the motion is not changed.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax import stop_gradient

from jaxsim.collision.slots import contact_slots
from jaxsim.model.joints import V_SIZE
from jaxsim.model.kinds import KINDS
from jaxsim.model.model import Model
from jaxsim.model.state import State
from jaxsim.solvers.status import Status

TIMES = 10.0  # largest kinetic energy, relative to the available energy
GAIN = 0.1  # largest rise of energy without work, relative to the available energy
REST = 0.1  # speed of all of the mass, below whose energy nothing counts as a gain [m/s]
CREEP = 1.0  # speed that penetration recovery may add to all of the mass [m/s]
TURNS = 10.0  # largest turns of a joint in a step
ROUNDING = 1e-3  # largest rounding error of a position [m]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Health:
    """First divergence of a motion and its bounds, folded over the steps; may have a batch axis."""

    status: Array  # () int: a Status
    time: Array  # () time of the divergence [s]; infinite for OK
    given: Array  # () kinetic and potential energy of the start, and work since [J]; NaN before it
    least: Array  # () least energy less work and recovery so far [J]
    recovered: Array  # () largest energy that recovery of penetration and limits may have added [J]
    fastest: Array  # () fastest joint at the start [rad/s]
    deepest: Array  # () deepest penetration at the start [m]


class Failure(NamedTuple):
    """Divergence of one member of a batch: its index, reason and time."""

    member: int
    status: Status
    time: float  # [s]

    def __str__(self) -> str:
        return f"member {self.member}, from {self.time:.4g} s on: {self.status.message}"


def initial_health(state: State) -> Health:
    """Initial ``Health`` of a rollout, before the first step."""
    zero = jnp.zeros((), state.q.dtype)
    return Health(
        jnp.zeros((), jnp.int32), zero + jnp.inf, zero + jnp.nan, zero + jnp.inf, zero, zero, zero
    )


def update_health(health: Health, model: Model, state: State, obs, after: State, info) -> Health:
    """Check the step from ``state`` to ``after`` for divergence, and update the health.

    obs, info: observation and info of the step. No gradient passes.
    """
    health, model, state, obs, after, info = stop_gradient((health, model, state, obs, after, info))
    top = model.topology
    turning = _turning(top)
    dtype, dt = state.q.dtype, after.time - state.time
    mass = jnp.sum(model.mass)
    fallen = mass * jnp.sum(obs.com * model.gravity)  # potential energy, with the sign turned
    first = jnp.isnan(health.given)
    start_energy = info.kinetic_before - fallen + info.recovery
    before = jnp.where(first, start_energy, health.given)
    energy = before + info.work
    left = info.kinetic_before - fallen - before - health.recovered
    # energy of prescribed motion is not counted, and the least is reset after it
    prescribed = jnp.any(info.motion_force != 0)
    least = jnp.where(prescribed, jnp.inf, jnp.minimum(health.least, left))
    rest = 0.5 * mass * (REST**2 + dt * dt * jnp.sum(model.gravity**2))
    gained = left - least > GAIN * jnp.maximum(before + fallen, 0.0) + rest
    fastest = jnp.max(jnp.abs(state.qd[turning]), initial=0.0) if turning.size else 0.0
    depth = jnp.maximum(-obs.contacts.gap, 0.0)
    health = Health(
        health.status,
        health.time,
        energy,
        least,
        health.recovered + info.recovery,
        jnp.where(first, fastest, health.fastest),
        jnp.where(first, jnp.max(depth, initial=0.0), health.deepest),
    )
    creep = 0.5 * mass * (CREEP**2 + dt * dt * jnp.sum(model.gravity**2))
    bound = TIMES * (jnp.maximum(energy + fallen, 0.0) + creep)
    turn = dt * jnp.max(jnp.abs(after.qd[turning]), initial=0.0) if turning.size else 0.0
    most = jnp.maximum(2 * np.pi * TURNS, 2 * dt * health.fastest)
    thick = _half_thickness(model)
    deep = jnp.max(depth - jnp.maximum(thick, 1.1 * health.deepest), initial=-1.0)
    away = jnp.max(jnp.abs(obs.com))
    checks = {
        Status.FAR: away > ROUNDING / jnp.finfo(dtype).eps,
        Status.DEPTH: deep > 0,
        Status.SPEED: turn > most,
        Status.GAIN: gained,
        Status.ENERGY: info.kinetic_after > bound,
        Status.NOT_FINITE: jnp.isnan(info.kinetic_after) | jnp.isnan(away),
    }
    failure = jnp.zeros((), jnp.int32)
    for status, wrong in checks.items():  # the last one counts
        failure = jnp.where(wrong, jnp.int32(status), failure)
    new = (health.status == Status.OK) & (failure != Status.OK)
    return dataclasses.replace(
        health,
        status=jnp.where(new, failure, health.status),
        time=jnp.where(new, after.time, health.time),
    )


def finite_only(health: Health, after: State) -> Health:
    """Update the health by the finiteness of the new state alone, for a scheme without energies."""
    finite = stop_gradient(jnp.isfinite(after.q).all() & jnp.isfinite(after.qd).all())
    new = (health.status == Status.OK) & ~finite
    return dataclasses.replace(
        health,
        status=jnp.where(new, jnp.int32(Status.NOT_FINITE), health.status),
        time=jnp.where(new, stop_gradient(after.time), health.time),
    )


def failures(health: Health) -> list[Failure]:
    """List the members of a batch that diverged, with reason and time; a single rollout is 0."""
    status, time = (np.asarray(jax.device_get(x)).reshape(-1) for x in (health.status, health.time))
    return [Failure(int(i), Status(int(status[i])), float(time[i])) for i in np.flatnonzero(status)]


class SimulationError(ValueError):
    """Raised by ``check`` for members of a batch that diverged."""


def check(result: Any) -> None:
    """Raise ``SimulationError`` if members of a rollout diverged.

    The message has their number, and reason and time of the first ten. result: of a ``rollout``,
    one or a batch. Not inside jit.
    """
    failed = failures(result.health)
    if failed:
        members = np.size(result.health.status)
        more = f"\n  and {len(failed) - 10} more; see failures" if len(failed) > 10 else ""
        listed = "".join(f"\n  {failure}" for failure in failed[:10])
        raise SimulationError(f"{len(failed)} of {members} members failed:{listed}{more}")


def _turning(top) -> np.ndarray:
    """Indices of the dofs of hinges and balls without prescribed motion."""
    dofs = [
        start + k
        for kind, start, driven in zip(top.joint_kinds, top.v_start, top.joint_driven, strict=True)
        if kind in ("hinge", "ball") and not driven
        for k in range(V_SIZE[kind])
    ]
    return np.array(dofs, int)


def _half_thickness(model: Model) -> Array:
    """(nc,) half the thickness of the thinner shape of each contact slot [m]."""
    top = model.topology
    slots = contact_slots(top)
    kinds = [KINDS[kind] for kind in top.shape_kinds]
    used = np.array([kind.thin_sizes for kind in kinds], int)
    sizes = jnp.where(np.arange(3) < used[:, None], model.shape_size, jnp.inf)
    endless = np.array([kind.world_only for kind in kinds], bool)
    inner = jnp.where(endless, jnp.inf, jnp.min(sizes, axis=1, initial=jnp.inf))
    return jnp.minimum(inner[slots.shape_a], inner[slots.shape_b])
