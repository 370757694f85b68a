"""Everything the builder refuses, with the words it says: the place first, then the remedy."""

import re

import numpy as np
import pytest

from jaxsim.model import (
    Drive,
    Joint,
    ModelBuilder,
    ModelError,
    ball,
    box,
    capsule,
    fixed,
    free,
    height_field,
    hinge,
    plane,
    slide,
    sphere,
    tapered_capsule,
)

NAN = float("nan")
GRID = np.zeros((3, 3))
GOOD = dict(mass=1.0, com=(0.1, 0, 0), inertia=(0.1, 0.2, 0.2))


def builder() -> ModelBuilder:
    """A trunk with a hinged arm, which carries a ball, and a block of the world."""
    b = ModelBuilder()
    b.add_link("trunk", "world", joints=[free("root")], **GOOD)
    b.add_link("arm", "trunk", joints=[hinge("shoulder", (0, 1, 0), limits=(-1, 1))], **GOOD)
    b.add_shape("arm", sphere(0.1, name="hand"))
    b.add_shape("world", box((1, 1, 1), name="block"))
    return b


LINKS = {
    "unknown parent": (dict(parent="torso"), "unknown parent 'torso'", "world, trunk, arm"),
    "its own parent": (dict(parent="leg"), "unknown parent 'leg'", "add it first"),
    "duplicate name": (dict(name="arm"), "the name is taken"),
    "no name": (dict(name=""), "needs a name"),
    "named world": (dict(name="world"), "needs a name other than 'world'"),
    "zero mass": (dict(mass=0), "mass is 0 kg", "must be positive"),
    "negative mass": (dict(mass=-2.5), "mass is -2.5 kg", "must be positive"),
    "NaN mass": (dict(mass=NAN), "mass is nan", "must be finite"),
    "infinite mass": (dict(mass=np.inf), "mass is inf", "must be finite"),
    "mass in words": (dict(mass="heavy"), "mass is 'heavy'", "numbers are needed"),
    "two masses": (dict(mass=(1.0, 2.0)), "mass", "one number"),
    "no inertia": (dict(inertia=None), "inertia"),
    "triangle inequality": (dict(inertia=(1, 1, 3)), "triangle inequality", "1 + 1 < 3"),
    "triangle inequality, turned": (
        dict(inertia=[[0.2, 0.1, 0], [0.1, 0.2, 0], [0, 0, 0.05]]),
        "triangle inequality",
    ),
    "zero inertia": (dict(inertia=(0, 0, 0)), "principal moments", "must be positive"),
    "negative inertia": (dict(inertia=(0.1, 0.1, -0.1)), "principal moments", "must be positive"),
    "indefinite inertia": (
        dict(inertia=[[0.1, 0.2, 0], [0.2, 0.1, 0], [0, 0, 0.1]]),
        "principal moments",
    ),
    "asymmetric inertia": (
        dict(inertia=[[0.1, 0.01, 0], [0, 0.1, 0], [0, 0, 0.1]]),
        "not symmetric",
    ),
    "NaN inertia": (dict(inertia=(0.1, NAN, 0.1)), "inertia is [0.1, nan, 0.1]", "finite"),
    "inertia of six numbers": (dict(inertia=[1] * 6), "inertia has shape (6,)"),
    "NaN com": (dict(com=(0, NAN, 0)), "com is", "finite"),
    "planar com": (dict(com=(0, 0)), "com has shape (2,)", "(3,)"),
    "infinite pos": (dict(pos=(0, 0, np.inf)), "pos is", "finite"),
    "planar pos": (dict(pos=(0, 0)), "pos has shape (2,)"),
    "NaN quat": (dict(quat=(NAN, 0, 0, 0)), "quat is", "finite"),
    "quat of three": (dict(quat=(0, 0, 0)), "quat has shape (3,)"),
    "quat not unit": (dict(quat=(1, 1, 0, 0)), "quat has length 1.414", "unit quaternion"),
}

JOINTS = {
    "limits out of order": (
        [hinge("hip", (0, 1, 0), limits=(1, -1))],
        "limits out of order",
        "lower 1 >= upper -1",
    ),
    "equal limits": ([slide("hip", (0, 1, 0), limits=(1, 1))], "limits out of order"),
    "NaN limit": ([hinge("hip", (0, 1, 0), limits=(NAN, 1))], "limits is", "finite"),
    "infinite limit": ([hinge("hip", (0, 1, 0), limits=(0, np.inf))], "limits is", "finite"),
    "one limit": ([hinge("hip", (0, 1, 0), limits=(1,))], "limits has shape (1,)"),
    "limits of a ball": ([ball("hip", limits=(-1, 1))], "(0, greatest angle), not -1"),
    "driven ball": ([ball("hip", drive=Drive())], "only hinges and slides can be driven"),
    "driven with a motor": (
        [hinge("hip", (0, 1, 0), max_torque=1, drive=Drive())],
        "neither max_torque nor limits",
    ),
    "drive without number": (
        [hinge("hip", (0, 1, 0), drive=Drive(rate=np.nan))],
        "drive.rate is nan",
    ),
    "duplicate joint name": ([hinge("shoulder", (0, 1, 0))], "the name is taken"),
    "duplicate within the link": (
        [hinge("hip", (0, 1, 0)), hinge("hip", (1, 0, 0))],
        "the name is taken",
    ),
    "no joint name": ([hinge("", (0, 1, 0))], "the name is empty"),
    "unknown kind": ([Joint("hip", "screw")], "unknown kind 'screw'", "fixed, hinge, slide"),
    "zero axis": ([hinge("hip", (0, 0, 0))], "the axis is zero"),
    "NaN axis": ([hinge("hip", (0, NAN, 0))], "axis is", "finite"),
    "planar axis": ([slide("hip", (0, 1))], "axis has shape (2,)"),
    "NaN anchor": ([ball("hip", anchor=(0, 0, NAN))], "anchor is", "finite"),
    "negative damping": ([ball("hip", damping=-1.0)], "damping is negative"),
    "negative armature": ([ball("hip", armature=-1.0)], "armature is negative"),
    "negative stiffness": ([ball("hip", kp=-1.0)], "kp is negative"),
    "NaN gain": ([ball("hip", kd=NAN)], "kd is nan", "finite"),
    "two gains": ([ball("hip", kd=(1.0, 2.0))], "kd", "one number"),
    "no torque": ([ball("hip", max_torque=0.0)], "max_torque must be positive"),
    "NaN torque": ([ball("hip", max_torque=NAN)], "max_torque is nan", "finite"),
    "free below a link": ([free("hip")], "child of the world"),
    "fixed with others": ([fixed("weld"), hinge("hip", (0, 1, 0))], "a fixed joint must be"),
}

SHAPES = {
    "unknown link": ("leg", sphere(0.1), "unknown link 'leg'", "world, trunk, arm"),
    "duplicate name": ("arm", sphere(0.1, name="hand"), "the name is taken"),
    "zero radius": ("arm", sphere(0.0, name="s"), "sizes [0.0]", "positive"),
    "negative radius": ("arm", tapered_capsule(0.1, -0.1, 0.2, name="s"), "must be positive"),
    "NaN size": ("arm", box((0.1, NAN, 0.1), name="s"), "size is", "finite"),
    "NaN pos": ("arm", sphere(0.1, name="s", pos=(0, 0, NAN)), "pos is", "finite"),
    "quat not unit": ("arm", sphere(0.1, name="s", quat=(0, 0, 0, 0)), "quat has length 0"),
    "negative friction": ("arm", sphere(0.1, name="s", friction=-0.1), "friction is negative"),
    "restitution above 1": ("arm", sphere(0.1, name="s", restitution=1.1), "restitution is 1.1"),
    "plane of a link": ("arm", plane(name="s"), "a plane belongs to the world"),
    "field of a link": ("arm", height_field(GRID, (1, 1), name="s"), "field belongs to the world"),
    "field of no width": ("world", height_field(GRID, (1, 0), name="s"), "must be positive"),
    "NaN height": ("world", height_field([[0, 0], [0, NAN]], (1, 1), name="s"), "finite"),
    "no bits": ("arm", capsule(0.1, 0.2, name="s", group=0.5), "group is 0.5", "bits"),
    "negative bits": ("arm", capsule(0.1, 0.2, name="s", mask=-1), "mask is -1", "bits"),
}


def check(error, *words: str) -> None:
    message = str(error.value)
    assert all(word in message for word in words), message


@pytest.mark.parametrize("case", LINKS.values(), ids=LINKS)
def test_bad_links(case):
    changes, *words = case
    link = dict(name="leg", parent="trunk", **GOOD) | changes
    with pytest.raises(ModelError) as error:
        builder().add_link(**link)
    check(error, f"link {link['name']!r}", *words)


@pytest.mark.parametrize("case", JOINTS.values(), ids=JOINTS)
def test_bad_joints(case):
    joints, *words = case
    with pytest.raises(ModelError) as error:
        builder().add_link("leg", "trunk", joints=joints, **GOOD)
    check(error, "link 'leg': joint", *words)


@pytest.mark.parametrize("case", SHAPES.values(), ids=SHAPES)
def test_bad_shapes(case):
    link, shape, *words = case
    with pytest.raises(ModelError) as error:
        builder().add_shape(link, shape)
    check(error, f"shape {shape.name!r}", link, *words)


@pytest.mark.parametrize(
    "joints, frame, words",
    [
        ([free("a"), hinge("b", (0, 1, 0))], {}, "only joint"),
        ([free("a")], dict(pos=(0, 0, 1)), "place the link by the state"),
        ([free("a")], dict(quat=(0, 1, 0, 0)), "place the link by the state"),
        ([free("a")], dict(pos=(0, 0, NAN)), "finite"),
        ([free("a")], dict(pos="here"), "numbers are needed"),
    ],
)
def test_bad_free_joints(joints, frame, words):
    with pytest.raises(ModelError) as error:
        builder().add_link("leg", "world", joints=joints, **frame, **GOOD)
    check(error, "link 'leg'", words)


@pytest.mark.parametrize(
    "pair, words",
    [
        (("hand", "foot"), "no shape 'foot'; the shapes are: hand, block, wall, finger"),
        (("block", "wall"), "both belong to the world"),
        (("hand", "finger"), "both belong to link 'arm'"),
    ],
)
def test_bad_pairs(pair, words):
    b = builder()
    b.add_shape("world", box((1, 1, 1), name="wall"))
    b.add_shape("arm", sphere(0.1, name="finger"))
    with pytest.raises(ModelError) as error:
        b.add_pair(*pair)
    check(error, words)


def test_bad_self_collision():
    with pytest.raises(ModelError, match="no 'leg'; the names are: trunk, arm"):
        builder().add_self_collision(links=["arm", "leg"])
    with pytest.raises(ModelError, match="no 'foot'; the names are: trunk, arm, hand, block"):
        builder().add_self_collision(exclude=[("hand", "foot")])
    with pytest.raises(ModelError, match="no shape 'foot'"):
        builder().exclude_pair("hand", "foot")


@pytest.mark.parametrize("heights", [[1.0, 2.0], [[1.0, 2.0], [3.0]], [[1.0, 2.0]], "hills"])
def test_bad_grids(heights):
    with pytest.raises(ModelError, match="shape 'hills': heights must be a grid"):
        height_field(heights, (1, 1), name="hills")


def test_a_field_of_too_small_cells_is_refused():
    b = builder()
    b.add_shape("world", height_field(np.zeros((101, 3)), (0.5, 1), name="gravel"))
    with pytest.raises(ModelError, match=r"'hand' is too large for the cells of 'gravel'.*0\.01 m"):
        b.build()


def test_bad_scenes():
    with pytest.raises(ModelError, match="no link"):
        ModelBuilder().build()
    with pytest.raises(ModelError, match="gravity"):
        ModelBuilder(gravity=(0, 0, NAN))
    with pytest.raises(ModelError, match="gravity has shape"):
        ModelBuilder(gravity=(0, -9.81))


def test_a_refused_link_leaves_no_trace():
    b = builder()
    with pytest.raises(ModelError):
        b.add_link("leg", "trunk", joints=[hinge("hip", (0, 0, 0))], **GOOD)
    b.add_link("leg", "trunk", joints=[hinge("hip", (0, 1, 0))], **GOOD)
    assert b.build().topology.link_names == ("trunk", "arm", "leg")


def test_the_limit_of_the_triangle_inequality_is_allowed():
    """A thin rod and a thin plate."""
    b = builder()
    b.add_link("plate", "world", mass=1.0, inertia=(0.1, 0.2, 0.3))
    b.add_link("rod", "world", mass=1.0, inertia=(1e-9, 0.2, 0.2))
    assert b.build().topology.n_links == 4


@pytest.mark.parametrize(
    ("grip", "words"),
    [
        (("", "arm", (0, 0, 0)), "the name is empty"),
        (("hand", "leg", (0, 0, 0)), "unknown link 'leg'; use one of: trunk, arm"),
        (("hand", "world", (0, 0, 0)), "unknown link 'world'"),
        (("hand", "arm", (0, 0, 0), "arm"), "cannot hold on to itself"),
        (("hand", "arm", (0, 0)), "point has shape (2,)"),
        (("hand", "arm", (0, 0, 0), "world", (0, 0, 1), 0.0), "strength is 0.0"),
    ],
)
def test_bad_grips(grip, words):
    with pytest.raises(ModelError, match=re.escape(words)):
        builder().add_grip(*grip)
