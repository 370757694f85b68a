"""Policy files: a NumPy archive of a network, and what it observes and drives, of which character.

about       JSON: format, observation, action, scale, rate [1/s], command (name -> number),
            motors (their names), scenario, versions, and how it was learned
pose        (nq,) that observed angles and heights count from
rest        (nq,) that actions count from, where it is another one
mean, deviation            (no,) of what was observed
kernel_0, bias_0, ...      of the layers
track_q, track_rate, track_moves   (T, nq), () [Hz], (3,) [m]: of one that was learned with a clip,
                           its poses; the last only where it loops
"""

import io
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.policy.actions import action_of
from controllers.policy.controller import PolicyController
from controllers.policy.network import Network
from controllers.policy.observations import OBSERVATIONS
from controllers.policy.view import stance
from controllers.tracking.track import Track
from jaxsim.io.archive import read_arrays
from jaxsim.io.files import write_bytes
from jaxsim.model import Model, State

FORMAT = 1
NEEDED = ("format", "observation", "action", "scale", "rate", "command", "motors", "scenario")


class PolicyError(ValueError):
    """A policy file that cannot be used."""


@dataclass(frozen=True)
class PolicyFile:
    """What a file holds; ``about``: see above."""

    network: Network
    pose: np.ndarray
    about: dict[str, Any]
    track: Track | None = None
    rest: np.ndarray | None = None

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file as a whole. Raises ValueError for a part that has no name of its own."""
        own = [part for part in self.about["observation"] if part not in OBSERVATIONS]
        if own:
            raise ValueError("a policy with observations of your own cannot be kept as a file")
        arrays: dict[str, Any] = {"about": json.dumps({**self.about, "format": FORMAT})}
        arrays |= {"pose": self.pose, "mean": self.network.mean}
        arrays["deviation"] = self.network.deviation
        for k, (kernel, bias) in enumerate(self.network.layers):
            arrays |= {f"kernel_{k}": kernel, f"bias_{k}": bias}
        if self.rest is not None:
            arrays["rest"] = self.rest
        if self.track is not None:
            arrays |= {"track_q": self.track.q, "track_rate": self.track.rate}
            if self.track.moves is not None:
                arrays["track_moves"] = self.track.moves
        data = io.BytesIO()
        np.savez(data, **{name: np.asarray(x) for name, x in arrays.items()})  # type: ignore
        write_bytes(Path(path), data.getvalue())

    def controller(self, model: Model, state: State) -> PolicyController:
        """What drives a model by it. Raises PolicyError for a model with other motors."""
        motors = list(model.topology.actuated_dof_names)
        given = self.about["motors"]
        if motors != given:
            differ = [name for name in given if name not in motors] or motors[len(given) :]
            raise PolicyError(
                f"the policy is one of another character: it was learned in"
                f" {self.about['scenario']!r} with {len(given)} motors, this one has {len(motors)}"
                f" ({', '.join(differ[:3]) or 'in another order'} ...)"
            )
        dtype = model.mass.dtype
        pose = _whole(self.pose, state)
        upright, height = jax.jit(stance)(model, state.replace(q=pose))
        network = Network(
            tuple((jnp.asarray(k, dtype), jnp.asarray(b, dtype)) for k, b in self.network.layers),
            jnp.asarray(self.network.mean, dtype),
            jnp.asarray(self.network.deviation, dtype),
        )
        command = {name: jnp.asarray(x, dtype) for name, x in self.about["command"].items()}
        return PolicyController(
            network=network,
            pose=pose,
            upright=upright,
            height=height,
            command=command,
            rate=jnp.asarray(self.about["rate"], dtype),
            observation=tuple(self.about["observation"]),
            action=action_of(self.about["action"], self.about["scale"]),
            rest=pose if self.rest is None else _whole(self.rest, state),
            track=jax.tree.map(lambda x: jnp.asarray(x, dtype), self.track),
        )


def read_policy(path: str | os.PathLike[str]) -> PolicyFile:
    """A policy file. Raises FileNotFoundError, ArchiveError for a damaged file, PolicyError for one
    of another kind or version."""
    arrays = read_arrays(path)
    try:
        about = json.loads(str(arrays["about"]))
        if about["format"] != FORMAT:
            raise PolicyError(
                f"{path} has format {about['format']}, this version reads {FORMAT}; learn it anew"
            )
        missing = [key for key in NEEDED if key not in about]
        count = sum(name.startswith("kernel_") for name in arrays)
        layers = tuple((arrays[f"kernel_{k}"], arrays[f"bias_{k}"]) for k in range(count))
        network = Network(layers, arrays["mean"], arrays["deviation"])
        pose, track = arrays["pose"], None
        if "track_q" in arrays:
            poses: Any = [arrays.get(f"track_{part}") for part in ("rate", "q", "moves")]
            track = Track(*poses)
    except PolicyError:
        raise
    except Exception as error:
        raise PolicyError(f"{path} is no policy file: it lacks {error}") from error
    unknown = [part for part in about.get("observation", ()) if part not in OBSERVATIONS]
    if missing or unknown or not layers:
        what = ", ".join([*missing, *unknown]) or "layers"
        raise PolicyError(f"{path} is of another version: this one does not know, or lacks, {what}")
    wrong = [n for n, x in arrays.items() if x.dtype.kind == "f" and not np.isfinite(x).all()]
    if wrong:
        raise PolicyError(f"{path}: {wrong[0]} is not finite; what learned it went wrong")
    return PolicyFile(network, pose, about, track, arrays.get("rest"))


def _whole(pose: np.ndarray, state: State) -> Array:
    """A pose with what the scene has beside the character as a state has it."""
    given = jnp.asarray(pose, state.q.dtype)
    if given.shape == state.q.shape:
        return given
    return jnp.asarray(state.q).at[: given.shape[0]].set(given[: state.q.shape[0]])
