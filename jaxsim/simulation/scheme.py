"""What a scheme is: the numbers of one way to advance a character, and the step itself.

    state = scheme.init(model, state)
    obs = scheme.observe(model, state)
    state, info = scheme.step(model, state, obs, command, forces)

A rollout does this many times, whatever the scheme. ``TimeStepping`` is time stepping at velocity
level, ``EventDriven`` the event-driven scheme at acceleration level, and
``synthesis.scheme.PerStepOptimisation`` finds each next state by an optimisation.
"""

from dataclasses import fields
from typing import Any, Protocol, TypeVar

import jax
import numpy as np
from jax import Array

from jaxsim.model.model import Model
from jaxsim.model.state import State
from jaxsim.simulation.health import Health
from jaxsim.simulation.measures import Measure, Sample
from jaxsim.simulation.pushes import Pushes

T = TypeVar("T")


def register_scheme(cls: type[T]) -> type[T]:
    """Register a frozen dataclass as a pytree whose checks are for what a user gives.

    Fields marked static shape the program. JAX puts other things than numbers in the fields of a
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


class Scheme(Protocol):
    """A frozen pytree of numbers with three pure functions; of one character, for ``vmap``."""

    @property
    def dt(self) -> Array | float:
        """Of a step [s]."""
        ...

    @property
    def tells_residual(self) -> bool:
        """Whether a rollout's result has the largest ``info.residual`` of its steps."""
        ...

    def init(self, model: Model, state: State) -> State:
        """The state with what the scheme remembers from step to step (``State.solver``); what is
        there already is kept, that of another scheme is begun anew."""
        ...

    def observe(self, model: Model, state: State) -> Any:
        """What a controller sees, and what the step begins with."""
        ...

    def step(
        self, model: Model, state: State, obs: Any, command: Any, forces: Pushes | None = None
    ) -> tuple[State, Any]:
        """The state after ``dt`` under a controller's command and forces from outside, and what
        happened. obs: ``observe(model, state)``."""
        ...

    def watch(
        self, health: Health, model: Model, state: State, obs: Any, after: State, info: Any
    ) -> Health:
        """Folds a step in: whether the motion means something, and until when."""
        ...

    def measures(self, model: Model) -> dict[str, Measure]:
        """What a summary tells of how well the steps were solved, by name."""
        ...

    def torque(self, command: Any, info: Any) -> Array:
        """(nv,) what motors and prescribed motion gave in a step [N m or N]."""
        ...

    def contact_links(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        """(nc,), (nc,) the link that the force of each place for a contact acts on, and the other
        one; -1 for the world."""
        ...

    def keep(self, model: Model, sample: Sample) -> dict[str, Array]:
        """What a record keeps of a step besides what all schemes have, by name."""
        ...

    def check(self, model: Model) -> None:
        """Raise for numbers that are out of their range or do not fit the model."""
        ...
