"""The planar human of Shuo Shen's thesis on scripted character motions, section 4.1.

16 links and 15 hinges in the sagittal (x-z) plane, 89.49 kg. The head is the root; for each joint
the parent is the link nearer to the head. In the zero pose the head points along +x and the limbs
along -x; angles are counter-clockwise positive seen with x to the right and z up. The character
faces +x when it stands (all links at 90 degrees, feet at 180).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from jaxsim.characters.lamina import tapered_capsule_lamina
from jaxsim.characters.poses import posed, side_role
from jaxsim.characters.standing import rise_to_ground
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.model import (
    Model,
    ModelBuilder,
    ModelError,
    Roles,
    State,
    box,
    hinge,
    plane,
    slide,
    tapered_capsule,
)
from jaxsim.model.roles import PAIRS, pair_roles
from jaxsim.model.shapes import Shape


@dataclass(frozen=True)
class SegmentRow:
    """Row of table 4.1: length and tip thicknesses (proximal, distal) [cm], mass [kg]."""

    length: float
    tips: tuple[float, float]
    mass: float


@dataclass(frozen=True)
class Gains:
    """Row of table 4.2: range [deg], kp [Nm/rad], kd [Nm s/rad], largest torque [Nm]."""

    range: tuple[float, float]
    kp: float
    kd: float
    torque: float


TABLE_4_1 = {
    "head": SegmentRow(35, (26, 22), 5.89),
    "neck": SegmentRow(2, (12, 12), 1.1),
    "trunk": SegmentRow(50, (30, 20), 29.27),
    "pelvis": SegmentRow(25, (24, 27), 16.61),
    "arm": SegmentRow(32, (16, 8), 2.79),
    "forearm": SegmentRow(32, (8.4, 8.4), 1.12),
    "hand": SegmentRow(17, (5, 4), 0.55),
    "thigh": SegmentRow(50, (28, 10), 8.35),
    "shank": SegmentRow(48, (10, 7), 4.16),
    "foot": SegmentRow(22.6, (8, 5.2), 1.34),
}
TABLE_4_2 = {
    "neckTop": Gains((-30, 90), 170, 5, 60),
    "neckBottom": Gains((-30, 30), 171, 18, 122),
    "waist": Gains((-40, 90), 674, 61, 250),
    "shoulder": Gains((-90, 180), 386, 33, 180),
    "elbow": Gains((0, 160), 300, 20, 180),
    "wrist": Gains((-90, 90), 156, 11, 120),
    "hip": Gains((-30, 100), 500, 70, 300),
    "knee": Gains((-160, 0), 600, 70, 300),
    "ankle": Gains((30, 150), 500, 60, 300),
}
# joint: (parent, child); the pairs below exist on the left and on the right
AXIAL = {"neckTop": ("head", "neck"), "neckBottom": ("neck", "trunk"), "waist": ("trunk", "pelvis")}
LIMBS = {
    "shoulder": ("trunk", "arm"),
    "elbow": ("arm", "forearm"),
    "wrist": ("forearm", "hand"),
    "hip": ("pelvis", "thigh"),
    "knee": ("thigh", "shank"),
    "ankle": ("shank", "foot"),
}
PROXIMAL = ("shoulder",)  # joints at the parent's proximal tip; all others sit at its distal tip
TURN = (0.0, -1.0, 0.0)  # hinge axis: counter-clockwise in the x-z plane
TOTAL_MASS = 89.49
FRICTION = 0.6  # not in the thesis; see docs/results/motions.md
TRACED_CHAIR = 1.0  # its height while the model is built, where the asked one is traced [m]


def planar_human(chair_height: float | None = None, friction: float = FRICTION) -> Model:
    """The planar human on flat ground, with a chair of ``chair_height`` [m] if one is given.

    The chair's seat is centred at x = 0. Change the height of an existing model with
    :func:`set_chair_height`, so that a batch can vary it; ``chair_height`` may be traced too.
    """
    b = ModelBuilder()
    _add_part(b, "head", "head", "world", (0, 0, 0), _root_joints(), friction)
    for joint, (parent, child) in AXIAL.items():
        _attach(b, joint, joint, parent, child, child, friction)
    for side in ("left", "right"):
        for joint, (parent, child) in LIMBS.items():
            own_parent = parent if parent in ("trunk", "pelvis") else side_role(side, parent)
            _attach(
                b,
                side_role(side, joint),
                joint,
                own_parent,
                side_role(side, child),
                child,
                friction,
            )
    b.add_shape("world", plane(name="ground", friction=friction))
    if isinstance(chair_height, Tracer):
        return set_chair_height(planar_human(TRACED_CHAIR, friction), chair_height)
    if chair_height is not None:
        if not chair_height > 0:
            raise ModelError(f"chair_height is {chair_height} m; it must be positive")
        height = float(chair_height)
        seat = box(
            (CHAIR_DEPTH / 2, 0.25, height / 2),
            pos=(0, 0, height / 2),
            name="chair",
            friction=friction,
        )
        b.add_shape("world", seat)
    b.set_roles(ROLES)
    return b.build()


STANDS_ABOVE = 1.8  # [m], in the terms of the thesis' objectives, section 5.3
HEAD_HEIGHT = 1.982792979845616  # of the head's centre of mass, standing [m]
# Starts: root angle and joint angles in degrees; joints not named are at zero.
STANDING = {"rootAngle": 90, "ankles": 90}
SUPINE = {"rootAngle": 180, "ankles": 90}
PRONE = {"rootAngle": 0, "ankles": 30}
JOINTS = ("rootX", "rootZ", "rootAngle", *AXIAL, *LIMBS, *LIMBS)  # in q: left limbs, right ones
ROLES = Roles(
    "planar_human",
    pair_roles(
        {"head": "head", "chest": "trunk", "pelvis": "pelvis"},
        {
            "upper_arms": ("leftArm", "rightArm"),
            **{
                pair: (side_role("left", part), side_role("right", part))
                for pair, part in PAIRS.items()
                if pair not in ("upper_arms", "toes")
            },
        },
    ),
    standing=tuple(float(np.deg2rad(STANDING.get(j, STANDING.get(f"{j}s", 0)))) for j in JOINTS),
    stands_at=STANDS_ABOVE / HEAD_HEIGHT,
    forward=(0.0, 0.0, -1.0),
    up=(1.0, 0.0, 0.0),
)


CHAIR_DEPTH = 0.4  # of the seat, front to back [m]


def set_chair_height(model: Model, height) -> Model:
    """Set the height of the chair's seat [m], which may be traced or batched."""
    size = jnp.stack([jnp.asarray(CHAIR_DEPTH / 2), jnp.asarray(0.25), jnp.asarray(height / 2)])
    pos = jnp.stack([jnp.zeros(()), jnp.zeros(()), jnp.asarray(height / 2)])
    return model.with_shape("chair", size=size, pos=pos)


def _root_joints() -> list:
    return [slide("rootX", (1, 0, 0)), slide("rootZ", (0, 0, 1)), hinge("rootAngle", TURN)]


def _attach(b: ModelBuilder, joint, row, parent, link, part, friction) -> None:
    """Hang a link on its parent's proximal or distal tip."""
    gains = TABLE_4_2[row]
    base = parent.removeprefix("left").removeprefix("right")
    length = 0.0 if row in PROXIMAL else TABLE_4_1[base[0].lower() + base[1:]].length / 100
    joints = [
        hinge(
            joint,
            TURN,
            limits=tuple(np.deg2rad(gains.range)),
            kp=gains.kp,
            kd=gains.kd,
            max_torque=gains.torque,
        )
    ]
    _add_part(b, link, part, parent, (-length, 0, 0), joints, friction)


def _add_part(b: ModelBuilder, link, part, parent, pos, joints, friction) -> None:
    """Add a link whose frame is at its proximal tip and whose body extends along -x."""
    row = TABLE_4_1[part]
    length, (r0, r1) = row.length / 100, (t / 200 for t in row.tips)
    com, inertia = tapered_capsule_lamina(length, r0, r1, row.mass)
    b.add_link(
        link, parent, pos=pos, mass=row.mass, com=(com, 0, 0), inertia=inertia, joints=joints
    )
    body: Shape = tapered_capsule(
        r0, r1, length / 2, pos=(-length / 2, 0, 0), name=link, friction=friction
    )
    b.add_shape(link, body)


STARTS = ("standing", "supine", "prone", "sitting")
SHANK_TILT = np.deg2rad(15.0)  # sitting: the feet stand this far behind the knees


def start(model: Model, name: str, shank_tilt: float | Array = SHANK_TILT) -> State:
    """Start pose at rest: lowest point on the ground (``START_DEPTH`` in it), or seated.

    name: "standing", "supine", "prone" or "sitting". The pelvis is at x = 0, or further forward on
    a chair so high that the thighs slope down. Works under vmap over models, so chair heights may
    be batched. shank_tilt: angle of a sitting character's shanks, feet behind the knees [rad].
    Raises ModelError for another name, or for sitting without a chair.
    """
    poses = {"standing": STANDING, "supine": SUPINE, "prone": PRONE}
    if name not in STARTS:
        raise ModelError(f"no start named {name!r}; choose from {', '.join(STARTS)}")
    pose: Mapping[str, float | Array] = poses.get(name, {})
    place: float | Array = 0.0
    if name == "sitting":
        pose, place = _sitting(model, shank_tilt)
    state = posed(model, pose)
    kin = forward_kinematics(model, state.q, state.qd)
    rise = rise_to_ground(model, kin)
    forward = place - kin.com[model.topology.link("pelvis"), 0]
    return state.replace(q=state.q.at[0].add(forward).at[1].add(rise))


def _sitting(model: Model, shank_tilt: float | Array) -> tuple[dict[str, float | Array], Array]:
    """Sitting pose, and x of the pelvis [m]: soles flat on the ground, upper body upright.

    Thighs are on the seat, shanks tilted back. On a low seat the waist bends instead of the hips
    beyond their limit; on a high one the character sits at the front edge, since thighs that slope
    down from the middle would cut through it. It sits further forward, too, where the feet would be
    inside the chair.
    """
    if "chair" not in model.topology.shape_names:
        raise ModelError("the start 'sitting' needs a chair; make planar_human(chair_height=0.45)")
    chair = model.topology.shape("chair")
    seat = model.shape_pos[chair, 2] + model.shape_size[chair, 2]
    thigh, shank, foot = (TABLE_4_1[part] for part in ("thigh", "shank", "foot"))
    heel, toe = (t / 200 for t in foot.tips)
    drop = seat + thigh.tips[0] / 200 - heel - shank.length / 100 * jnp.cos(shank_tilt)
    # on a seat too high for the feet to reach the ground the thighs hang straight down
    slope = jnp.arcsin(jnp.clip(drop / (thigh.length / 100), -1.0, 1.0))
    taper = np.arcsin((thigh.tips[0] - thigh.tips[1]) / 200 / (thigh.length / 100))
    # how far forward the hip must be for the thigh's lower side to pass the front edge; the way
    # there takes a degree, so that a small change of the seat is a small change of the pose
    below = jnp.maximum(slope - taper, 0.0)
    edge = CHAIR_DEPTH / 2 + thigh.tips[0] / 200 * jnp.tan(below / 2)
    place = jnp.minimum(below / np.deg2rad(1.0), 1.0) * edge
    # feet that are tucked back stay clear of the front edge
    tucked = heel + shank.length / 100 * jnp.sin(shank_tilt)
    knees = thigh.length / 100 * jnp.cos(slope)
    place = jnp.maximum(place, CHAIR_DEPTH / 2 + tucked - knees)
    thigh_down = jnp.rad2deg(slope)
    hips = jnp.minimum(90 - thigh_down, TABLE_4_2["hip"].range[1])
    shank_angle = 90 - jnp.rad2deg(shank_tilt)
    sole = 180 - np.rad2deg(np.arcsin((heel - toe) / (foot.length / 100)))
    pose = {
        "rootAngle": 90,
        "waist": 90 - thigh_down - hips,
        "hips": hips,
        "knees": shank_angle - 180 + thigh_down,
        "ankles": sole - shank_angle,
    }
    return pose, place
