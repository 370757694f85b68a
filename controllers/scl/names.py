"""Names that a script may use: joints, links and groups of a character, and their mirror images."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from controllers.scl.grammar import keywords
from jaxsim.model import Model, Topology
from jaxsim.model.roles import PAIRS, SIDES, side_role
from jaxsim.model.topology import WORLD

_NAME = re.compile(r"[^\W\d]\w*")
_OTHER_SIDE = {"left": "right", "right": "left"}


@dataclass(frozen=True)
class Vocabulary:
    """Joints and links of a character, with groups that name several of them by one word."""

    joints: tuple[str, ...]
    links: tuple[str, ...]
    joint_range_deg: Mapping[str, tuple[float, float]] = field(hash=False)
    joint_groups: Mapping[str, tuple[str, ...]] = field(hash=False)
    link_groups: Mapping[str, tuple[str, ...]] = field(hash=False)

    @classmethod
    def build(
        cls,
        joints: Iterable[str],
        links: Iterable[str],
        ranges_deg: Mapping[str, tuple[float, float]] | None = None,
        extra_joint_groups: Mapping[str, Iterable[str]] | None = None,
        extra_link_groups: Mapping[str, Iterable[str]] | None = None,
    ) -> "Vocabulary":
        """The vocabulary of a character, with the plural of every left and right pair added.

        `ranges_deg` holds (lower, upper) [deg] by joint or by group, whose joints then share it;
        a joint without a range is never warned about. Source: Shen thesis, figure 4.1 (plural
        names in parentheses) and table 4.2.

        Raises ValueError for a name that a script cannot hold, a name given twice, a group of
        unknown members, and a range of an unknown joint or with lower > upper.

        >>> v = Vocabulary.build(["leftHip", "rightHip"], ["leftFoot", "rightFoot"], {}, {}, {})
        >>> v.joint_groups, v.link_groups
        ({'hips': ('leftHip', 'rightHip')}, {'feet': ('leftFoot', 'rightFoot')})
        """
        joints, links = tuple(joints), tuple(links)
        joint_groups = _groups(joints, extra_joint_groups or {}, "joint")
        link_groups = _groups(links, extra_link_groups or {}, "link")
        ranges: dict[str, tuple[float, float]] = {}
        for name, (lower, upper) in (ranges_deg or {}).items():
            if name not in joints and name not in joint_groups:
                raise ValueError(f"range of unknown joint '{name}'; joints: {', '.join(joints)}")
            if not lower <= upper:
                raise ValueError(f"range of '{name}' is empty: {lower} to {upper} deg")
            for joint in joint_groups.get(name, (name,)):
                ranges[joint] = (float(lower), float(upper))
        return cls(joints, links, ranges, joint_groups, link_groups)

    def joints_of(self, name: str) -> tuple[str, ...]:
        """Joints that a joint or group name stands for; () where it is neither."""
        return (name,) if name in self.joints else self.joint_groups.get(name, ())

    def links_of(self, name: str) -> tuple[str, ...]:
        """Links that a link or group name stands for; () where it is neither."""
        return (name,) if name in self.links else self.link_groups.get(name, ())

    @property
    def joint_words(self) -> tuple[str, ...]:
        """Every word that names joints: the joints, then the groups."""
        return (*self.joints, *self.joint_groups)

    @property
    def link_words(self) -> tuple[str, ...]:
        """Every word that names links: the links, then the groups."""
        return (*self.links, *self.link_groups)

    def mirror(self, name: str) -> str:
        """Mirror image of a joint or link, by name; one in the middle is its own image.

        Raises KeyError for a name that is neither joint nor link, ValueError for one with a side
        but without a counterpart. Source: Shen's thesis, section 4.3, symmetric primitive.
        """
        for names in (self.joints, self.links):
            if name in names:
                side, stem = _split_side(name)
                if not side:
                    return name
                image = _OTHER_SIDE[side] + stem
                if image not in names:
                    raise ValueError(f"'{name}' has no counterpart '{image}'")
                return image
        raise KeyError(name)


def plural(word: str) -> str:
    """The plural of a body part's name.

    >>> plural("knee"), plural("foot"), plural("crutch"), plural("body")
    ('knees', 'feet', 'crutches', 'bodies')
    """
    if re.search(r"[fF]oot$", word):
        return word[:-3] + "eet"
    if re.search(r"(s|x|z|ch|sh)$", word):
        return word + "es"
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    return word + "s"


def _split_side(name: str) -> tuple[str, str]:
    """("left" or "right", the rest), or ("", name) for a name without a side."""
    match = re.fullmatch(r"(left|right)((?:[A-Z]|_).*)", name)
    return (match[1], match[2]) if match else ("", name)


def _groups(
    names: tuple[str, ...], extra: Mapping[str, Iterable[str]], kind: str
) -> dict[str, tuple[str, ...]]:
    """The plural of each pair, then the extra groups; raises ValueError for unusable names."""
    groups = {}
    for name in names:
        side, stem = _split_side(name)
        if side == "left" and "right" + stem in names:
            stem = stem.lstrip("_")
            groups[plural(stem[:1].lower() + stem[1:])] = (name, "right" + name[len("left") :])
    groups |= {group: tuple(members) for group, members in extra.items()}
    taken = keywords()
    for word in (*names, *groups):
        if not _NAME.fullmatch(word) or word in taken:
            raise ValueError(f"{kind} name {word!r} is not a word, or is a keyword of the language")
        if names.count(word) + (word in groups) > 1:
            raise ValueError(f"{kind} name '{word}' is given twice")
    for group, members in groups.items():
        unknown = [member for member in members if member not in names]
        if unknown or not members:
            what = f"unknown {kind} '{unknown[0]}'" if unknown else "no members"
            raise ValueError(f"group '{group}' has {what}; {kind}s: {', '.join(names)}")
    return groups


def vocabulary(model: Model) -> Vocabulary:
    """Names that scripts may use for a model: actuated joints, links, and groups of them.

    Of a character also its ``necks``, and its roles ("chest", "leftFoot", "feet") for links with
    other names.
    """
    top = model.topology
    joints = [top.joint_names[j] for j in top.actuated_joints]
    lower, upper = np.rad2deg(model.joint_lower), np.rad2deg(model.joint_upper)
    ranges = {
        top.joint_names[j]: (round(float(lower[j]), 3), round(float(upper[j]), 3))
        for j in top.actuated_joints
        if top.joint_limited[j]
    }
    necks = tuple(top.joint_names[j] for j in _between(top, "head", "chest"))
    groups = {"necks": necks} if necks and "necks" not in joints else {}
    return Vocabulary.build(joints, top.link_names, ranges, groups, _role_words(top))


def _between(top: Topology, role: str, other: str) -> list[int]:
    """Actuated joints between two links of a character, by role."""
    ways = []
    for link in top.parts((role, other)):
        ways.append({link})
        while (link := top.link_parent[link]) != WORLD:
            ways[-1].add(link)
    between = ways[0] ^ ways[1] if len(ways) == 2 else set()
    return [j for j in top.actuated_joints if top.joint_link[j] in between]


def _role_words(top: Topology) -> dict[str, tuple[str, ...]]:
    """Roles, and their plurals, as words for links with other names."""
    words: dict[str, tuple[str, ...]] = {role: (link,) for role, link in top.roles.links}
    for part in PAIRS.values():
        pair = [link for side in SIDES for link in words.get(side_role(side, part), ())]
        if pair:
            words[part if part == "toes" else plural(part)] = tuple(pair)
    return {word: links for word, links in words.items() if word not in top.link_names}
