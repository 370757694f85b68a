"""A scenario whose chair's height is a number like any other, and with it where a body sits."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from jaxsim.characters.planar_human import set_chair_height, start
from jaxsim.model import ModelError
from optimize.scenarios.scenario import Scenario

CHAIR = "chair_height"  # the number's path [m]


@dataclass(frozen=True)
class Seated(Scenario):
    """A planar human on a chair: ``chair_height`` [m] may be set, varied and traced.

    What its state deviates from the pose on its own chair it keeps on one of another height.
    """

    chair_height: Any = 0.0

    @property
    def tree(self) -> dict[str, Any]:
        """That of every scenario, and the chair's height."""
        return {**super().tree, CHAIR: self.chair_height}

    def with_tree(self, tree: Mapping[str, Any]) -> Self:
        """A copy with other parts, seated anew."""
        made = super().with_tree(tree)
        model = set_chair_height(made.model, made.chair_height)
        deviation = made.state.q - np.asarray(self.state.q)
        state = made.state.replace(q=start(model, "sitting").q + deviation)
        return dataclasses.replace(made, model=model, state=state)


def seated(of: Scenario) -> Seated:
    """The scenario with its chair's height as a number. Raises ModelError where nobody sits."""
    if of.conditions.get("start") != "sitting":
        raise ModelError(
            f"{of.name}: nobody sits on a chair there; choose a scenario that begins sitting, as"
            " sit_to_stand, or set character.start to 'sitting'"
        )
    parts = {field.name: getattr(of, field.name) for field in dataclasses.fields(of)}
    parts.pop(CHAIR, None)
    model = of.model
    chair = model.topology.shape("chair")
    height = 2 * np.asarray(model.shape_size)[chair, 2]
    return Seated(**parts, chair_height=height)
