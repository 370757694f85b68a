"""The ``Controller`` protocol: frozen numbers, an initial memory, and an update at each step."""

from typing import Any, Protocol

from jax import Array

from jaxsim.model import Model, State
from jaxsim.simulation.records import Control, Observation


class Controller(Protocol):
    """A pytree of gains with two pure functions; ``dt`` is the step that follows [s].

    One that goes through phases may offer ``phase(memory)``, the index of the present one and the
    time at which it began [s], () each; and for phases shorter than the frames of a record
    ``changes(before, after)``, the (time [s], index) of each phase entered between two memories.

    One that watches numbers may offer ``gauges(memory)``, name -> () number of this step, or ()
    bool of what is so or not, and ``gauge_limits()``, name -> (unit, thresholds in it, increasing),
    in whose order they are shown; of a bool ("", ()). One that follows a reference
    may offer ``ghost(model, time)``: where that has the links at times (T,) [s], as link_pos
    (T, nl, 3) [m] and link_quat (T, nl, 4) (w first), NaN for links that it lacks, or None. Pages
    and pictures of a motion show both; neither changes the motion.

    It may offer ``check(model)``, which raises ModelError where a target or gain does not fit the
    model: a rollout calls it once, before it begins. One that keeps numbers of a body, as lengths
    or masses, may offer ``resized(model, grow)``: the controller for the body ``grow(model)``,
    which may be traced.
    """

    def init(self, model: Model, state: State, obs: Any) -> Any:
        """Initial memory; obs: what the scheme observes in ``state``."""
        ...

    def update(
        self, memory: Any, model: Model, state: State, obs: Observation, dt: Array
    ) -> tuple[Any, Control]:
        """Memory after the step that starts now, and the torques for it; ``dt``: its length [s]."""
        ...
