"""Roles of a model from the names of its links and shapes, where these are unambiguous."""

import re
from collections.abc import Iterable
from itertools import pairwise

from jaxsim.model import Topology
from jaxsim.model.roles import FEET, HANDS, PAIRS, SIDES, side_role
from jaxsim.model.topology import WORLD

# What the words of a name may say, without its side, written together ("UpperArm", "upper_arm").
WORDS = {
    "head": ("head", "skull"),
    "chest": ("chest", "thorax", "torso", "trunk", "uppertorso", "upperbody"),
    "abdomen": ("abdomen", "waist", "belly", "lumbar"),
    "pelvis": ("pelvis", "hips", "lowertorso"),
    "upperArm": ("upperarm", "humerus"),
    "forearm": ("forearm", "lowerarm", "ulna"),
    "hand": ("hand",),
    "thigh": ("thigh", "upperleg", "femur"),
    "shank": ("shank", "shin", "calf", "lowerleg", "tibia"),
    "foot": ("foot",),
    "toes": ("toes", "toe"),
}
OF_SIDE = {"left": "left", "l": "left", "right": "right", "r": "right"}
CHAINS = (("thigh", "shank", "foot", "toes"), ("upperArm", "forearm", "hand"))
MAY_SHARE = ("head", *HANDS, *FEET)  # may be a shape of a link that plays another part too


def find_roles(top: Topology) -> dict[str, str]:
    """Roles of a model's links, role -> link, from their names.

    A role is left out where no link has its name, or several do; both sides of a pair where one is;
    and of a limb a role whose link is not below the one before. The name of a shape serves for a
    head, hand or foot that is no link of its own.
    """
    links = _by_name(zip(top.link_names, range(top.n_links)))
    shapes = [(name, link) for name, link in zip(top.shape_names, top.shape_link) if link != WORLD]
    for role, link in _by_name(shapes).items():
        if role in MAY_SHARE:
            links.setdefault(role, link)
    for chain in CHAINS:
        for above, below in pairwise(chain):
            for side in SIDES:
                first, second = links.get(side_role(side, above)), links.get(side_role(side, below))
                if first is not None and second is not None and not _carries(top, first, second):
                    links.pop(side_role(side, below))
    for part in PAIRS.values():
        pair = [side_role(side, part) for side in SIDES]
        if not all(role in links for role in pair):
            for role in pair:
                links.pop(role, None)
    return {role: top.link_names[link] for role, link in links.items()}


def _by_name(named: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Role -> link, of names that only one link has."""
    links_of: dict[str, list[int]] = {}
    for name, link in named:
        words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
        words = [word.lower() for word in words]
        sides = [OF_SIDE[word] for word in words if word in OF_SIDE]
        rest = "".join(word for word in words if word not in OF_SIDE)
        for role, known in WORDS.items():
            if rest in known and len(sides) == (role in PAIRS.values()):
                links_of.setdefault(side_role(sides[0], role) if sides else role, []).append(link)
    return {role: links[0] for role, links in links_of.items() if len(set(links)) == 1}


def _carries(top: Topology, above: int, below: int) -> bool:
    """True if one link hangs on another, or is the same."""
    while below not in (above, WORLD):
        below = top.link_parent[below]
    return below == above
