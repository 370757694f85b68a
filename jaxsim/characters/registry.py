"""Characters by name; one entry of ``CHARACTERS`` adds one."""

from functools import partial

import jax

from jaxsim.characters import human, planar_human
from jaxsim.characters.character import Character
from jaxsim.characters.standing import stand
from jaxsim.model import Model, ModelError, State
from jaxsim.plugins import Registry

CHARACTERS = Registry(
    "jaxsim.characters",
    {
        "articulated_human": Character(human.articulated_human, tuple(human.STARTS), human.start),
        "ball_joint_human": Character(human.ball_joint_human, tuple(human.STARTS), human.start),
        "planar_human": Character(
            planar_human.planar_human, planar_human.STARTS, planar_human.start
        ),
    },
)


def character_of(model: Model) -> Character:
    """Declaration of a model's character.

    The character of a model file has one start, "standing", as its roles file says. Raises
    ModelError for a model that is no character.
    """
    roles = model.topology.roles
    if roles.character in CHARACTERS:
        return CHARACTERS[roles.character]
    if roles.standing:
        return Character(lambda: model, ("standing",), stand)
    raise ModelError(
        "this model is no character with start poses; give a start as a State, as in "
        "neutral_state(model), or say its roles (docs/explanation/characters.md)"
    )


@partial(jax.jit, static_argnames="name")
def start(model: Model, name: str) -> State:
    """Start pose at rest, with the lowest point on the ground, 10 micrometres inside it.

    Of the planar human: "standing", "supine", "prone", "sitting" (needs a chair); of the humans in
    space: "standing", "t_pose", "supine", "prone"; of a model file with roles: "standing". Works
    under vmap over models. Raises ModelError for another name.
    """
    return character_of(model).start(model, name)
