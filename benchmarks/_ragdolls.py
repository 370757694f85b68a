"""Random falls of the human in space and in the plane, and what is measured of them."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.characters.human import articulated_human
from jaxsim.characters.planar_human import planar_human
from jaxsim.collision.contacts import find_contacts, lowest_point, overlapping_pairs
from jaxsim.constraints.rows import limit_rows
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.dynamics.momentum import kinetic_energy, potential_energy
from jaxsim.math.rotation import quat_exp
from jaxsim.model import (
    Model,
    ModelBuilder,
    State,
    box,
    height_field,
    neutral_state,
    plane,
)
from jaxsim.model.adopt import add_model
from jaxsim.simulation.measures import Measure, Sample, largest, total
from jaxsim.simulation.records import no_control
from jaxsim.simulation.step import TimeStepping

GROUNDS = ("boxes", "rough", "flat")
CHARACTERS = {"space": articulated_human, "planar": planar_human}
FIELD, CELL, ROUGHNESS = 10.0, 0.25, 0.12  # side of the field, of a cell, range of heights [m]
BOXES = (  # half extents, position, turn about z: about where the falls begin
    ((0.25, 0.30, 0.15), (0.5, 0.1, 0.15), 0.3),
    ((0.30, 0.40, 0.10), (-0.7, 0.3, 0.10), -0.6),
    ((0.15, 0.60, 0.20), (0.1, 0.9, 0.20), 1.2),
    ((0.40, 0.20, 0.25), (0.1, -0.8, 0.25), 0.1),
)
TALLEST = 0.5  # of the boxes [m]
UNSOLVED = 0.1  # residual of a step that counts as not solved [m/s, rad/s]


@jax.tree_util.register_static
class Limp:
    """No torque."""

    def init(self, model, state, obs):
        return ()

    def update(self, memory, model, state, obs, dt):
        return memory, no_control(model)


def ragdoll(ground: str, self_collision: bool, character: str = "space") -> Model:
    """A human over boxes on a plane or on rough ground, or over a plane alone."""
    if ground == "flat" and not self_collision:
        return CHARACTERS[character]()
    builder = ModelBuilder()
    add_model(builder, CHARACTERS[character](), world_shapes=False)
    if ground == "rough":
        n = round(FIELD / CELL) + 1
        heights = ROUGHNESS * np.random.default_rng(0).uniform(size=(n, n))
        builder.add_shape("world", height_field(heights, (FIELD / 2, FIELD / 2), name="ground"))
    else:
        builder.add_shape("world", plane(name="ground"))
    for k, (half, pos, turn) in enumerate(BOXES if ground != "flat" else ()):
        quat = (np.cos(turn / 2), 0.0, 0.0, np.sin(turn / 2))
        builder.add_shape("world", box(half, pos=pos, quat=quat, name=f"box{k}"))
    if self_collision:
        builder.add_self_collision()
        model = builder.build()
        for pair in overlapping_pairs(model, neutral_state(model).q.at[_height(model)].add(100.0)):
            builder.exclude_pair(*pair)
    return builder.build()


def _height(model: Model) -> int:
    """The root's height in q."""
    return 1 if model.topology.planar else 2


def falls(model: Model, count: int, seed: int = 0) -> State:
    """(count, ...) states: random poses within the limits, velocities, and heights over all shapes.

    Poses in which shapes of the body overlap by over a centimetre are drawn again.
    """
    top = model.topology
    zero = neutral_state(model)
    height_at, flat = _height(model), top.planar
    hinges = np.array([j for j in top.limited_joints if top.joint_kinds[j] == "hinge"])
    at = np.array(top.q_start)[hinges]

    @jax.jit
    @jax.vmap
    def draw(key):
        keys = jax.random.split(key, 6)
        lower, upper = model.joint_lower[hinges], model.joint_upper[hinges]
        angles = lower + (upper - lower) * jax.random.uniform(keys[0], lower.shape)
        place = jax.random.uniform(keys[1], (2,), minval=-1.0, maxval=1.0)
        turn = 2.0 * jax.random.normal(keys[2], (3,))
        q = zero.q.at[at].set(angles).at[:height_at].set(place[:height_at])
        q = q.at[2].set(turn[0]) if flat else q.at[3:7].set(quat_exp(turn))
        low = lowest_point(model, forward_kinematics(model, q, zero.qd))
        height = jax.random.uniform(keys[3], minval=0.02, maxval=1.0)
        q = q.at[height_at].add(TALLEST + height - low)
        sliding, root = (2, 3) if flat else (3, 6)
        speed = jnp.full(top.nv, 2.0).at[:sliding].set(1.5).at[sliding:root].set(3.0)
        qd = speed * jax.random.normal(keys[4], (top.nv,))
        gap = find_contacts(model, forward_kinematics(model, q, qd)).gap
        return q, qd, jnp.min(gap, initial=1.0) > -0.01

    keys = jax.random.split(jax.random.key(seed), 16 * count)
    q, qd, good = map(np.asarray, draw(keys))
    chosen = np.flatnonzero(good)[:count]
    assert len(chosen) == count, "too few poses without overlap"
    zeros = jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *x.shape)), zero)
    return zeros.replace(q=jnp.asarray(q[chosen]), qd=jnp.asarray(qd[chosen]))


def energy(sample: Sample) -> Array:
    """() kinetic and potential energy at the step's first instant [J]."""
    kin = sample.obs.kin
    of_motion = kinetic_energy(sample.model, kin, sample.state.qd)
    return of_motion + potential_energy(sample.model, kin)


def recovery_work(sample: Sample, config: TimeStepping) -> Array:
    """() the most that undoing penetration and exceeded limits may add in a step [J].

    A row that has gone too deep is given the velocity depth / time; its impulse does at most as
    much work as impulse times that velocity (Stewart and Trinkle's step dissipates the rest).
    """
    contacts = sample.obs.contacts
    force = jnp.sum(sample.info.contact_force * contacts.normal, axis=-1)
    depth = jnp.maximum(-contacts.gap, 0.0)
    gap = _limit_gaps(sample)
    beyond = jnp.maximum(-gap, 0.0)
    out = jnp.minimum(depth / config.stabilization_time, config.recovery_speed)
    back = beyond / config.stabilization_time
    return config.dt * (jnp.sum(force * out) + jnp.sum(jnp.abs(sample.info.limit_torque) * back))


def risen(config: TimeStepping, integration: bool) -> Measure:
    """(work, least, rise): the largest rise over any stretch of time of the energy less the work of
    recovery so far, and less what the integration made of it (``StepInfo.energy_error``)."""

    def update(value, sample):
        work, least, rise = value
        left = energy(sample) - work
        least = jnp.minimum(least, left)
        more = recovery_work(sample, config)
        if integration:
            more = more + sample.info.energy_error
        return work + more, least, jnp.maximum(rise, left - least)

    return Measure((0.0, jnp.inf, 0.0), update)


def raw_rise() -> Measure:
    """(least, rise): the largest rise over any stretch of time of the energy, whatever made it."""

    def update(value, sample):
        least, rise = value
        now = energy(sample)
        least = jnp.minimum(least, now)
        return least, jnp.maximum(rise, now - least)

    return Measure((jnp.inf, 0.0), update)


def beyond_limit(sample: Sample) -> Array:
    """() by how much a joint is beyond its limit [rad]."""
    return jnp.max(-_limit_gaps(sample))


def _limit_gaps(sample: Sample) -> Array:
    """(nl,) how far each limited joint is from the nearer limit, negative beyond it [rad]."""
    return limit_rows(sample.model, sample.state.q, sample.state.qd, 0.0, 1.0)[2]


def measures(config: TimeStepping, seconds: float, settled: float = 1.0) -> dict[str, Measure]:
    """What a run reports of each fall; "settled" in its last second."""

    def late(sample, value):
        return jnp.where(sample.state.time > seconds - settled, value, 0.0)

    return {
        "beyond": largest(beyond_limit),
        "deepest": largest(lambda s: s.info.penetration),
        "depth": largest(lambda s: late(s, s.info.penetration)),
        "speed": largest(lambda s: late(s, jnp.max(jnp.abs(s.state.qd)))),
        "residual": largest(lambda s: s.info.residual),
        "residual_sum": total(lambda s: s.info.residual),
        "unsolved": total(lambda s: (s.info.residual > UNSOLVED).astype(s.state.q.dtype)),
        "dropped_contacts": largest(lambda s: s.info.dropped_contacts.astype(s.state.q.dtype)),
        "energy": risen(config, integration=False),
        "of_sweeps": risen(config, integration=True),
        "raw": raw_rise(),
        "first_energy": Measure(-jnp.inf, lambda v, s: jnp.where(v == -jnp.inf, energy(s), v)),
    }
