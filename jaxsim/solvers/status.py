"""Status of a solver, a step or a simulation as data: one number for each member of a batch."""

from enum import IntEnum


class Status(IntEnum):
    """OK, or the failure; of a simulation the first one, from which on it has diverged."""

    OK = 0
    # of solvers and steps
    UNFINISHED = 1
    NOT_FINITE = 2
    INFEASIBLE = 3
    INTERVAL = 4
    # of simulations
    ENERGY = 5
    SPEED = 6
    DEPTH = 7
    FAR = 8
    GAIN = 9

    @property
    def message(self) -> str:
        """Sentence with the failure and its remedies."""
        return _MESSAGES[self]


_MESSAGES = {
    Status.OK: "no sign of divergence",
    Status.UNFINISHED: "not solved to the tolerance; more iterations, or a larger tolerance, may"
    " help, where constraints do not contradict each other",
    Status.NOT_FINITE: "values are not finite; a smaller time step or weaker forces may help, and a"
    " look for what was given that is no number",
    Status.INFEASIBLE: "no solution fits all constraints; one that is violated has to give way",
    Status.INTERVAL: "the interval was not used up; more parts, or a shorter interval, may help",
    Status.ENERGY: "kinetic energy is far beyond what the start, gravity, motors and pushes gave;"
    " a smaller time step, or more damping or armature of light links, may help",
    Status.GAIN: "energy rose by over a tenth of what the start, gravity, motors and pushes gave,"
    " without their work; a smaller time step, TimeStepping(order=2), more sweeps, or more armature"
    " of light links may help",
    Status.SPEED: "a joint makes more than ten turns in one step; a smaller time step, or more"
    " damping or armature of light links, may help",
    Status.DEPTH: "something sank into something else by more than half its thickness; a smaller"
    " time step, more sweeps, or masses that differ less may help",
    Status.FAR: "the character is so far from the origin that positions are rounded by over a"
    " millimetre; a smaller time step may help, or float64 where it really goes so far",
}
