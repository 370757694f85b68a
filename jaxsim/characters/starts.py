"""Start poses of every built-in character, by name."""

from jaxsim.characters import human, planar_human
from jaxsim.model import Model, State


def start(model: Model, name: str) -> State:
    """A start pose at rest, with the lowest point on the ground.

    Of the planar human: "standing", "supine", "prone", "sitting" (needs a chair); of the humans in
    space: "standing", "t_pose", "supine", "prone". Works under vmap over models. Raises ModelError
    for another name.
    """
    character = planar_human if model.topology.planar else human
    return character.start(model, name)
