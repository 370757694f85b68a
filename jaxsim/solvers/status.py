"""How a simulation went, as data: one number a member of a batch, and what it means."""

from enum import IntEnum


class Status(IntEnum):
    """OK, or the first thing that went wrong; a motion means nothing from there on."""

    OK = 0
    NOT_FINITE = 1
    ENERGY = 2
    SPEED = 3
    DEPTH = 4
    FAR = 5

    @property
    def message(self) -> str:
        """What happened, and what may help."""
        return _MESSAGES[self]


_MESSAGES = {
    Status.OK: "no sign of divergence",
    Status.NOT_FINITE: "values are not finite; a smaller time step or weaker forces may help",
    Status.ENERGY: "kinetic energy is far beyond what the start, gravity, motors and pushes gave;"
    " a smaller time step, or more damping or armature of light links, may help",
    Status.SPEED: "a joint makes more than ten turns in one step; a smaller time step, or more"
    " damping or armature of light links, may help",
    Status.DEPTH: "something sank into something else by more than half its thickness; a smaller"
    " time step, more sweeps, or masses that differ less may help",
    Status.FAR: "the character is so far from the origin that positions are rounded by over a"
    " millimetre; a smaller time step may help, or float64 where it really goes so far",
}
