"""Checks of an environment's arguments, and of divergence during an episode."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.policy.actions import ClipOffsets
from jaxsim.model import State

OF_CLIPS = ("clip_error", "clip_joints", "clip_rates", "clip_ends", "clip_place", "astray")
FARTHEST = 1e6  # of an observation, which is of order one: what is beyond is no motion


def finite_parts(state: State, observation: Array, parts: Mapping[str, Array]) -> dict[str, Array]:
    """Finiteness () bool of state, observation and each reward."""
    return {
        "state": jnp.isfinite(state.q).all() & jnp.isfinite(state.qd).all(),
        "observation": (jnp.abs(observation) < FARTHEST).all(),  # false of NaN, too
        **{f"reward {name}": jnp.isfinite(part) for name, part in parts.items()},
    }


def scalar(value: Any, what: str, name: Any) -> Array:
    """Value of a reward or termination function as an array ().

    Raises ValueError for another shape.
    """
    value = jnp.asarray(value)
    if value.shape:
        raise ValueError(
            f"the {what} {name_of(name)!r} has shape {value.shape}; give one number, ()"
        )
    return value


def name_of(what: Any) -> str:
    """Name of a part that is a name, or a function."""
    return what if isinstance(what, str) else getattr(what, "__name__", "of your own")


def check_no_clip(parts: Sequence[Any], action: Any) -> None:
    """Raise ValueError for names of parts, or an action, that need a clip."""
    found = [part for part in parts if part in OF_CLIPS]
    found += ["clip_offsets"] if isinstance(action, ClipOffsets) else []
    if found:
        raise ValueError(
            f"{found[0]!r} needs a clip to follow; name one in [environment.clip], or as clip= of"
            " as_env"
        )


def check_command(command: Mapping[str, tuple[float, float]]) -> None:
    """Raise ValueError for an invalid range."""
    for name, (low, high) in command.items():
        if not (np.isfinite([low, high]).all() and low <= high):
            raise ValueError(f"the command {name!r} has no range from {low} to {high}")
