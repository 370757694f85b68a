"""Numbers of balance on topple-free feet.

Source: the topple-free-foot paper, as far as it states any (the thresholds, external controllers);
the rest was found by search over eight clips (docs/results/tracking.md).
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import Array

from jaxsim.model import ModelError
from jaxsim.simulation.checks import has_values

ADULT = 72.0, 0.98  # mass [kg] and height of the centre of mass [m] of the body the numbers are for


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Balance:
    """Numbers of the controller, () each; the defaults are for a body of 72 kg and 1.75 m."""

    pose_p: Any = 0.65  # relative to the model's own gains
    pose_d: Any = 1.1
    arms: Any = 0.7  # factor on these, for the arms
    ankle_p: Any = 0.3  # factor on these, for the ankle of a stance foot
    ankle_d: Any = 0.5
    com_p: Any = 450.0  # of the centre of mass over the feet [N/m]
    com_d: Any = 950.0  # [N s/m]
    com_most: Any = 170.0  # [N]
    com_height: Any = 0.0  # factor on com_p and com_d, for the height over the feet
    momentum: Any = 4.0  # of the angular momentum [1/s]
    trunk_p: Any = 900.0  # of the chest's orientation [N m/rad]
    trunk_d: Any = 100.0  # [N m s/rad]
    trunk_yaw: Any = 0.6  # factor on these, about the vertical
    gravity: Any = 1.0  # share of the weight that is compensated
    inertia: Any = 0.0  # share of the reference's rates of momentum that is added
    help_from: Any = 20.0  # thr_min: torque on a foot beyond which it is helped [N m]
    help_to: Any = 200.0  # thr_max: torque on a foot with which the body is let fall [N m]
    help_until: Any = np.inf  # time from which on there is no help [s]
    capacity: Any = 0.8  # share of the ground's capacity beyond which there is help
    fall_time: Any = 0.1  # time with the torque beyond help_to after which the body falls [s]
    fall_p: Any = 0.3  # factor on pose gains while falling
    fall_d: Any = 10.0  # so that balls, which have no limits, stay within those of a human
    sliding: Any = 0.23  # factor on the friction of a foot in contact that is no stance foot
    share_time: Any = 0.04  # time constant of the shares of two feet [s]
    zone: Any = 0.06  # radius of a foot's zone of support, without a reference [m]
    step_p: Any = 260.0  # of the swing foot, on the body's lead over the other foot [N/m]
    step_d: Any = 140.0  # on the body's velocity [N s/m]
    pull_p: Any = 550.0  # of external controllers [N/m]
    pull_d: Any = 50.0  # [N s/m]

    def scaled(self, mass: float | Array, height: float | Array) -> "Balance":
        """Numbers for a body of another mass [kg] and height of the centre of mass [m].

        So that it moves alike (Hof 1996): torques scale with m h, forces with m, times with the
        root of h.
        """
        m, h = mass / ADULT[0], height / ADULT[1]
        powers = {
            "com_p": m / h,
            "com_d": m / h**0.5,
            "com_most": m,
            "momentum": h**-0.5,
            "trunk_p": m * h,
            "trunk_d": m * h**1.5,
            "help_from": m * h,
            "help_to": m * h,
            "zone": h,
            "step_p": m / h,
            "step_d": m / h**0.5,
            "pull_p": m / h,
            "pull_d": m / h**0.5,
        }
        return dataclasses.replace(self, **{k: getattr(self, k) * x for k, x in powers.items()})

    def check(self) -> None:
        """Raise ModelError for invalid numbers, where they are known."""
        numbers = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        for name, value in numbers.items():
            if has_values(value) and not (np.asarray(value) >= 0).all():
                raise ModelError(f"balance.{name} is {np.asarray(value)}; it is zero or more")
        least, most = numbers["help_from"], numbers["help_to"]
        if has_values(least, most) and not (np.asarray(least) <= np.asarray(most)).all():
            raise ModelError(
                f"balance.help_from is {np.asarray(least)} and help_to {np.asarray(most)}; help"
                " begins at help_from and ends at help_to, which is the larger one"
            )
