"""Machine that stands on one foot, then takes up a pose there.

Source: Jain, Ye, Liu (2009), section 6.1.1: the balance strategy with the support reduced to one
foot; "once the character balances herself, we add kinematic objectives".
"""

from collections.abc import Mapping
from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from controllers.goals import tasks as goals
from controllers.goals.balance import SOLE, Gait, no_step, sole_down
from controllers.goals.hinges import FORWARD, LEFT, hinge_angles
from controllers.goals.machine import GoalMachine, GoalState
from jaxsim.math.safe import safe_norm
from jaxsim.model import Model
from jaxsim.model.roles import FEET
from jaxsim.synthesis.observation import EffectorObservation

RELAXED = 0.02  # a smaller load can be lifted [body weights]
BEARS = 0.1  # a larger load of the free foot ends the pose [body weights]
COM = 15.0  # weight of the centre of mass: with 5 some starts stay beside the foot for ever
CENTERED = 0.03  # the centre of mass is over a foot's middle [m]
CRANE = (  # a hinge of this link, about which axis of the body, by how much [deg]
    ("rightThigh", -LEFT, 75.0),
    ("rightShank", LEFT, 90.0),
    ("leftUpperArm", FORWARD, 80.0),
    ("rightUpperArm", -FORWARD, 80.0),
    ("leftForearm", -LEFT, 20.0),
    ("rightForearm", -LEFT, 20.0),
)


def crane(model: Model) -> dict[str, float]:
    """Angles of the pose ``CRANE``, by the model's hinges [deg]; errors as for ``hinge_angles``."""
    return hinge_angles(model, CRANE, "one_foot")


def one_foot_machine(pose_deg: Mapping[str, float], stance: str = "leftFoot") -> GoalMachine:
    """Machine that shifts the weight to ``stance``, then takes up a pose there.

    pose_deg: angles of hinges by name [deg], such as ``crane(model)``. Raises ValueError for an
    unknown foot.
    """
    if stance not in FEET:
        raise ValueError(f"stance is {stance!r}; choose from {', '.join(FEET)}")
    swing = 1 - FEET.index(stance)
    angles = np.deg2rad(list(pose_deg.values()))

    def over_stance(obs: EffectorObservation, _):
        return obs.place(obs.group(stance))[:2]

    def not_there(obs: EffectorObservation, _):
        return safe_norm(obs.conf.com[:2] - over_stance(obs, _)) > CENTERED

    def bears(obs: EffectorObservation, load: float):
        return obs.load(obs.group(FEET[swing])) > load

    balance = {"com": COM, "spine": 70.0, "damping": 0.5, "sole": SOLE}
    variables = replace(no_step(Gait(), swing), stepping=jnp.asarray(True))
    return GoalMachine(
        goals=(
            goals.com_over("com", over_stance),
            goals.upright("chest"),
            goals.damping(),
            goals.relax("relax", lambda obs, _: jnp.asarray(obs.group(FEET[swing]))),
            goals.pose("pose", tuple(pose_deg), lambda obs, _: jnp.asarray(angles)),
            sole_down(),
        ),
        states={
            "shift": GoalState(balance, not_there),
            "relax": GoalState({**balance, "relax": 1.0}, lambda obs, _: bears(obs, RELAXED)),
            "pose": GoalState(
                {**balance, "pose": 1.0},
                lambda obs, _: ~bears(obs, BEARS),
                lifts=lambda obs, _: jnp.asarray(obs.group(FEET[swing])),
            ),
        },
        transitions={"shift": ("relax",), "relax": ("pose",), "pose": ("shift",)},
        variables=variables,
    )
