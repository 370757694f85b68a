"""Tasks that a controller gives to a step: weighted rows on the velocity, weights of contacts."""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.synthesis.configuration import Configuration


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TaskRows:
    """Rows J v' - r, whose squares are minimised or which are kept at zero.

    J and r contain units and weights.
    """

    J: Array  # (m, nv)
    r: Array  # (m,)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Tasks:
    """Tasks of one step. An absent goal has weight zero: rows are masked, never left out."""

    goals: TaskRows
    relax: Array  # (ne,) weights on the contact force of an effector, in body weights
    still: Array  # (ne,) weights on the motion of an effector in contact
    torque: Array  # () weight on the change of the joint torques
    effort: Array | None = None  # (nv,) weights on the torques, relative to their limits
    fixed: TaskRows | None = (
        None  # equations that the velocity fulfils; zero rows where there is none
    )
    grip: Array | None = None  # (ne,) bool: effectors with a contact force in any direction
    clasp: Array | None = None  # (nc,) bool: hand holds to close, see ``synthesis.clasps``
    hold: Array | None = None  # (ng,) int: hold that each gripper asks for, or ``holds.NO_HOLD``
    of_goal: Array | np.ndarray | None = None  # (m,) int: goal of each row; None: all of one
    apart: Array | None = None  # (ne,) bool: effectors without force, whatever they touch
    n_goals: int = field(default=1, metadata={"static": True})
    # (m,) of each row of ``goals``, from 0 on, see ``synthesis.levels``; (): one weighted sum
    levels: tuple[int, ...] = field(default=(), metadata={"static": True})


def position_rows(
    conf: Configuration, error: Array, J: Array, at_v: Array, scale: Array, dt
) -> TaskRows:
    """TaskRows that bring an error e (m,) with de/dt = J v to zero at the end of the step.

    conf and error belong to a configuration that ``at_v`` (nv,) leads to in the step (zero for the
    step's beginning): e + dt J (v' - at_v). scale () or (m,): root of the weight over the unit.
    """
    moved = dt * J
    return TaskRows(_times(scale, moved), scale * (moved @ at_v - error))


def velocity_rows(J: Array, target: Array, scale: Array | float) -> TaskRows:
    """TaskRows that bring J v' to a target (m,)."""
    return TaskRows(_times(scale, J), scale * target)


def _times(scale, J):
    return jnp.asarray(scale)[..., None] * J


def stack_rows(*parts: TaskRows) -> TaskRows:
    """Concatenate task rows."""
    return jax.tree.map(lambda *x: jnp.concatenate(x), *parts)


def plain_tasks(conf: Configuration, damping: Array | float) -> Tasks:
    """Tasks with the single goal of coming to rest: a base for tests and custom goals."""
    nv, ne = conf.v.shape[0], conf.effectors.count
    scale = jnp.sqrt(jnp.asarray(damping, conf.v.dtype))
    return Tasks(
        goals=velocity_rows(jnp.eye(nv, dtype=conf.v.dtype), jnp.zeros(nv, conf.v.dtype), scale),
        relax=jnp.zeros(ne, conf.v.dtype),
        still=jnp.ones(ne, conf.v.dtype),
        torque=jnp.ones((), conf.v.dtype),
    )


def root_of_weight(weight: Array) -> Array:
    """Square root of weights, 0 with gradient 0 where they are not positive."""
    off = weight <= 0
    return jnp.where(off, 0.0, jnp.sqrt(jnp.where(off, 1.0, weight)))
