"""Policy files: a NumPy archive of a network, its observations, actions and character.

about       JSON: format, observation, action, scale, rate [1/s], command (name -> number),
            motors (their names), scenario, versions, and details of the learning
pose        (nq,) that observed angles and heights count from
rest        (nq,) that actions count from, if it is another one
mean, deviation            (no,) of the observations
kernel_0, bias_0, ...      of the layers
track_q, track_rate, track_moves   (T, nq), () [Hz], (3,) [m]: poses of the clip that the policy
                           was learned with; the last only if it loops
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

from controllers.policy.actions import ACTIONS, action_of
from controllers.policy.controller import PolicyController
from controllers.policy.network import Network
from controllers.policy.observations import OBSERVATIONS, observation_vector
from controllers.policy.view import PolicyInput, stance
from controllers.tracking.track import Track
from jaxsim.io.archive import read_arrays
from jaxsim.io.files import write_bytes
from jaxsim.io.toml_table import format_value, is_number
from jaxsim.model import Model, State
from jaxsim.model.part import part_of
from jaxsim.ranges import RANGES
from jaxsim.simulation.step import TimeStepping

FORMAT = 1
FASTEST = 1 / RANGES["dt"].least  # actions a second: one a step of the shortest there is
LARGEST = {  # bytes of each array
    **dict.fromkeys(("about", "pose", "rest", "mean", "deviation", "bias_*"), 2**20),
    **dict.fromkeys(("kernel_*", "track_q"), 64 * 2**20),
    **dict.fromkeys(("track_rate", "track_moves"), 1000),
}


class PolicyError(ValueError):
    """A policy file that is invalid, or does not fit the character."""


@dataclass(frozen=True)
class PolicyFile:
    """Contents of a policy file; ``about``: see above."""

    network: Network
    pose: np.ndarray
    about: dict[str, Any]
    track: Track | None = None
    rest: np.ndarray | None = None

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file as a whole. Raises ValueError for observations without a name."""
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
        """Controller that drives a model by this policy.

        Raises PolicyError for a model with other motors, and where the poses or observations have
        other sizes.
        """
        motors = list(model.topology.actuated_dof_names)
        names = self.about["motors"]
        if motors != names:
            differ = [name for name in names if name not in motors] or motors[len(names) :]
            raise PolicyError(
                f"the policy is one of another character: it was learned in"
                f" {self.about['scenario']!r} with {len(names)} motors, this one has {len(motors)}"
                f" ({', '.join(differ[:3]) or 'in another order'} ...)"
            )
        self._check_poses(model)
        dtype = model.mass.dtype
        pose = _whole(self.pose, state)
        upright, height = jax.jit(stance)(model, state.replace(q=pose))
        network = Network(
            tuple((jnp.asarray(k, dtype), jnp.asarray(b, dtype)) for k, b in self.network.layers),
            jnp.asarray(self.network.mean, dtype),
            jnp.asarray(self.network.deviation, dtype),
        )
        command = {name: jnp.asarray(x, dtype) for name, x in self.about["command"].items()}
        controller = PolicyController(
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
        self._check_observed(controller, model, state)
        return controller

    def other_scenario(self, name: str) -> tuple[str, ...]:
        """Note for a policy that was learned in another scenario than this one, by name or file."""
        learned = self.about["scenario"]
        if Path(name).stem == Path(learned).stem:
            return ()
        return (f"the policy was learned in {learned!r}, and this is {Path(name).stem!r}",)

    def _check_poses(self, model: Model) -> None:
        """Raise PolicyError for poses of other sizes than the character's.

        The scenario may have more links than the character.
        """
        top = model.topology
        own = len(part_of(top, tuple(top.main_links.tolist())).q)
        for name, pose in (("pose", self.pose), ("rest", self.rest)):
            if pose is not None and len(pose) < own:
                raise PolicyError(
                    f"the policy's {name} has {len(pose)} numbers, and the character has {own}"
                    " coordinates"
                )
        if self.track is not None and self.track.q.shape[1] != top.nq:
            raise PolicyError(
                f"the clip of the policy has {self.track.q.shape[1]} numbers a frame, and the scene"
                f" has {top.nq} coordinates"
            )

    def _check_observed(self, controller: PolicyController, model: Model, state: State) -> None:
        def seen(state: State) -> Array:
            obs = TimeStepping().observe(model, state)
            clip_pose = None if controller.track is None else controller.track.at(model, state.time)
            action = jnp.zeros(len(self.about["motors"]), model.mass.dtype)
            view = PolicyInput(
                model,
                state,
                obs,
                controller.pose,
                controller.upright,
                controller.height,
                controller.command,
                action,
                clip_pose,
            )
            return observation_vector(controller.observation, view)

        try:
            size = jax.eval_shape(seen, state).shape
        except ValueError as error:  # of a part that needs a clip
            raise PolicyError(f"the policy cannot observe this character: {error}") from error
        if size != controller.network.mean.shape:
            raise PolicyError(
                f"the policy's network takes {len(controller.network.mean)} numbers, and what it"
                f" observes here ({', '.join(map(str, controller.observation))}) has {size[0]}"
            )


def read_policy(path: str | os.PathLike[str]) -> PolicyFile:
    """Read a policy file.

    Raises FileNotFoundError, ArchiveError for a damaged file, PolicyError for one of another kind
    or version, or with values that no policy has.
    """
    arrays = read_arrays(path, LARGEST)
    try:
        about = json.loads(str(arrays.pop("about")))
        if not isinstance(about, dict):
            raise TypeError(f"its description is {format_value(about)}")
        version = about["format"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise PolicyError(f"{path} is no policy file: it lacks {error}") from error
    if version != FORMAT:
        raise PolicyError(
            f"{path} has format {format_value(version)}, this version reads {FORMAT}; learn it anew"
        )
    try:
        _check_about(about)
        layers = _layers(arrays)
        _check_arrays(arrays, layers, len(about["motors"]))
    except PolicyError as error:
        raise PolicyError(f"{path}: {error}") from None
    track = None
    if "track_q" in arrays:
        poses: Any = [arrays.get(f"track_{part}") for part in ("rate", "q", "moves")]
        track = Track(*poses)
    network = Network(layers, arrays["mean"], arrays["deviation"])
    return PolicyFile(network, arrays["pose"], about, track, arrays.get("rest"))


def _check_about(about: dict[str, Any]) -> None:
    """Raise PolicyError for a description that is invalid in this version."""

    def texts(value: Any) -> bool:
        return isinstance(value, list) and all(isinstance(each, str) for each in value)

    def numbers(value: Any) -> bool:
        return isinstance(value, dict) and all(map(is_number, value.values()))

    def positive(value: Any) -> bool:
        return is_number(value) and value > 0

    checks = {
        "observation": (texts, "a list of names"),
        "action": (lambda value: isinstance(value, str), "a name"),
        "scale": (positive, "a positive number"),
        "rate": (lambda x: positive(x) and x <= FASTEST, f"above 0, at most {FASTEST:g} a second"),
        "command": (numbers, "numbers by name"),
        "motors": (texts, "a list of names"),
        "scenario": (lambda value: isinstance(value, str), "a name"),
    }  # fmt: skip
    for key, (good, what) in checks.items():
        if key not in about:
            raise PolicyError(f"is of another version: it lacks {key}")
        if not good(about[key]):
            raise PolicyError(f"{key} is {format_value(about[key])}; a policy has {what}")
    unknown = [part for part in about["observation"] if part not in OBSERVATIONS]
    unknown += [] if about["action"] in ACTIONS else [about["action"]]
    if unknown or not about["observation"]:
        what = ", ".join(unknown) or "what is observed"
        raise PolicyError(f"is of another version: this one does not know, or lacks, {what}")


def _layers(arrays: dict[str, np.ndarray]) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Kernels and biases in their order."""
    count = sum(name.startswith("kernel_") for name in arrays)
    names = [f"{part}_{k}" for k in range(count) for part in ("kernel", "bias")]
    missing = [name for name in names if name not in arrays] or ([] if count else ["kernel_0"])
    if missing:
        raise PolicyError(f"it lacks {missing[0]}")
    return tuple((arrays[f"kernel_{k}"], arrays[f"bias_{k}"]) for k in range(count))


def _check_arrays(arrays: dict[str, np.ndarray], layers: Any, motors: int) -> None:
    """Raise PolicyError for arrays of other types or sizes than a network has, or not finite."""
    missing = [name for name in ("pose", "mean", "deviation") if name not in arrays]
    missing += ["track_rate"] if "track_q" in arrays and "track_rate" not in arrays else []
    if missing:
        raise PolicyError(f"it lacks {missing[0]}")
    observed = arrays["mean"].size
    sizes: dict[str, tuple[int | None, ...]] = {"pose": (None,), "rest": (None,)}
    sizes |= {"mean": (observed,), "deviation": (observed,)}
    sizes |= {"track_q": (None, None), "track_rate": (), "track_moves": (3,)}
    inside = observed
    for k, (_, bias) in enumerate(layers):
        outside = motors if k == len(layers) - 1 else bias.size
        sizes |= {f"kernel_{k}": (inside, outside), f"bias_{k}": (outside,)}
        inside = outside
    for name, array in arrays.items():
        if array.dtype.kind != "f":
            raise PolicyError(f"{name} holds {array.dtype}; a policy has real numbers there")
        size = sizes.get(name)
        fits = size is not None and array.ndim == len(size)
        if not fits or any(n is not None and n != m for n, m in zip(size or (), array.shape)):
            shape = "(" + ", ".join("n" if n is None else str(n) for n in size or ()) + ")"
            raise PolicyError(f"{name} has shape {array.shape}; beside the others it is {shape}")
        if not array.size or not np.isfinite(array).all():
            what = "is not finite; what learned it went wrong" if array.size else "is empty"
            raise PolicyError(f"{name} {what}")
    for name in ("deviation", "track_rate"):
        if name in arrays and not (arrays[name] > 0).all():
            raise PolicyError(f"{name} is {arrays[name].min():g} somewhere; it has to be positive")
    if "track_q" in arrays and len(arrays["track_q"]) < 2:
        raise PolicyError("track_q has one frame; a clip has at least 2")


def _whole(pose: np.ndarray, state: State) -> Array:
    """Coordinates of the whole scenario, from a pose of the character or of the scenario."""
    given = jnp.asarray(pose, state.q.dtype)
    if given.shape == state.q.shape:
        return given
    return jnp.asarray(state.q).at[: given.shape[0]].set(given[: state.q.shape[0]])
