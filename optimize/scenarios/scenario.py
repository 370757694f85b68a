"""Scenario: model, controller, start, scheme and forces as arrays, ready to run."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from controllers.controller import Controller
from controllers.numbers import path_in
from controllers.source import NumberSource
from jaxsim.io.toml_table import Table
from jaxsim.model import Model, State
from jaxsim.simulation.checks import describe
from jaxsim.simulation.pushes import Pushes
from jaxsim.simulation.scheme import Scheme
from jaxsim.tree_paths import leaves_by_path, read, write
from optimize.scenarios.sizes import all_ones, changed_sizes, resize_parts

if TYPE_CHECKING:
    from controllers.tracking.reference import Reference  # it takes long to import

PARTS = ("model", "controller", "state", "scheme", "forces")


@dataclass(frozen=True)
class Scenario:
    """Everything that a simulation starts from; built in Python, or by ``optimize.scenario``.

    Its numbers have paths that begin with one of ``PARTS``, as ``model.mass[3]``,
    ``scheme.dt``, ``forces.force[0,1]``, ``controller.weights[2,1]``. Labels of the controller's
    numbers name these too, as ``controller.gait.time``.

    ``sizes.whole``, ``sizes.shank`` are factors of the character's body and limbs, see
    ``optimize.scenarios.sizes``. Paths refer to the body before resizing, in whichever order
    numbers are set; the fields hold the body that runs. A part that replaces one of these later,
    with ``dataclasses.replace``, is taken for one of the body before.
    """

    model: Model
    controller: Controller
    state: State  # at the start
    scheme: Scheme
    forces: Pushes | None = None
    seconds: float = 5.0
    name: str = "scenario"
    title: str = ""
    link_kinds: tuple[str, ...] = ()  # (nl,) of ``io.motion.ROLES``; () all "character"
    phases: tuple[tuple[str, str], ...] = ()  # of the controller: name, and what ends it
    notes: tuple[str, ...] = ()  # what was decided for the user
    conditions: Mapping[str, Any] = field(default_factory=dict)  # for the summary
    environment: Table | None = None  # see optimize.environments.table
    clip: "Callable[[], Reference] | None" = None  # reads what [environment.clip] names
    folder: Path = Path()  # where files are looked for that it names
    files: Mapping[str, str] = field(default_factory=dict)  # name -> text, saved with a result
    sizes: Mapping[str, Any] = field(default_factory=dict)  # those that are not 1
    # of parts that sizes have changed: as they were, and as they are
    resized: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    def __post_init__(self):
        own = self.controller
        if callable(getattr(own, "update", None)) and not isinstance(own, Controller | type):
            name = type(own).__name__
            raise TypeError(
                f"controller is {describe(own)}, which lacks the base of controllers; write"
                f" class {name}(Controller), with from controllers import Controller"
            )

    @property
    def tree(self) -> dict[str, Any]:
        """Tree of parts that paths begin from."""
        parts = {part: getattr(self, part) for part in PARTS}
        for part, (before, after) in self.resized.items():
            parts[part] = before if parts[part] is after else parts[part]
        ones = all_ones(self.model.topology, self.kinds)
        return {**parts, "sizes": {**ones, **self.sizes}}

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of the links (nl,), see ``link_kinds``, also where none were given."""
        return self.link_kinds or ("character",) * self.model.topology.n_links

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the controller's numbers: label -> path, both begin with "controller."."""
        own = self.controller.labels
        return {f"controller.{label}": f"controller.{path}" for label, path in own.items()}

    def path(self, name: str) -> str:
        """Path of a label or path; "controller." may be left out of the controller's labels.

        Raises KeyError for an unknown name, with the nearest ones.
        """
        own = self.controller.labels
        if name in own:
            return f"controller.{own[name]}"
        return path_in(self.tree, self.labels, name)

    @property
    def number_source(self) -> NumberSource:
        """Controller's numbers as the user wrote them, by path."""
        return self.controller.number_source(self.files, self.model).under("controller.")

    def get(self, name: str) -> Any:
        """Read the number, or numbers, of a label or path."""
        return read(self.tree, self.path(name))

    def set(self, name: str, value: Any) -> Self:
        """Copy with the numbers of a label or path changed; value may be traced.

        Raises KeyError for an unknown name, IndexError for an element out of range, ValueError for
        a value of another shape.
        """
        return self.with_tree(write(self.tree, self.path(name), value))

    def with_tree(self, tree: Mapping[str, Any]) -> Self:
        """Copy with other parts.

        Raises ValueError for sizes out of their range, ModelError for a controller that cannot be
        resized for another body.
        """
        parts = {**self.tree, **tree}
        sizes = changed_sizes(parts.pop("sizes"))
        if not sizes:
            return dataclasses.replace(self, **parts, sizes={}, resized={})
        new = resize_parts(parts, sizes, self.kinds)
        resized = {name: (parts[name], part) for name, part in new.items()}
        return dataclasses.replace(self, **{**parts, **new}, sizes=sizes, resized=resized)

    def paths(self) -> list[str]:
        """Paths of all arrays."""
        return list(leaves_by_path(self.tree))
