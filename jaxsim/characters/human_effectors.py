"""Where the humans in space may bear on their surroundings."""

from jaxsim.characters.poses import SIDES, sided
from jaxsim.dynamics.effectors import Effectors, effectors
from jaxsim.model import Model


def human_effectors(model: Model) -> Effectors:
    """Of each foot the heel and the ball, left and right, and the tip; of each hand its end.

    For ``articulated_human`` of any size. The soles are flat on the ground in the zero pose.
    """
    points = []
    for side in SIDES:
        foot, toes, hand = (sided(side, link) for link in ("foot", "toes", "hand"))
        for end, x in (("Heel", -1.0), ("Ball", 1.0)):
            for edge, y in (("Left", 1.0), ("Right", -1.0)):
                points.append((f"{foot}{end}{edge}", foot, foot, (x, y, -1.0)))
        points.append((f"{toes}Tip", foot, toes, (1.0, 0.0, -1.0)))
    for side in SIDES:
        hand = sided(side, "hand")
        points.append((hand, hand, hand, (1.0, 0.0, 0.0)))
    return effectors(model, points)
