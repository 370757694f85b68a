"""Poses over time, and interpolation between them."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.dynamics.kinematics import difference, forward_kinematics, integrate
from jaxsim.math.rotation import matrix_to_quat
from jaxsim.model import Model, State


class Place(NamedTuple):
    """Position of an instant between two of T frames.

    ``part`` of the way from frame k to frame ``after``.
    """

    k: Array  # () int32
    after: Array  # () int32
    part: Array  # ()
    inside: Array | float  # 1, before the first frame and after the last one 0
    moved: Array  # (3,) since the first cycle, of one that loops [m]

    def between(self, x: Array) -> Array:
        """Linear interpolation of the rows of x (T, ...)."""
        return x[self.k] + self.part * (x[self.after] - x[self.k])


def place(time: Array, rate: Array, frames: int, moves: Array | None, dtype) -> Place:
    """Position of a time () [s] among frames at a rate [Hz].

    moves (3,): displacement from the first frame to the last, of a motion that loops [m].
    """
    at, last = time * rate, frames - 1.0
    inside, moved = jnp.where((at >= 0) & (at <= last), 1.0, 0.0), jnp.zeros(3, dtype)
    if moves is not None:
        cycle = jnp.floor(at / last)
        at, inside, moved = at - cycle * last, 1.0, cycle * moves
    at = jnp.clip(at, 0.0, last)
    k = jnp.minimum(at.astype(jnp.int32), max(frames - 2, 0))
    return Place(k, jnp.minimum(k + 1, frames - 1), (at - k).astype(dtype), inside, moved)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Track:
    """T poses at a rate, from time 0 on; before and after, the nearest one.

    A track that loops continues for ever: its last pose is its first one, moved on.
    """

    rate: Array  # () [Hz]
    q: Array  # (T, nq)
    moves: Array | None = None  # (3,) from the first pose to the last, of one that loops [m]

    def duration(self) -> Array:
        """Time () from the first pose to the last [s]."""
        return (self.q.shape[0] - 1) / self.rate

    def at(self, model: Model, time: Array) -> Array:
        """Pose (nq,) at a time () [s]: straight lines and great circles between its frames."""
        now = place(time, self.rate, self.q.shape[0], self.moves, self.q.dtype)
        a, b = self.q[now.k], self.q[now.after]
        q = integrate(model, a, difference(model, b, a), now.part)
        if self.moves is None:
            return q
        start = model.topology.q_start[model.topology.joints_of("free")[0]]
        return q.at[start : start + 3].add(now.moved)

    def places(self, model: Model, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Positions (T, nl, 3) [m] and quaternions (T, nl, 4) of the links at times (T,) [s]."""

        def of(time):
            q = self.at(model, time)
            kin = forward_kinematics(model, q, jnp.zeros(model.topology.nv, q.dtype))
            return kin.link_pos, matrix_to_quat(kin.link_rot)

        pos, quat = jax.lax.map(of, jnp.asarray(time, self.q.dtype))
        return np.array(pos, float), np.array(quat, float)

    def begun(self, model: Model, state: State) -> State:
        """State with the first pose, moving to the second one."""
        pose, later = self.q[0], self.q[1]
        rates = difference(model, later, pose) * self.rate
        return state.replace(q=pose, qd=rates.astype(state.qd.dtype))
