"""Two humans in space: one of hinges and capsules, one of ball joints and boxes.

Both stand upright in the zero pose, arms down, palms to the thighs; x is forward, y left, z up.
Each link's frame is parallel to these axes and at the joint by which the link hangs on its parent;
the pelvis is the root, its frame between the hips. docs/explanation/characters.md has the tables
with their sources, and the choices where these say nothing.
"""

from dataclasses import dataclass, replace
from functools import partial

import jax
import numpy as np

from jaxsim.characters.anthropometry import (
    ADULT,
    ANKLE_AT,
    ANKLE_HEIGHT,
    DENSITY,
    FOOT_BREADTH,
    FOOT_LENGTH,
    HIP_HALF,
    SHOULDER,
    SHOULDER_HALF,
    TOE_HEIGHT,
    Segment,
    combine,
    find_build,
    foot_and_toes,
    segments,
    shift_segment,
    toe_joint,
)
from jaxsim.characters.poses import MIRROR, SIDES, posed, side_role
from jaxsim.characters.standing import rise_to_ground
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.model import (
    Joint,
    Model,
    ModelBuilder,
    ModelError,
    Roles,
    State,
    ball,
    box,
    capsule,
    free,
    hinge,
    plane,
    sphere,
)
from jaxsim.model.roles import MIDDLE, PAIRS, Point, pair_roles
from jaxsim.model.shapes import Shape


@dataclass(frozen=True)
class Turn:
    """A hinge: axis (of a pair the left one's), range [deg], gains and torque at ADULT's size.

    kp [N m/rad], kd [N m s/rad], largest torque [N m]. Angles are positive as the name says.
    """

    axis: tuple[int, int, int]
    range: tuple[float, float]
    kp: float
    kd: float
    torque: float


X, Y, Z = (1, 0, 0), (0, 1, 0), (0, 0, 1)  # of a pair of limbs: to abduct, to bend back
BACK_X, BACK_Y, BACK_Z = (-1, 0, 0), (0, -1, 0), (0, 0, -1)

# Ranges: American Academy of Orthopaedic Surgeons, "Joint Motion" (1965). Torques: see the docs.
TURNS = {
    "waistFlexion": Turn(Y, (-15, 50), 800, 115, 234),
    "waistBend": Turn(X, (-35, 35), 800, 115, 159),
    "waistRotation": Turn(Z, (-45, 45), 300, 30, 100),
    "spineFlexion": Turn(Y, (-10, 30), 600, 60, 234),
    "neckFlexion": Turn(Y, (-45, 45), 80, 8, 40),
    "neckBend": Turn(X, (-45, 45), 80, 8, 40),
    "neckRotation": Turn(Z, (-60, 60), 40, 2.5, 20),
    "shoulderFlexion": Turn(BACK_Y, (-60, 180), 200, 18, 92),
    "shoulderAbduction": Turn(X, (-30, 180), 200, 18, 71),
    "shoulderRotation": Turn(BACK_Z, (-90, 70), 60, 3, 52),
    "elbowFlexion": Turn(BACK_Y, (0, 150), 100, 6, 77),
    "wristFlexion": Turn(BACK_X, (-70, 80), 20, 0.6, 15),
    "hipFlexion": Turn(BACK_Y, (-30, 120), 500, 70, 190),
    "hipAbduction": Turn(X, (-30, 45), 500, 70, 150),
    "hipRotation": Turn(BACK_Z, (-45, 45), 150, 12, 60),
    "kneeFlexion": Turn(Y, (-10, 135), 500, 40, 168),
    "ankleFlexion": Turn(BACK_Y, (-50, 35), 600, 45, 126),
    "ankleInversion": Turn(BACK_X, (-15, 35), 250, 20, 126),
    "toeExtension": Turn(BACK_Y, (-45, 70), 40, 1.5, 25),
}
# Link: its parent and its hinges in their order. What is called both is there on both sides.
AXIAL = {
    "abdomen": ("pelvis", ("waistFlexion", "waistBend", "waistRotation")),
    "chest": ("abdomen", ("spineFlexion",)),
    "head": ("chest", ("neckFlexion", "neckBend", "neckRotation")),
}
LIMBS = {
    "upperArm": ("chest", ("shoulderFlexion", "shoulderAbduction", "shoulderRotation")),
    "forearm": ("upperArm", ("elbowFlexion",)),
    "hand": ("forearm", ("wristFlexion",)),
    "thigh": ("pelvis", ("hipFlexion", "hipAbduction", "hipRotation")),
    "shank": ("thigh", ("kneeFlexion",)),
    "foot": ("shank", ("ankleFlexion", "ankleInversion")),
    "toes": ("foot", ("toeExtension",)),
}


@dataclass(frozen=True)
class Swivel:
    """A ball joint: gains and largest torque about each of the link's axes, at ADULT's size.

    kp [N m/rad], kd [N m s/rad], torque [N m].
    """

    kp: float
    kd: float
    torque: float


SWIVELS = {
    "waist": Swivel(800, 115, 234),
    "spine": Swivel(600, 60, 234),
    "neck": Swivel(80, 8, 40),
    "shoulder": Swivel(200, 18, 92),
    "elbow": Swivel(100, 6, 77),
    "wrist": Swivel(20, 0.6, 15),
    "hip": Swivel(500, 70, 190),
    "knee": Swivel(500, 40, 168),
    "ankle": Swivel(600, 45, 126),
}
BALL_AXIAL = {
    "abdomen": ("pelvis", ("waist",)),
    "chest": ("abdomen", ("spine",)),
    "head": ("chest", ("neck",)),
}
BALL_LIMBS = {
    "upperArm": ("chest", ("shoulder",)),
    "forearm": ("upperArm", ("elbow",)),
    "hand": ("forearm", ("wrist",)),
    "thigh": ("pelvis", ("hip",)),
    "shank": ("thigh", ("knee",)),
    "foot": ("shank", ("ankle",)),
}
PASSIVE = 0.02  # damping of the joints without their motors, in shares of kd
# Of the shoulders' hinges [kg m^2]: with the arm straight out to the side two axes fall together.
ARMATURE = 0.005
BREADTH = 1.4  # of the trunk, in its depths
HEAD_SHARE = 0.85  # of the way from the cervicale to the vertex; below it is the neck
FOOT_THICKNESS = 0.03  # of the foot's box, in shares of the stature


def articulated_human(
    build: str = "adult",
    stature: float | None = None,
    mass: float | None = None,
    friction: float = 0.8,
) -> Model:
    """A human of 18 links with 31 hinge dofs and a free root, on flat ground.

    Capsules, a ball for the head, boxes for feet and toes; each joint has limits and gains. build:
    "adult" or "child" (six years); stature [m] and mass [kg] by default 1.75 and 72, of the child
    1.15 and 20. Gains and torques keep their effect in a body of another size (Hof 1996). Raises
    ModelError for another build, or a stature or mass that is not positive.

    Source of the structure: Jain, Ye, Liu (2009), section 4: 18 body nodes, 31 + 6 dofs.
    """
    sizes = _Sizes(build, stature, mass)
    bodies = sizes.bodies
    bodies["foot"], bodies["toes"] = foot_and_toes(bodies["foot"], sizes.stature)
    hinged = AXIAL, LIMBS, _hinge, _capsule_shape
    return _built(sizes, *hinged, friction, "articulated_human")


def ball_joint_human(
    build: str = "adult",
    stature: float | None = None,
    mass: float | None = None,
    friction: float = 1.0,
    hands: bool = False,
) -> Model:
    """A human of 14 boxes with 13 ball joints, 39 inner dofs, and a free root, on flat ground.

    The hands are part of the forearms, or with ``hands`` two more boxes, on balls. Its joints have
    gains but no limits. Other arguments and errors as for :func:`articulated_human`.

    Source of the structure: the topple-free-foot paper, section 6 and figure 7.
    """
    sizes = _Sizes(build, stature, mass)
    bodies, limbs = sizes.bodies, dict(BALL_LIMBS)
    if not hands:
        del limbs["hand"]
        forearm, hand = bodies["forearm"], bodies["hand"]
        below = shift_segment(hand, (0, 0, -forearm.length))
        length = forearm.length + hand.length
        bodies["forearm"] = combine(length, (forearm, 1.0), (below, 1.0))
    swivelled = BALL_AXIAL, limbs, _ball, _box_shape
    return _built(sizes, *swivelled, friction, "ball_joint_human")


class _Sizes:
    """Segments and scale factors of one body, from the tables, in SI units."""

    def __init__(self, build: str, stature: float | None, mass: float | None):
        shares = find_build(build)
        self.stature = float(shares.stature if stature is None else stature)
        self.mass = float(shares.mass if mass is None else mass)
        if not (self.stature > 0 and self.mass > 0):
            raise ModelError(
                f"stature {self.stature:g} m and mass {self.mass:g} kg; both must be positive"
            )
        self.bodies = segments(shares, self.stature, self.mass)
        # torque as weight times length, time as the root of length (Hof 1996)
        heavier, longer = self.mass / ADULT.mass, self.stature / ADULT.stature
        self.torque = heavier * longer
        self.damping = heavier * longer**1.5
        self.inertia = heavier * longer**2

    def offset(self, link: str) -> np.ndarray:
        """Position (3,) at which a link hangs on its parent, of a pair the left one [m]."""
        bodies, tall = self.bodies, self.stature
        return np.array(
            {
                "abdomen": (0, 0, bodies["pelvis"].length),
                "chest": (0, 0, bodies["abdomen"].length),
                "head": (0, 0, bodies["chest"].length),
                "upperArm": (0, SHOULDER_HALF * tall, (1 - SHOULDER) * bodies["chest"].length),
                "forearm": (0, 0, -bodies["upperArm"].length),
                "hand": (0, 0, -bodies["forearm"].length),
                "thigh": (0, HIP_HALF * tall, 0),
                "shank": (0, 0, -bodies["thigh"].length),
                "foot": (0, 0, -bodies["shank"].length),
                "toes": toe_joint(tall),
            }[link]
        )


def _built(
    sizes: _Sizes, axial, limbs, joint_of, shape_of, friction: float, character: str
) -> Model:
    """Build the model of the tables.

    Joints by ``joint_of(side, name, sizes)``, shapes by ``shape_of(link, sizes)``.
    """
    b = ModelBuilder()

    def add(name, parent, link, pos, joints):
        body = sizes.bodies[link]
        com = body.com.tolist()
        b.add_link(
            name, parent, pos=pos, mass=body.mass, com=com, inertia=body.inertia, joints=joints
        )
        b.add_shape(name, replace(shape_of(link, sizes), name=name, friction=friction))

    add("pelvis", "world", "pelvis", np.zeros(3), [free("root")])
    for link, (parent, names) in axial.items():
        add(link, parent, link, sizes.offset(link), [joint_of("", n, sizes) for n in names])
    for side, mirror in zip(SIDES, (1, -1)):
        for link, (parent, names) in limbs.items():
            pos = sizes.offset(link) * (1, mirror, 1)
            above = side_role(side, parent) if parent in limbs else parent
            add(side_role(side, link), above, link, pos, [joint_of(side, n, sizes) for n in names])
    b.add_shape("world", plane(name="ground", friction=friction))
    pairs = {
        pair: (side_role("left", part), side_role("right", part))
        for pair, part in PAIRS.items()
        if part in limbs
    }
    b.set_roles(
        Roles(character, pair_roles({name: name for name in MIDDLE}, pairs), _points(limbs))
    )
    return b.build()


def _points(limbs) -> tuple[Point, ...]:
    """Effectors: heel and ball of each foot, left and right, tips of toes, ends of hands.

    The soles are flat on the ground in the zero pose.
    """
    points: list[Point] = []
    for side in SIDES:
        foot, toes = side_role(side, "foot"), side_role(side, "toes")
        for end, x in (("Heel", -1.0), ("Ball", 1.0)):
            for edge, y in (("Left", 1.0), ("Right", -1.0)):
                points.append((f"{foot}{end}{edge}", foot, foot, (x, y, -1.0)))
        if "toes" in limbs:
            points.append((f"{toes}Tip", foot, toes, (1.0, 0.0, -1.0)))
    for side in SIDES if "hand" in limbs else ():
        hand = side_role(side, "hand")
        points.append((hand, hand, hand, (1.0, 0.0, 0.0)))
    return tuple(points)


def _hinge(side: str, name: str, sizes: _Sizes) -> Joint:
    turn = TURNS[name]
    axis = np.array(turn.axis) * (MIRROR if side == "right" else 1)
    return hinge(
        side_role(side, name) if side else name,
        axis,
        limits=tuple(np.deg2rad(turn.range)),
        kp=turn.kp * sizes.torque,
        kd=turn.kd * sizes.damping,
        max_torque=turn.torque * sizes.torque,
        damping=PASSIVE * turn.kd * sizes.damping,
        armature=ARMATURE * sizes.inertia if name.startswith("shoulder") else 0.0,
    )


def _ball(side: str, name: str, sizes: _Sizes) -> Joint:
    swivel = SWIVELS[name]
    return ball(
        side_role(side, name) if side else name,
        kp=swivel.kp * sizes.torque,
        kd=swivel.kd * sizes.damping,
        max_torque=swivel.torque * sizes.torque,
        damping=PASSIVE * swivel.kd * sizes.damping,
    )


ACROSS = (np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5))  # the shape's x axis along the link's y
DOWN = (np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0)  # along the link's -z


def _capsule_shape(link: str, sizes: _Sizes) -> Shape:
    """Shape of a link of the articulated human; its volume is about that of the link's mass."""
    body = sizes.bodies[link]
    section = body.mass / DENSITY / body.length  # [m^2]
    if link in ("foot", "toes"):
        return _foot_box(link, body, sizes)
    if link == "head":
        radius = (3 * body.mass / DENSITY / (4 * np.pi)) ** (1 / 3)
        return sphere(radius, pos=(0, 0, body.length - radius))
    if link in ("pelvis", "abdomen", "chest"):
        radius = np.sqrt(section / np.pi / BREADTH)
        middle = (0, 0, body.length / 2)
        return capsule(radius, (BREADTH - 1) * radius, pos=middle, quat=ACROSS)
    # from joint to joint, so that the ends of neighbours share their centres
    radius = np.sqrt(section / np.pi)
    reach = body.length - (radius if link == "hand" else 0)
    return capsule(radius, reach / 2, pos=(0, 0, -reach / 2), quat=DOWN)


def _box_shape(link: str, sizes: _Sizes) -> Shape:
    """Shape of a link of the ball-joint human; its volume is that of the link's mass."""
    body = sizes.bodies[link]
    section = body.mass / DENSITY / body.length  # [m^2]
    if link == "foot":
        return _foot_box(link, body, sizes)
    if link == "head":
        height = HEAD_SHARE * body.length
        half = np.sqrt(section / HEAD_SHARE) / 2
        return box((half, half, height / 2), pos=(0, 0, body.length - height / 2))
    upward = link in ("pelvis", "abdomen", "chest")
    depth = np.sqrt(section / (BREADTH if upward else 1)) / 2
    half = (depth, BREADTH * depth if upward else depth, body.length / 2)
    return box(half, pos=(0, 0, body.length / 2 * (1 if upward else -1)))


def _foot_box(link: str, body: Segment, sizes: _Sizes) -> Shape:
    """Box of a foot, or of toes from their joint on; flat on the ground in the zero pose."""
    tall, sole = sizes.stature, -ANKLE_HEIGHT * sizes.stature
    breadth = FOOT_BREADTH * tall / 2
    if link == "toes":
        height = TOE_HEIGHT * tall / 2
        return box((body.length / 2, breadth, height), pos=(body.length / 2, 0, 0))
    height = FOOT_THICKNESS * tall / 2
    middle = body.length / 2 - ANKLE_AT * FOOT_LENGTH * tall
    return box((body.length / 2, breadth, height), pos=(middle, 0, sole + height))


T_POSE = {"shoulderAbduction": 90.0}
BALL_T_POSE = {"shoulder": (90.0, 0.0, 0.0)}
# start: the root's turn about y [quarters of a circle], and whether the arms are out
STARTS = {"standing": (0, False), "t_pose": (0, True), "supine": (-1, False), "prone": (1, False)}


@partial(jax.jit, static_argnames="name")
def start(model: Model, name: str) -> State:
    """Start pose at rest, the lowest point on the ground, the pelvis above the origin.

    name: "standing", "t_pose", "supine" (face up, head to -x) or "prone" (head to +x). Works under
    vmap over models. Raises ModelError for another name.
    """
    if name not in STARTS:
        raise ModelError(f"no start named {name!r}; choose from {', '.join(STARTS)}")
    quarters, arms_out = STARTS[name]
    of_hinges = "leftShoulderAbduction" in model.topology.joint_names
    state = posed(model, (T_POSE if of_hinges else BALL_T_POSE) if arms_out else {})
    half = quarters * np.pi / 4
    quat = np.array([np.cos(half), 0, np.sin(half), 0])
    root = model.topology.q_start[model.topology.joint("root")]
    q = state.q.at[root + 3 : root + 7].set(quat.astype(state.q.dtype))
    rise = rise_to_ground(model, forward_kinematics(model, q, state.qd))
    return state.replace(q=q.at[root + 2].add(rise))
