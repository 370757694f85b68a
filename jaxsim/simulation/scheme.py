"""Protocol of a scheme: the settings of a time integration, and the step itself.

    state = scheme.init(model, state)
    obs = scheme.observe(model, state)
    state, info = scheme.step(model, state, obs, command, forces)

A rollout does this many times, with any scheme. ``TimeStepping`` is time stepping at velocity
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


class Scheme(Protocol):
    """Frozen pytree of numbers with pure functions of one character; ``vmap`` makes a batch."""

    @property
    def dt(self) -> Array | float:
        """Length of a step [s]."""
        ...

    @property
    def tells_residual(self) -> bool:
        """True if a rollout's result has the largest ``info.residual`` of its steps."""
        ...

    def init(self, model: Model, state: State) -> State:
        """Add the scheme's memory between steps to a state (``State.solver``).

        Memory of this scheme is retained, that of another scheme is replaced.
        """
        ...

    def observe(self, model: Model, state: State) -> Any:
        """Observation of a state, for the controller and the step."""
        ...

    def step(
        self, model: Model, state: State, obs: Any, command: Any, forces: Pushes | None = None
    ) -> tuple[State, Any]:
        """Advance by ``dt`` under a controller's command and external forces: state and info.

        obs: ``observe(model, state)``.
        """
        ...

    def watch(
        self, health: Health, model: Model, state: State, obs: Any, after: State, info: Any
    ) -> Health:
        """Fold a step into the health, which has the first divergence of the motion."""
        ...

    def measures(self, model: Model) -> dict[str, Measure]:
        """Measures by name of how well the steps were solved, for a summary."""
        ...

    def torque(self, command: Any, info: Any) -> Array:
        """(nv,) generalised forces of motors and prescribed motion in a step [N m or N]."""
        ...

    def contact_links(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        """(nc,), (nc,) link that the force of each contact slot acts on, and the other link.

        -1 for the world.
        """
        ...

    def keep(self, model: Model, sample: Sample) -> dict[str, Array]:
        """Fields of a record by name that this scheme adds to those of all schemes."""
        ...

    def check(self, model: Model) -> None:
        """Raise for numbers that are out of their range or do not fit the model."""
        ...
