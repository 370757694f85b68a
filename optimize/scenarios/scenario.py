"""A scenario: who does what where, as arrays that are ready to run."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from controllers.numbers import path_in
from jaxsim.model import Model, State
from jaxsim.simulation.pushes import Pushes
from jaxsim.simulation.scheme import Scheme
from jaxsim.tree_paths import leaves_by_path, read, written

PARTS = ("model", "controller", "state", "scheme", "forces")


@dataclass(frozen=True)
class Scenario:
    """What a run begins with. Of Python, or of a file or a name: ``optimize.scenario``.

    Its numbers have paths that begin with one of ``PARTS``, as ``model.mass[3]``,
    ``scheme.dt``, ``forces.force[0,1]``, ``controller.weights[2,1]``. What the controller has
    labels for goes by these too, as ``controller.gait.time``.
    """

    model: Model
    controller: Any  # see controllers.protocol
    state: State  # at the start
    scheme: Scheme
    forces: Pushes | None = None
    seconds: float = 5.0
    name: str = "scenario"
    title: str = ""
    link_kinds: tuple[str, ...] = ()  # (nl,) "character", "prop" or "driven"; () all "character"
    phases: tuple[tuple[str, str], ...] = ()  # of the controller: name, and what ends it
    notes: tuple[str, ...] = ()  # what was decided for the user
    conditions: Mapping[str, Any] = field(default_factory=dict)  # for the summary
    files: Mapping[str, str] = field(default_factory=dict)  # name -> text, kept with a result

    @property
    def tree(self) -> dict[str, Any]:
        """What paths begin from."""
        return {part: getattr(self, part) for part in PARTS}

    @property
    def kinds(self) -> tuple[str, ...]:
        """(nl,) ``link_kinds``, also where none were given."""
        return self.link_kinds or ("character",) * self.model.topology.n_links

    @property
    def labels(self) -> dict[str, str]:
        """Label -> path of the controller's numbers, both as they begin with "controller."."""
        own = getattr(self.controller, "labels", {})
        return {f"controller.{label}": f"controller.{path}" for label, path in own.items()}

    def path(self, name: str) -> str:
        """The path of a label or path; "controller." may be left out of the controller's labels.

        Raises KeyError for what is neither, with the nearest ones.
        """
        own = getattr(self.controller, "labels", {})
        if name in own:
            return f"controller.{own[name]}"
        return path_in(self.tree, self.labels, name)

    def get(self, name: str) -> Any:
        """The number, or numbers, of a label or path."""
        return read(self.tree, self.path(name))

    def set(self, name: str, value: Any) -> Self:
        """A copy with the numbers of a label or path changed; value may be traced.

        Raises KeyError for what is neither, IndexError for an element out of range, ValueError for
        a value of another shape.
        """
        return self.with_tree(written(self.tree, self.path(name), value))

    def with_tree(self, tree: Mapping[str, Any]) -> Self:
        """A copy with other parts."""
        return dataclasses.replace(self, **tree)

    def paths(self) -> list[str]:
        """Of all arrays."""
        return list(leaves_by_path(self.tree))
