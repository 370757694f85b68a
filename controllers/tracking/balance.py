"""The numbers of balance on feet that are kept from toppling.

Source: the document on the topple-free foot, whose numbers these are where it gives any (the
thresholds, external controllers); the rest was found by search over eight clips
(docs/results/tracking.md).
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
    """The numbers of the controller, () each; the defaults are for a body of 72 kg and 1.75 m."""

    pose_p: Any = 0.65  # of the model's own gains
    pose_d: Any = 1.1
    arms: Any = 0.7  # of these, for the arms
    ankle_p: Any = 0.3  # of these, for the ankle of a foot that stands
    ankle_d: Any = 0.5
    com_p: Any = 450.0  # of the centre of mass over the feet [N/m]
    com_d: Any = 950.0  # [N s/m]
    com_most: Any = 170.0  # [N]
    com_height: Any = 0.0  # of com_p and com_d, for the height over the feet
    momentum: Any = 4.0  # of the angular momentum [1/s]
    trunk_p: Any = 900.0  # of the chest's orientation [N m/rad]
    trunk_d: Any = 100.0  # [N m s/rad]
    trunk_yaw: Any = 0.6  # of these, about the vertical
    gravity: Any = 1.0  # part of the weight that is compensated
    inertia: Any = 0.0  # part of the reference's rates of momentum that is added
    help_from: Any = 20.0  # thr_min: torque on a foot beyond which it is helped [N m]
    help_to: Any = 200.0  # thr_max: torque on a foot with which the body is let fall [N m]
    help_until: Any = np.inf  # from this time on there is none [s]
    capacity: Any = 0.8  # of what the ground can answer, where help is what is beyond that
    fall_time: Any = 0.1  # for which the torque is beyond help_to [s]
    fall_p: Any = 0.3  # of pose gains while falling
    fall_d: Any = 10.0  # so that balls, which have no limits, stay within those of a human
    sliding: Any = 0.23  # friction of a foot that touches and is not to stand, of its own
    share_time: Any = 0.04  # in which the shares of two feet follow [s]
    zone: Any = 0.06  # radius of a foot's zone of support, without a reference [m]
    step_p: Any = 260.0  # of the swing foot, by how far the body is ahead of the other foot [N/m]
    step_d: Any = 140.0  # and how fast it goes [N s/m]
    pull_p: Any = 550.0  # of external controllers [N/m]
    pull_d: Any = 50.0  # [N s/m]

    def scaled(self, mass: float | Array, height: float | Array) -> "Balance":
        """For a body of a mass [kg] whose centre of mass stands at a height [m], so that it moves
        alike (Hof 1996): torques with m h, forces with m, times with the root of h."""
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
        """Raise ModelError for numbers that make no sense, where they are known."""
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
