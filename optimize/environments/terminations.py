"""What ends an episode, by name: functions of a ``View``, () bool each."""

from collections.abc import Callable

from jax import Array

from controllers.policy.view import View

LOW = 0.75  # of the height of the centre of mass in the pose
TILT = 0.5  # cosine of 60 degrees


def fallen(view: View) -> Array:
    """The centre of mass is lower than ``LOW`` of its height in the pose."""
    return view.obs.com[2] < LOW * view.height


def tilted(view: View) -> Array:
    """The root is tilted by over 60 degrees out of the pose."""
    return view.turned[2, 2] < TILT


TERMINATIONS: dict[str, Callable[[View], Array]] = {
    each.__name__: each for each in (fallen, tilted)
}
