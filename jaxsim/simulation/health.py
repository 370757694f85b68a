"""Whether a motion still means something, by bounds that follow from its scenario.

Kinetic energy comes from the start, from gravity and from what drives the body; far more than that
is made by the numbers, and so is a rise of kinetic and potential energy that no work accounts for.
What turns ten times in a step, is deeper in something than half its
thickness, or so far away that its position is rounded by a millimetre, is no motion of a body
either. The first of it is kept, with its time; nothing is changed by it.
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
from jaxsim.model.model import Model
from jaxsim.model.shapes import WORLD_KINDS
from jaxsim.model.state import State
from jaxsim.solvers.status import Status

TIMES = 10.0  # as much kinetic energy as there can be
GAIN = 0.1  # of what there can be, that it rises by without work
REST = 0.1  # speed of all of the mass whose energy is no gain [m/s]
CREEP = 1.0  # speed that undoing depth may give to all of the mass, beside it [m/s]
TURNS = 10.0  # of a joint in a step
ROUNDING = 1e-3  # of a position [m]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Health:
    """State of health, folded over the steps; of a batch with a leading axis."""

    status: Array  # () int: a Status
    time: Array  # () [s] when it came about; infinite for OK
    given: Array  # () kinetic and potential energy of the start, and work since [J]; NaN before it
    least: Array  # () energy less work and recovery until then, the least so far [J]
    recovered: Array  # () the most that undoing depth and exceeded limits has put in [J]
    fastest: Array  # () joint at the start [rad/s]
    deepest: Array  # () overlap at the start [m]


class Failure(NamedTuple):
    """A member of a batch whose motion means nothing from a time on."""

    member: int
    status: Status
    time: float  # [s]

    def __str__(self) -> str:
        return f"member {self.member}, from {self.time:.4g} s on: {self.status.message}"


def healthy(state: State) -> Health:
    """Before the first step."""
    zero = jnp.zeros((), state.q.dtype)
    return Health(
        jnp.zeros((), jnp.int32), zero + jnp.inf, zero + jnp.nan, zero + jnp.inf, zero, zero, zero
    )


def watched(health: Health, model: Model, state: State, obs, after: State, info) -> Health:
    """After one more step from ``state`` to ``after``; ``obs`` and ``info`` are what the step saw
    and tells. No gradient passes."""
    health, model, state, obs, after, info = stop_gradient((health, model, state, obs, after, info))
    top = model.topology
    turning = _turning(top)
    dtype, dt = state.q.dtype, after.time - state.time
    mass = jnp.sum(model.mass)
    fallen = mass * jnp.sum(obs.com * model.gravity)  # potential energy, with the sign turned
    first = jnp.isnan(health.given)
    begun = info.kinetic_before - fallen + info.recovery
    before = jnp.where(first, begun, health.given)
    given = before + info.work
    left = info.kinetic_before - fallen - before - health.recovered
    # of what moves as prescribed the energy is not counted, and the account begins anew after it
    prescribed = jnp.any(info.motion_force != 0)
    least = jnp.where(prescribed, jnp.inf, jnp.minimum(health.least, left))
    rest = 0.5 * mass * (REST**2 + dt * dt * jnp.sum(model.gravity**2))
    gained = left - least > GAIN * jnp.maximum(before + fallen, 0.0) + rest
    fastest = jnp.max(jnp.abs(state.qd[turning]), initial=0.0) if turning.size else 0.0
    depth = jnp.maximum(-obs.contacts.gap, 0.0)
    health = Health(
        health.status,
        health.time,
        given,
        least,
        health.recovered + info.recovery,
        jnp.where(first, fastest, health.fastest),
        jnp.where(first, jnp.max(depth, initial=0.0), health.deepest),
    )
    creep = 0.5 * mass * (CREEP**2 + dt * dt * jnp.sum(model.gravity**2))
    bound = TIMES * (jnp.maximum(given + fallen, 0.0) + creep)
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
    found = jnp.zeros((), jnp.int32)
    for status, wrong in checks.items():  # the last one counts
        found = jnp.where(wrong, jnp.int32(status), found)
    new = (health.status == Status.OK) & (found != Status.OK)
    return dataclasses.replace(
        health,
        status=jnp.where(new, found, health.status),
        time=jnp.where(new, after.time, health.time),
    )


def finite_only(health: Health, after: State) -> Health:
    """After one more step of a scheme of which no more is known than the state that it led to."""
    finite = stop_gradient(jnp.isfinite(after.q).all() & jnp.isfinite(after.qd).all())
    new = (health.status == Status.OK) & ~finite
    return dataclasses.replace(
        health,
        status=jnp.where(new, jnp.int32(Status.NOT_FINITE), health.status),
        time=jnp.where(new, stop_gradient(after.time), health.time),
    )


def failures(health: Health) -> list[Failure]:
    """The members of a batch whose motion came to mean nothing, why and when; of a single rollout
    it is member 0."""
    status, time = (np.asarray(jax.device_get(x)).reshape(-1) for x in (health.status, health.time))
    return [Failure(int(i), Status(int(status[i])), float(time[i])) for i in np.flatnonzero(status)]


class SimulationError(ValueError):
    """Members of a batch whose motion means nothing from some time on."""


def check(result: Any) -> None:
    """Raise ``SimulationError`` if a motion came to mean nothing: how many members, and of the
    first ten why and from when on. result: of a ``rollout``, one or a batch. Not inside jit."""
    found = failures(result.health)
    if found:
        members = np.size(result.health.status)
        more = f"\n  and {len(found) - 10} more; see failures" if len(found) > 10 else ""
        listed = "".join(f"\n  {failure}" for failure in found[:10])
        raise SimulationError(f"{len(found)} of {members} members failed:{listed}{more}")


def _turning(top) -> np.ndarray:
    """The dofs of hinges and balls that are not driven."""
    found = [
        start + k
        for kind, start, driven in zip(top.joint_kinds, top.v_start, top.joint_driven, strict=True)
        if kind in ("hinge", "ball") and not driven
        for k in range(V_SIZE[kind])
    ]
    return np.array(found, int)


def _half_thickness(model: Model) -> Array:
    """(nc,) of the thinner one of the two shapes of each slot [m]."""
    top = model.topology
    slots = contact_slots(top)
    used = np.array([{"box": 3, "sphere": 1}.get(kind, 2) for kind in top.shape_kinds], int)
    sizes = jnp.where(np.arange(3) < used[:, None], model.shape_size, jnp.inf)
    endless = np.isin(top.shape_kinds, WORLD_KINDS)
    inner = jnp.where(endless, jnp.inf, jnp.min(sizes, axis=1, initial=jnp.inf))
    return jnp.minimum(inner[slots.shape_a], inner[slots.shape_b])
