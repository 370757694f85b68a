"""Reference motion: poses, with the quantities that a tracking controller compares, frame by frame.

Source: the topple-free-foot paper, sections 3 and 5. Velocities are central differences of the
poses after a low-pass filter without delay; momentum and centre of mass are those of the model that
follows, not of the person who was recorded.
"""

import dataclasses
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.signal import butter, sosfiltfilt

from controllers.tracking.parts import Parts
from controllers.tracking.track import Track, place
from jaxsim.dynamics.jacobians import center_of_mass, com_velocity
from jaxsim.dynamics.kinematics import difference, forward_kinematics
from jaxsim.dynamics.momentum import angular_momentum
from jaxsim.math.rotation import (
    matrix_to_quat,
    quat_conjugate,
    quat_exp,
    quat_log,
    quat_multiply,
    quat_rotate,
)
from jaxsim.model import Model, ModelError, State, neutral_state

CUTOFF = 6.0  # of the filter of velocities [Hz]
SEAM = 0.1  # between the last pose of a cycle and its first one, at most [rad], [m]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Instant:
    """One instant of a reference, with its fields; None for a field that is not compared."""

    q: Array
    qd: Array
    com: Array
    com_velocity: Array
    com_acceleration: Array
    momentum: Array
    momentum_rate: Array
    trunk: Array | None
    trunk_velocity: Array
    sole: Array | None
    stance: Array | None

    def turned(self, angle: Array) -> "Instant":
        """Instant rotated about the vertical by an angle () [rad], except the root in q and qd."""
        turn = quat_exp(jnp.array([0.0, 0.0, 1.0], self.q.dtype) * angle)

        def of(x):
            return None if x is None else quat_rotate(turn, x)

        return replace(
            self,
            com=of(self.com),
            com_velocity=of(self.com_velocity),
            com_acceleration=of(self.com_acceleration),
            momentum=of(self.momentum),
            momentum_rate=of(self.momentum_rate),
            trunk=None if self.trunk is None else quat_multiply(turn, self.trunk),
            trunk_velocity=of(self.trunk_velocity),
            sole=of(self.sole),
        )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Reference:
    """T frames at a rate, from time 0 on; before and after, the nearest frame at rest.

    A reference that loops continues for ever: its last frame is its first one, moved on.
    """

    rate: Array  # () [Hz]
    q: Array  # (T, nq)
    qd: Array  # (T, nv)
    com: Array  # (T, 3) centre of mass [m]
    com_velocity: Array  # (T, 3) [m/s]
    com_acceleration: Array  # (T, 3) [m/s^2]
    momentum: Array  # (T, 3) angular, about the centre of mass [N m s]
    momentum_rate: Array  # (T, 3) [N m]
    trunk: Array  # (T, 4) orientation of the chest
    trunk_velocity: Array  # (T, 3) its angular velocity, in the world's axes [rad/s]
    sole: Array  # (T, 2, 3) middle of each sole, left and right [m]
    stance: Array  # (T, 2) bool: stance feet
    moves: Array | None = None  # (3,) from the first frame to the last, if it loops [m]

    @property
    def frames(self) -> int:
        """Number T of frames."""
        return self.q.shape[0]

    @property
    def track(self) -> Track:
        """Poses alone."""
        return Track(self.rate, self.q, self.moves)

    def duration(self) -> Array:
        """Time () from the first frame to the last [s]."""
        return (self.frames - 1) / self.rate

    def at(self, model: Model, time: Array) -> Instant:
        """Instant at a time [s]: straight lines and great circles between the frames."""
        now = place(time, self.rate, self.frames, self.moves, self.q.dtype)
        inside, between = now.inside, now.between
        trunk = self.trunk[now.k]
        turn = quat_log(quat_multiply(quat_conjugate(trunk), self.trunk[now.after]))
        return Instant(
            q=self.track.at(model, time),
            qd=inside * between(self.qd),
            com=between(self.com) + now.moved,
            com_velocity=inside * between(self.com_velocity),
            com_acceleration=inside * between(self.com_acceleration),
            momentum=inside * between(self.momentum),
            momentum_rate=inside * between(self.momentum_rate),
            trunk=quat_multiply(trunk, quat_exp(now.part * turn)),
            trunk_velocity=inside * between(self.trunk_velocity),
            sole=between(self.sole) + now.moved,
            stance=self.stance[now.k],
        )

    @jax.jit
    def state(self, model: Model, time: Array | float = 0.0, heading: Array | float = 0.0) -> State:
        """State of the model on the reference at a time [s], moving along.

        heading: rotation about the vertical through the origin [rad]; the state's clock begins at
        0.
        """
        now = self.at(model, jnp.asarray(time, self.q.dtype))
        turn = quat_exp(jnp.array([0.0, 0.0, 1.0], now.q.dtype) * heading)
        q, qd, top = now.q, now.qd, model.topology
        root = top.joints_of("free")[0]
        at, dof = top.q_start[root], top.v_start[root]
        q = q.at[at : at + 3].set(quat_rotate(turn, q[at : at + 3]))
        q = q.at[at + 3 : at + 7].set(quat_multiply(turn, q[at + 3 : at + 7]))
        qd = qd.at[dof : dof + 3].set(quat_rotate(turn, qd[dof : dof + 3]))
        return neutral_state(model).replace(q=q, qd=qd)


def reference(
    model: Model, q: Array | np.ndarray, rate: float, stance: Array | np.ndarray, parts: Parts
) -> Reference:
    """Reference from poses q (T, nq) at a rate [Hz] and the stance (T, 2) bool of the feet.

    Raises ModelError for poses that do not fit the model or are not finite, and for fewer than two
    frames.
    """
    q, stance = np.asarray(q, float), np.asarray(stance, bool)
    frames = len(q)
    if q.ndim != 2 or q.shape[1] != model.topology.nq or frames < 2:
        raise ModelError(
            f"reference: poses have shape {q.shape}, expected (T, {model.topology.nq}) with T at"
            " least 2"
        )
    if not np.isfinite(q).all():
        frame = int(np.argmin(np.isfinite(q).all(axis=1)))
        raise ModelError(f"reference: the pose of frame {frame} is not finite")
    if stance.shape != (frames, 2):
        raise ModelError(f"reference: stance has shape {stance.shape}, expected ({frames}, 2)")
    dtype = model.mass.dtype
    poses = jnp.asarray(q, dtype)
    ways = np.asarray(
        jax.jit(jax.vmap(lambda b, a: difference(model, b, a)))(poses[1:], poses[:-1])
    )
    middle = (ways[1:] + ways[:-1]) / 2
    qd = low_pass(np.concatenate([ways[:1], middle, ways[-1:]]) * rate, rate)
    derived = jax.jit(jax.vmap(lambda q, qd: _follows(model, parts, q, qd)))(
        poses, jnp.asarray(qd, dtype)
    )
    rates = {"com_velocity": "com_acceleration", "momentum": "momentum_rate"}
    for name, its_rate in rates.items():
        derived[its_rate] = jnp.asarray(
            np.gradient(np.asarray(derived[name]), 1 / rate, axis=0), dtype
        )
    return Reference(
        rate=jnp.asarray(rate, dtype),
        q=poses,
        qd=jnp.asarray(qd, dtype),
        stance=jnp.asarray(stance),
        **derived,
    )


def loop_reference(model: Model, three: Reference) -> Reference:
    """Reference that loops, from three cycles: the middle one.

    Raises ModelError where the last frame is not the first one, moved on without a rotation.
    """
    n = (three.frames - 1) // 3
    frames = {
        f.name: getattr(three, f.name)[n : 2 * n + 1]
        for f in dataclasses.fields(three)
        if f.name not in ("rate", "moves")
    }
    way = np.asarray(jax.jit(difference)(model, three.q[3 * n], three.q[2 * n]))
    root = model.topology.v_start[model.topology.joints_of("free")[0]]
    apart = float(np.abs(np.delete(way, [root, root + 1])).max())
    if not apart <= SEAM:
        raise ModelError(
            f"reference: it is to loop, but its last pose is {apart:.2f} (rad, or m of its height)"
            f" from the first one, more than {SEAM}; cut a clip that comes back, or leave out loop"
        )
    moves = jnp.asarray([*way[root : root + 2], 0.0], three.q.dtype)
    start = model.topology.q_start[model.topology.joints_of("free")[0]]
    frames["q"] = frames["q"].at[:, start : start + 3].add(-moves)
    for name in ("com", "sole"):
        frames[name] = frames[name] - moves
    return replace(three, **frames, moves=moves)


def turned_path(
    pos: np.ndarray, quat: np.ndarray, angle: np.ndarray, root: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rotate links (T, nl, 3) [m], (T, nl, 4) about the vertical by angles (T,) [rad].

    Link ``root`` moves from frame to frame in its present direction, from its first place rotated
    about the origin.
    """

    def turned(vectors, angle):
        cos, sin = (f(angle).reshape(-1, *[1] * (vectors.ndim - 2)) for f in (np.cos, np.sin))
        x, y, z = np.moveaxis(vectors, -1, 0)
        return np.stack([cos * x - sin * y, sin * x + cos * y, z], axis=-1)

    at = pos[:, root]
    ways = np.concatenate([at[:1], np.diff(at, axis=0)])
    middle = np.concatenate([angle[:1], (angle[1:] + angle[:-1]) / 2])
    path = np.cumsum(turned(ways, middle), axis=0)
    turn = np.zeros((len(angle), 1, 4))
    turn[..., 0], turn[..., 3] = np.cos(angle / 2)[:, None], np.sin(angle / 2)[:, None]
    return path[:, None] + turned(pos - at[:, None], angle), quat_multiply(turn, quat)


def low_pass(x: np.ndarray, rate: float) -> np.ndarray:
    """Low-pass filter x (T, n) at a rate [Hz] below ``CUTOFF``, without delay."""
    if rate <= 2 * CUTOFF or len(x) < 4:
        return x
    sections = butter(2, CUTOFF, fs=rate, output="sos")
    return sosfiltfilt(sections, x, axis=0, padlen=min(len(x) - 1, int(rate / CUTOFF) + 9))


def _follows(model: Model, parts: Parts, q: Array, qd: Array):
    """Fields of a frame that follow from its pose and velocities."""
    kin = forward_kinematics(model, q, qd)
    model, trunk = parts.alone(model), parts.trunk
    return {
        "com": center_of_mass(model, kin),
        "com_velocity": com_velocity(model, kin),
        "momentum": angular_momentum(model, kin),
        "trunk": matrix_to_quat(kin.link_rot[trunk]),
        "trunk_velocity": kin.velocity[trunk, :3],
        "sole": parts.soles(kin),
    }
