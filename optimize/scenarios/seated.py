"""Scenario of a planar human on a chair whose height, and the pose with it, may vary."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import jax.numpy as jnp
import numpy as np

from jaxsim.characters.planar_human import SHANK_TILT, set_chair_height, start
from jaxsim.model import ModelError
from optimize.scenarios.scenario import Scenario

CHAIR, TILT = "chair_height", "shank_tilt"  # paths of its numbers [m], [deg]


@dataclass(frozen=True)
class Seated(Scenario):
    """Planar human on a chair of variable height.

    ``chair_height`` [m] and ``shank_tilt`` [deg], how far its feet stand behind its knees, may be
    set, varied and traced. The deviation of its state from the pose on its own chair is preserved
    on one of another height.
    """

    chair_height: Any = 0.0
    shank_tilt: Any = float(np.rad2deg(SHANK_TILT))

    @property
    def tree(self) -> dict[str, Any]:
        """Tree of parts without sizes, with chair height and shank tilt."""
        tree = {**super().tree, CHAIR: self.chair_height, TILT: self.shank_tilt}
        return {**tree, "sizes": {}}

    def with_tree(self, tree: Mapping[str, Any]) -> Self:
        """Copy with other parts, seated again."""
        made = super().with_tree(tree)
        model = set_chair_height(made.model, made.chair_height)
        deviation = made.state.q - np.asarray(self.state.q)
        pose = start(model, "sitting", jnp.deg2rad(made.shank_tilt))
        state = made.state.replace(q=pose.q + deviation)
        return dataclasses.replace(made, model=model, state=state)


def as_seated(of: Scenario) -> Seated:
    """Copy of a scenario with chair height and shank tilt as numbers; a ``Seated`` is returned.

    Raises ModelError where the character does not start sitting.
    """
    if isinstance(of, Seated):
        return of
    if of.conditions.get("start") != "sitting":
        raise ModelError(
            f"{of.name}: nobody sits on a chair there; choose a scenario that begins sitting, as"
            " sit_to_stand, or set character.start to 'sitting'"
        )
    if of.sizes:
        raise ModelError(
            f"{of.name}: sizes are set ({', '.join(of.sizes)}); the pose of who sits on chairs of"
            " many heights is for the body as it is"
        )
    parts = {field.name: getattr(of, field.name) for field in dataclasses.fields(of)}
    model = of.model
    chair = model.topology.shape("chair")
    height = 2 * np.asarray(model.shape_size)[chair, 2]
    return Seated(**parts, chair_height=height)
