"""Declaration of a character: functions that build it and its start poses."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxsim.model import Model, State


@dataclass(frozen=True)
class Character:
    """A kind of body, under its name in ``CHARACTERS`` of ``jaxsim.characters.registry``.

    build(**options) gives the model, with ``Roles`` of its links; start(model, name) one of the
    poses ``starts``, the first of which is the default, and raises ModelError for another name.
    """

    build: Callable[..., Model]
    starts: tuple[str, ...]
    start: Callable[[Model, str], State]
