"""State of one simulation: positions, velocities, time, and the scheme's memory."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.model.errors import ModelError
from jaxsim.model.joints import Q_SIZE
from jaxsim.model.model import Model


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    """Generalised coordinates in the order of the model's joints, and the scheme's memory.

    solver: None at first; the scheme's ``init(model, state)`` makes it, and each step updates it
    (impulses of the last step, for example). Memory of another scheme is replaced.
    """

    q: Array  # (nq,) positions [m, rad, unit quaternions]
    qd: Array  # (nv,) velocities [m/s, rad/s]
    time: Array  # () [s]
    broken: Array | None = None  # (ng,) bool: broken grips; None for a model without grips
    solver: Any = None

    def replace(self, **changes) -> "State":
        """Copy with some fields changed."""
        return dataclasses.replace(self, **changes)


def neutral_q(model: Model) -> np.ndarray:
    """(nq,) zero pose: all joints at zero, all rotations at the identity; see ``neutral_state``."""
    top = model.topology
    q = np.zeros(top.nq)
    for kind, start in zip(top.joint_kinds, top.q_start, strict=True):
        if kind in ("ball", "free"):
            q[start + Q_SIZE[kind] - 4] = 1.0
    return q


def neutral_state(model: Model) -> State:
    """Zero pose at rest at time 0, in the model's precision; driven joints where they start."""
    dtype, top = model.mass.dtype, model.topology
    q = jnp.asarray(neutral_q(model), dtype)
    if top.driven_dofs.size:
        driven = np.array(top.q_start)[np.flatnonzero(top.joint_driven)]
        q = q.at[driven].set(model.drive.position(0.0))
    return State(
        q=q,
        qd=jnp.zeros(top.nv, dtype),
        time=jnp.zeros((), dtype),
        broken=jnp.zeros(top.n_grips, bool) if top.n_grips else None,
    )


def check_state(model: Model, state: State) -> None:
    """Raise ModelError if a (possibly batched) state does not fit the model or is not finite.

    Runs on the host, before a simulation. Names the field, and the members of a batch at fault.
    """
    top = model.topology
    for name, size in (("q", top.nq), ("qd", top.nv)):
        value = np.asarray(getattr(state, name))
        if value.ndim == 0 or value.shape[-1] != size:
            raise ModelError(
                f"state.{name} has shape {value.shape}, the model needs (..., {size}); build it "
                "with neutral_state(model) or a character's start pose"
            )
        finite = np.isfinite(value)
        if not finite.all():
            bad = np.argwhere(~finite)[0]
            member = f" of batch member {tuple(bad[:-1].tolist())}" if value.ndim > 1 else ""
            raise ModelError(f"state.{name}[{bad[-1]}]{member} is {value[tuple(bad)]}")
    q = np.asarray(state.q)
    for joint, (kind, start) in enumerate(zip(top.joint_kinds, top.q_start, strict=True)):
        if kind in ("ball", "free"):
            end = start + Q_SIZE[kind]
            norm = np.linalg.norm(q[..., end - 4 : end], axis=-1)
            if np.abs(norm - 1).max() > 1e-3:
                raise ModelError(
                    f"the quaternion of joint {top.joint_names[joint]!r} has length "
                    f"{float(norm.flat[np.abs(norm - 1).argmax()]):.4g}; normalise it"
                )
