"""What a character declares, once."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxsim.model import Model, State


@dataclass(frozen=True)
class Character:
    """A kind of body, as ``CHARACTERS`` of ``jaxsim.characters.registry`` has it under its name.

    build(**options) gives the model, whose ``Roles`` say what plays which part; start(model, name)
    one of the poses ``starts``, the first of which is the usual one, and raises ModelError for
    another name.
    """

    build: Callable[..., Model]
    starts: tuple[str, ...]
    start: Callable[[Model, str], State]
