"""Roles: the links of a character that are its head, pelvis, feet. Controllers use them, not names.

Roles of the middle and of pairs are words such as "pelvis", "leftThigh"; files give a pair by its
plural, ``thighs = ["left one", "right one"]``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaxsim.model.errors import ModelError

SIDES = ("left", "right")


def side_role(side: str, name: str) -> str:
    """Role of one side: "left", "knee" -> "leftKnee"."""
    return side + name[0].upper() + name[1:]


MIDDLE = ("head", "chest", "abdomen", "pelvis")
PAIRS = {
    "upper_arms": "upperArm",
    "forearms": "forearm",
    "hands": "hand",
    "thighs": "thigh",
    "shanks": "shank",
    "feet": "foot",
    "toes": "toes",
}
FEET, TOES, HANDS, UPPER_ARMS, THIGHS, SHANKS = (
    tuple(side_role(side, PAIRS[pair]) for side in SIDES)
    for pair in ("feet", "toes", "hands", "upper_arms", "thighs", "shanks")
)
ROLES = (*MIDDLE, *(side_role(side, part) for side in SIDES for part in PAIRS.values()))

Vector3 = tuple[float, float, float]
Point = tuple[str, str, str, Vector3]
"""An effector: its name, its group (one of FEET and HANDS, or another link), a shape, and its
position there relative to the shape's half size, see ``jaxsim.dynamics.effectors``."""


@dataclass(frozen=True)
class Roles:
    """Roles, effectors and standing pose of a character. Static; the default is a body without any.

    Lengths and angles follow from the model's numbers, so that they are right for a body of any
    size; only ``standing`` has numbers itself.
    """

    character: str = ""  # the name of a built-in character, or of a model file
    links: tuple[tuple[str, str], ...] = ()  # (role, link)
    points: tuple[Point, ...] = ()  # effectors, which may touch the surroundings
    standing: tuple[float, ...] = ()  # first positions in q of the standing pose; (): the zero pose
    stands_at: float | None = None  # share of the head's height in standing, see standing_height
    forward: Vector3 = (1.0, 0.0, 0.0)  # in the standing pose, in the pelvis' frame
    up: Vector3 = (0.0, 0.0, 1.0)  # in the standing pose, in the chest's frame

    def __post_init__(self):
        for role, _ in self.links:
            if role not in ROLES:
                raise ModelError(f"there is no role {role!r}; the roles are: {', '.join(ROLES)}")

    @property
    def stands(self) -> bool:
        """True if the height of the head from which on the body is standing is known."""
        known = self.link("head") is not None
        return known and (self.stands_at is not None or bool(self.points))

    def link(self, role: str) -> str | None:
        """Name of the link in a role, if there is one."""
        return dict(self.links).get(role)

    def require(self, asker: str, roles: tuple[str, ...], link_names: tuple[str, ...]) -> None:
        """Raise ModelError, with the table to fill in, unless every role has a link.

        asker: the function or controller that needs them, for the message.
        """
        missing = [role for role in roles if self.link(role) is None]
        if not missing:
            return
        name = self.character or "the model"
        raise ModelError(
            f"{asker} needs the {'role' if len(missing) == 1 else 'roles'} {', '.join(missing)}, "
            f"and which links of {name} these are cannot be told from names. Fill in this table in "
            f"{name.rpartition('.')[0] or 'MODEL'}.roles.toml beside the model's file (of a model "
            f"built in Python: builder.set_roles), and leave out what the body lacks:\n\n"
            f"{self.as_table()}\n\nThe links are: {', '.join(link_names)}"
        )

    def as_table(self) -> str:
        """Links as the TOML table of a roles file, with empty strings for unknown ones."""
        quoted = {role: f'"{self.link(role) or ""}"' for role in ROLES}
        lines = [f"{role} = {quoted[role]}" for role in MIDDLE]
        for pair, part in PAIRS.items():
            lines.append(f"{pair} = [{', '.join(quoted[side_role(side, part)] for side in SIDES)}]")
        return "\n".join(["[roles]", *lines])


def pair_roles(
    singles: Mapping[str, str], pairs: Mapping[str, Sequence[str]]
) -> tuple[tuple[str, str], ...]:
    """Make ``Roles.links`` from links by role of the middle, and from pairs by their plural."""
    of_sides = [
        (side_role(side, PAIRS[pair]), link)
        for pair, links in pairs.items()
        for side, link in zip(SIDES, links)
    ]
    return (*singles.items(), *of_sides)


NO_ROLES = Roles()
