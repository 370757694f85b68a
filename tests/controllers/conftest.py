"""What the tests of the script language share."""

import pytest

from controllers.scl.names import Vocabulary


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    """The planar human: names of figure 4.1, ranges of table 4.2."""
    ranges = {"neckTop": (-30, 90), "neckBottom": (-30, 30), "waist": (-40, 90)}
    limbs = {"Shoulder": (-90, 180), "Elbow": (0, 160), "Wrist": (-90, 90)}
    limbs |= {"Hip": (-30, 100), "Knee": (-160, 0), "Ankle": (30, 150)}
    parts = ("Arm", "Forearm", "Hand", "Thigh", "Shank", "Foot")
    sides = ("left", "right")
    ranges |= {side + joint: limbs[joint] for side in sides for joint in limbs}
    links = ["head", "neck", "trunk", "pelvis", *(side + p for side in sides for p in parts)]
    return Vocabulary.build(ranges, links, ranges, {"necks": ("neckTop", "neckBottom")}, {})
