"""Protocol of a scheme: the settings of a time integration, and the step itself.

    state = scheme.init(model, state)
    obs = scheme.observe(model, state)
    state, info = scheme.step(model, state, obs, command, forces)

A rollout does this many times, with any scheme. ``TimeStepping`` is time stepping at velocity
level, ``EventDriven`` the event-driven scheme at acceleration level, and
``synthesis.scheme.PerStepOptimisation`` finds each next state by an optimisation.
"""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, ClassVar, Self, TypeVar

import jax
import numpy as np
from jax import Array

from jaxsim.model.model import Model
from jaxsim.model.part import Submodel, main_part
from jaxsim.model.state import State
from jaxsim.simulation.health import Health
from jaxsim.simulation.measures import Measure, Sample
from jaxsim.simulation.pushes import Pushes

T = TypeVar("T")


def register_scheme(cls: type[T]) -> type[T]:
    """Register a frozen dataclass as a pytree that is checked only when a user makes it.

    Fields marked static shape the program. JAX puts other values than numbers in the fields of a
    pytree (axes of ``vmap``, tangents, tracers), so ``__post_init__`` does not run there.
    """
    static = tuple(f.name for f in fields(cls) if f.metadata.get("static"))  # type: ignore[arg-type]
    data = tuple(f.name for f in fields(cls) if f.name not in static)  # type: ignore[arg-type]

    def flatten(scheme):
        values = [getattr(scheme, name) for name in data]
        return values, tuple(getattr(scheme, name) for name in static)

    def flatten_with_keys(scheme):
        values, settings = flatten(scheme)
        return list(zip(map(jax.tree_util.GetAttrKey, data), values)), settings

    def unflatten(settings, values):
        scheme = object.__new__(cls)
        for names, parts in ((data, values), (static, settings)):
            for name, part in zip(names, parts):
                object.__setattr__(scheme, name, part)
        return scheme

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


class Scheme:
    """Frozen pytree of numbers with three pure functions; of one character, for ``vmap``."""

    takes_tasks: ClassVar[bool] = False  # commands are tasks, not torques
    cheap: ClassVar[bool] = False  # a step costs less than finding that it was done before
    reverse_mode: ClassVar[bool] = False  # a rollout has a derivative backward

    dt: Array | float  # of a step [s]

    @property
    def tells_residual(self) -> bool:
        """True if a rollout's result has the largest ``info.residual`` of its steps."""
        return False

    def init(self, model: Model, state: State) -> State:
        """State with the scheme's memory (``State.solver``): its own is kept, that of another
        scheme is replaced."""
        raise NotImplementedError

    def observe(self, model: Model, state: State) -> Any:
        """Observation for the controller, with which the step begins."""
        raise NotImplementedError

    def step(
        self, model: Model, state: State, obs: Any, command: Any, forces: Pushes | None = None
    ) -> tuple[State, Any]:
        """State after ``dt`` under a controller's command and external forces, and the step's
        information. obs: ``observe(model, state)``."""
        raise NotImplementedError

    def watch(
        self, health: Health, model: Model, state: State, obs: Any, after: State, info: Any
    ) -> Health:
        """Divergence checks, folded over the steps."""
        raise NotImplementedError

    def measures(self, model: Model) -> dict[str, Measure]:
        """Measures of how well the steps were solved, by name."""
        return {}

    def torque(self, command: Any, info: Any) -> Array:
        """(nv,) torque or force of motors and prescribed motion in a step [N m or N]."""
        raise NotImplementedError

    def contact_links(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        """(nc,), (nc,) link on which the force of each contact slot acts, and the other link; -1
        for the world."""
        raise NotImplementedError

    def keep(self, model: Model, sample: Sample) -> dict[str, Array]:
        """Arrays of a step that a record saves besides those of all schemes, by name."""
        return {}

    def characters(self, model: Model) -> tuple[Submodel, ...]:
        """Submodel of each character that the scheme simulates."""
        return (main_part(model.topology),)

    def grip_points(self, model: Model, state: State) -> Callable[[Array], Array] | None:
        """Function from q to the points (n, 3) that grip a hold at a state [m]; None without."""
        return None

    def check(self, model: Model) -> None:
        """Raise for numbers that are out of their range or do not fit the model."""

    def resized(self, model: Model, grow: Callable[[Model], Model]) -> Self:
        """Scheme for the body ``grow(model)``, which may be traced."""
        return self

    @property
    def settings_text(self) -> str:
        """Settings that ``for_search`` may change, for a report; "" where there are none."""
        return ""

    def for_search(self) -> Self:
        """Scheme with the settings of searches and push maps, which trade accuracy for time."""
        return self
