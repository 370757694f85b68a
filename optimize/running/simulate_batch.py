"""Many members of a scenario at once: measures of each, and the motion of any one.

controllers = jax.vmap(lambda key: Swing(jax.random.normal(key, (3,))))(keys)
runs = simulate_batch(planar_human(), controllers, seconds=3, measures=far)
runs.best("far").show()
"""

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim.fused import choose_backend
from jaxsim.model import Model
from jaxsim.simulation.health import Failure, failures
from jaxsim.simulation.measures import Measure, final
from jaxsim.simulation.rollout import rollout
from jaxsim.tree_paths import leaves_by_path
from optimize.interrupts import note_interrupts
from optimize.running.simulate import Simulation, of_model, run_scenario
from optimize.scenarios.find import scenario as find_scenario
from optimize.scenarios.scenario import Scenario


@dataclass(frozen=True, eq=False)
class Batch:
    """Members of one scenario that differ in their controllers, B of them.

    measures: name -> (B,) or (B, ...); failed: the members whose motion diverged, with the reason
    and the time, by index.
    """

    scenario: Scenario
    controllers: Any  # every array with a leading axis of B
    measures: dict[str, np.ndarray]
    failed: tuple[Failure, ...]

    def __len__(self) -> int:
        return _size(self.controllers)

    def member(self, index: int) -> Scenario:
        """Scenario of one member. Raises IndexError where there is none."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"there is no member {index}; there are {len(self)}")
        own = jax.tree.map(lambda x: x[index], self.controllers)
        return dataclasses.replace(self.scenario, controller=own)

    def best(self, name: str, largest: bool = True, **options: Any) -> Simulation:
        """Simulate the member with the largest, or least, value of a measure, without failed ones.

        options: of ``run_scenario``. Raises KeyError for a measure that was not taken, ValueError
        where every member failed.
        """
        return run_scenario(self.member(self.best_index(name, largest)), **options)

    def best_index(self, name: str, largest: bool = True) -> int:
        """Index of the member that ``best`` simulates."""
        if name not in self.measures:
            raise KeyError(f"no measure {name!r}; there are: {', '.join(self.measures)}")
        values = np.array(self.measures[name], float)
        if values.ndim != 1:
            raise ValueError(
                f"{name} is of shape {values.shape[1:]}; to compare, one number is needed"
            )
        values[[failure.member for failure in self.failed]] = np.nan
        if not np.isfinite(values).any():
            raise ValueError(f"every member failed: {self.failed[0].status.message}, and so on")
        return int(np.nanargmax(values) if largest else np.nanargmin(values))


@note_interrupts()
def simulate_batch(
    what: Scenario | Model | str | os.PathLike,
    controllers: Any,
    *,
    seconds: float | None = None,
    measures: Mapping[str, Measure] | None = None,
    backend: str | None = None,
) -> Batch:
    """Simulate one scenario under many controllers.

    controllers: a pytree of one, every array of it with a leading axis. what: as for ``simulate``;
    measures: by name, see ``jaxsim.Measure``; the distance of the centre of mass from the start,
    along x, and its height at the end are always among them ("distance", "final_com_height" [m]),
    unless those of the caller have these names. backend: "fused" or "xla"; by default fused for
    planar characters.

    Raises ValueError for controllers without a common leading axis.
    """
    size = _size(controllers)
    first = jax.tree.map(lambda x: jnp.asarray(x)[0], controllers)
    if isinstance(what, Model):
        scenario = of_model(what, first)
    else:
        scenario = dataclasses.replace(find_scenario(what), controller=first, phases=())
    if seconds is not None:
        scenario = dataclasses.replace(scenario, seconds=seconds)
    backend = choose_backend(backend or ("fused" if scenario.model.topology.planar else "xla"))
    folded = {
        "distance": final(lambda sample: sample.obs.com[0]),
        "final_com_height": final(lambda sample: sample.obs.com[2]),
        **(measures or {}),
    }
    start_x = scenario.scheme.observe(
        scenario.model, scenario.scheme.init(scenario.model, scenario.state)
    ).com[0]
    steps = round(scenario.seconds / float(scenario.scheme.dt))

    def one(controller: Any):
        parts = scenario.model, controller, scenario.state, scenario.scheme, steps, folded
        return rollout(*parts, backend=backend, pushes=scenario.forces)

    result = jax.vmap(one)(controllers)
    values = {name: np.asarray(value) for name, value in result.measures.items()}
    if "distance" not in (measures or {}):
        values["distance"] = values["distance"] - float(start_x)
    assert len(jax.tree.leaves(controllers)[0]) == size
    return Batch(scenario, controllers, values, tuple(failures(result.health)))


def _size(controllers: Any) -> int:
    """Batch size B. Raises ValueError, naming the arrays, without a common leading axis."""
    shapes = {path: np.shape(leaf) for path, leaf in leaves_by_path(controllers).items()}
    sizes = {shape[0] if shape else 0 for shape in shapes.values()}
    if len(sizes) != 1 or 0 in sizes:
        told = ", ".join(f"{path} {shape}" for path, shape in list(shapes.items())[:8])
        raise ValueError(
            "the controllers of a batch are one pytree, every array with the same leading axis, as"
            f" jax.vmap makes it; the shapes are: {told or 'none, there is no array'}"
        )
    return sizes.pop()
