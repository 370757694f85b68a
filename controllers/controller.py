"""Controller base: numbers of a frozen pytree, a memory, and an update at each step.

A controller needs ``init`` and ``update``; every other member has a default here, so that pages,
summaries and studies ask each controller alike. ``Wrapped`` is the base of a controller that runs
another one, and forwards all of them.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.numbers import path_of
from controllers.source import NumberSource
from jaxsim.model import Model, State
from jaxsim.simulation.checks import check_controller
from jaxsim.tree_paths import read, write

# Earlier name -> name, of members that a class may still define for one version.
RENAMED = {
    "account": "summary_entries",
    "changes": "phase_changes",
    "drawn": "flying_objects",
    "ghost": "reference_poses",
    "reaches": "reach_targets",
    "shares": "goal_shares",
}


class Controller:
    """Frozen pytree of gains with two pure functions; ``dt`` is the step that follows [s]."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for old, new in RENAMED.items():
            if old in cls.__dict__ and new not in cls.__dict__:
                warnings.warn(
                    f"{cls.__name__}.{old} is now {new}; rename it",
                    DeprecationWarning,
                    stacklevel=2,
                )
                setattr(cls, new, cls.__dict__[old])

    def init(self, model: Model, state: State, obs: Any) -> Any:
        """Memory before the first step; obs: what the scheme observes in ``state``."""
        raise NotImplementedError(f"{type(self).__name__} has no init(model, state, obs)")

    def update(
        self, memory: Any, model: Model, state: State, obs: Any, dt: Array
    ) -> tuple[Any, Any]:
        """Memory after the step that starts now, and its command: a ``Control``, or tasks."""
        raise NotImplementedError(
            f"{type(self).__name__} has no update(memory, model, state, obs, dt)"
        )

    def check(self, model: Model) -> None:
        """Raise ModelError where a target or gain does not fit the model; called before a run."""

    def resized(self, model: Model, grow: Callable[[Model], Model]) -> Self:
        """Controller for the body ``grow(model)``, which may be traced.

        Overridden where the numbers include lengths, masses or a model.
        """
        return self

    # ---- numbers by name ---------------------------------------------------------------------

    @property
    def labels(self) -> Mapping[str, str]:
        """Label -> path of numbers."""
        return {}

    def get(self, name: str) -> Any:
        """Number, or numbers, of a label or path. Raises as ``set`` does."""
        return read(self, path_of(self, name))

    def set(self, name: str, value: Any) -> Self:
        """Copy with the numbers of a label or path changed; value may be traced.

        Raises KeyError for what is neither, with the nearest labels and paths, IndexError for an
        element out of range, ValueError for a value of another shape.
        """
        return write(self, path_of(self, name), value)

    def number_source(self, files: Mapping[str, str], model: Model) -> NumberSource:
        """Numbers as the user wrote them: ranges, units and files, for tuning and tables.

        files: name -> text, of the scenario.
        """
        return NumberSource()

    # ---- phases ------------------------------------------------------------------------------

    @property
    def phase_names(self) -> tuple[str, ...]:
        """Names by the index that ``phase`` gives; () without phases."""
        return ()

    def phase(self, memory: Any) -> tuple[Array, Array]:
        """Index of the present phase, () int, -1 without phases, and when it began, () [s]."""
        return jnp.asarray(-1), jnp.zeros(())

    def phase_changes(self, before: Any, after: Any) -> list[tuple[float, int]] | None:
        """(time [s], index) of each phase entered between two memories, on the host.

        None: read from the frames of the record, which a phase shorter than a frame escapes.
        """
        return None

    # ---- what pages and summaries show -------------------------------------------------------

    def gauges(self, memory: Any) -> dict[str, Array]:
        """Name -> () number of this step, or () bool for a strip over time."""
        return {}

    def gauge_limits(self) -> dict[str, tuple[str, tuple[float, ...]]]:
        """Name -> (unit, increasing thresholds in it), in the order shown; ("", ()) of a bool."""
        return {}

    def record(self, model: Model, state: State, memory: Any) -> dict[str, Array]:
        """Arrays to save with a frame, by name; evaluated only where a frame is recorded."""
        return {}

    def reference_poses(
        self, model: Model, time: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Link poses of the reference motion at times (T,) [s], or None.

        Positions (T, nl, 3) [m] and orientations (T, nl, 4) (w first), NaN for links that the
        reference lacks.
        """
        return None

    def flying_objects(self, model: Model, time: np.ndarray) -> list[tuple[float, np.ndarray]]:
        """(radius, positions (T, 3)) [m] of balls that are not bodies of the model."""
        return []

    @property
    def reach_targets(self) -> Sequence[Any]:
        """``controllers.goals.account.Reach`` for each point that an effector is to reach."""
        return ()

    def goal_shares(self, frames: Any) -> dict[str, np.ndarray]:
        """Goal -> (T,) share of the objective, of 1; frames of the record."""
        return {}

    def summary_entries(
        self, scheme: Any, model: Model, frames: Any, time: np.ndarray
    ) -> dict[str, Any]:
        """Entries that the summary of a run gets besides the usual ones, by key."""
        return {}


class Wrapped(Controller):
    """Controller that runs another one, ``inner``, and forwards every member to it.

    A subclass that keeps more than the inner memory, or gives the inner controller another model,
    scheme or record, overrides the ``inner_*`` methods.
    """

    inner: Any  # Controller

    def inner_memory(self, memory: Any) -> Any:
        """Memory of the inner controller."""
        return memory

    def inner_model(self, model: Model) -> Model:
        """Model that the inner controller acts on."""
        return model

    def inner_scheme(self, scheme: Any) -> Any:
        """Scheme that the inner controller acts under."""
        return scheme

    def inner_frames(self, scheme: Any, model: Model, frames: Any, time: np.ndarray) -> Any:
        """Frames of the record as the inner controller's own scheme would have them."""
        return frames

    def init(self, model: Model, state: State, obs: Any) -> Any:
        return self.inner.init(model, state, obs)

    def update(
        self, memory: Any, model: Model, state: State, obs: Any, dt: Array
    ) -> tuple[Any, Any]:
        return self.inner.update(memory, model, state, obs, dt)

    def check(self, model: Model) -> None:
        check_controller(self.inner_model(model), self.inner)

    @property
    def labels(self) -> Mapping[str, str]:
        return {label: f"inner.{path}" for label, path in self.inner.labels.items()}

    def number_source(self, files: Mapping[str, str], model: Model) -> NumberSource:
        return self.inner.number_source(files, self.inner_model(model)).under("inner.")

    @property
    def phase_names(self) -> tuple[str, ...]:
        return self.inner.phase_names

    def phase(self, memory: Any) -> tuple[Array, Array]:
        return self.inner.phase(self.inner_memory(memory))

    def phase_changes(self, before: Any, after: Any) -> list[tuple[float, int]] | None:
        return self.inner.phase_changes(self.inner_memory(before), self.inner_memory(after))

    def gauges(self, memory: Any) -> dict[str, Array]:
        return self.inner.gauges(self.inner_memory(memory))

    def gauge_limits(self) -> dict[str, tuple[str, tuple[float, ...]]]:
        return self.inner.gauge_limits()

    def record(self, model: Model, state: State, memory: Any) -> dict[str, Array]:
        return self.inner.record(self.inner_model(model), state, self.inner_memory(memory))

    def reference_poses(
        self, model: Model, time: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        return self.inner.reference_poses(self.inner_model(model), time)

    def flying_objects(self, model: Model, time: np.ndarray) -> list[tuple[float, np.ndarray]]:
        return self.inner.flying_objects(self.inner_model(model), time)

    @property
    def reach_targets(self) -> Sequence[Any]:
        return self.inner.reach_targets

    def goal_shares(self, frames: Any) -> dict[str, np.ndarray]:
        return self.inner.goal_shares(frames)

    def summary_entries(
        self, scheme: Any, model: Model, frames: Any, time: np.ndarray
    ) -> dict[str, Any]:
        return self.inner.summary_entries(
            self.inner_scheme(scheme),
            self.inner_model(model),
            self.inner_frames(scheme, model, frames, time),
            time,
        )
