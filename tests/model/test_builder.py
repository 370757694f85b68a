"""What the builder makes of a scene: the tree of joints, index tables, and the numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.model import (
    ModelBuilder,
    ball,
    box,
    capsule,
    free,
    height_field,
    hinge,
    plane,
    slide,
    sphere,
    tapered_capsule,
)

BODY = dict(mass=2.0, com=(0.1, 0.2, 0.3), inertia=(0.1, 0.2, 0.25))


@pytest.fixture
def model():
    """A free trunk with a two-joint arm and a welded head; a ball joint on the world; a wall."""
    b = ModelBuilder(gravity=(0, 0, -1.6))
    b.add_link("trunk", "world", joints=[free("root")], **BODY)
    arm = [
        slide("reach", (2, 0, 0), limits=(-0.1, 0.2), kp=3.0, kd=0.3, max_torque=5.0),
        hinge("bend", (0, 3, 4), anchor=(0, 0, 0.5), damping=0.7, armature=0.01),
    ]
    b.add_link("arm", "trunk", pos=(1, 2, 3), quat=(0, 1, 0, 0), joints=arm, **BODY)
    b.add_link("head", "trunk", pos=(0, 0, 1), **BODY)
    b.add_link("pendulum", "world", joints=[ball("pivot", kp=2.0, max_torque=1.0)], **BODY)
    b.add_link("wall", "world", **BODY)
    return b.build()


def test_tree_of_joints(model):
    top = model.topology
    assert top.link_names == ("trunk", "arm", "head", "pendulum", "wall")
    assert top.link_parent == (-1, 0, 0, -1, -1)
    assert top.joint_names == ("root", "reach", "bend", "head_fixed", "pivot", "wall_fixed")
    assert top.joint_kinds == ("free", "slide", "hinge", "fixed", "ball", "fixed")
    assert top.joint_parent == (-1, 0, 1, 0, -1, -1)
    assert top.joint_link == (0, 1, 1, 2, 3, 4)
    assert top.link_joint == (0, 2, 3, 4, 5)
    assert top.link_root.tolist() == [0, 0, 0, 3, 4]
    assert top.joint_levels == ((0, 4, 5), (1, 3), (2,))
    assert (top.nq, top.nv, top.n_links, top.n_joints) == (13, 11, 5, 6)
    assert top.q_start == (0, 7, 8, 9, 9, 13)
    assert top.v_start == (0, 6, 7, 8, 8, 11)
    assert not top.planar


def test_degrees_of_freedom(model):
    top = model.topology
    assert top.dof_joint.tolist() == [0] * 6 + [1, 2] + [4] * 3
    assert top.dof_link.tolist() == [0] * 6 + [1, 1] + [3] * 3
    assert top.dof_parent == (-1, 0, 1, 2, 3, 4, 5, 6, -1, 8, 9)
    assert top.dof_levels[0] == (0, 8)
    assert top.link_dofs.sum(1).tolist() == [6, 8, 6, 3, 0]
    assert top.dof_ancestors.sum(1).tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3]
    # the axes of a free joint's rotation are moved by its translation and not by one another
    assert top.dof_before.sum(1).tolist() == [0, 0, 0, 3, 3, 3, 6, 7, 0, 0, 0]


def test_numbers(model):
    assert model.gravity.tolist() == pytest.approx([0, 0, -1.6])
    assert model.inertia.shape == (5, 3, 3)
    np.testing.assert_allclose(model.inertia[0], np.diag([0.1, 0.2, 0.25]))
    # a link's offset stands before its first joint
    assert model.joint_pos.tolist()[:4] == [[0, 0, 0], [1, 2, 3], [0, 0, 0], [0, 0, 1]]
    assert model.joint_quat.tolist()[1:3] == [[0, 1, 0, 0], [1, 0, 0, 0]]
    np.testing.assert_allclose(model.joint_axis[1:3], [[1, 0, 0], [0, 0.6, 0.8]], rtol=1e-6)
    assert model.joint_anchor.tolist()[2] == [0, 0, 0.5]
    assert model.joint_lower.tolist()[1] == pytest.approx(-0.1)
    assert model.joint_upper.tolist()[1] == pytest.approx(0.2)
    assert model.topology.limited_joints == (1,)
    assert model.topology.actuated_joints == (1, 4)
    assert model.topology.actuated_dofs.tolist() == [6, 8, 9, 10]  # all three of a ball joint
    assert model.topology.actuated_dof_names == ("reach", "pivot x", "pivot y", "pivot z")
    assert model.damping.tolist() == pytest.approx([0] * 7 + [0.7] + [0] * 3)
    assert model.armature.tolist() == pytest.approx([0] * 7 + [0.01] + [0] * 3)
    assert model.gain_p.tolist() == [0] * 6 + [3, 0, 2, 2, 2]
    assert model.torque_limit.tolist() == [0] * 6 + [5, 0, 1, 1, 1]
    assert float(model.total_mass) == 10


def test_lookup_by_name(model):
    top = model.topology
    assert (top.link("head"), top.joint("bend"), top.dof("bend")) == (2, 2, 7)
    with pytest.raises(KeyError, match="no link named 'leg'; the links are: trunk, arm, head"):
        top.link("leg")
    with pytest.raises(KeyError, match="no joint named 'knee'; the joints are: root, reach"):
        top.joint("knee")


def test_precision_follows_the_user(x64):
    b = ModelBuilder()
    b.add_link("body", "world", **BODY)
    assert {leaf.dtype for leaf in jax.tree.leaves(b.build())} == {np.dtype(float)}
    with jax.enable_x64(False):
        assert {leaf.dtype for leaf in jax.tree.leaves(b.build())} == {np.dtype(np.float32)}


def test_only_numbers_are_leaves_and_topologies_compare(model):
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(model))
    heavier = model.replace(mass=2 * model.mass)
    assert jax.tree.structure(heavier) == jax.tree.structure(model)
    assert hash(heavier.topology) == hash(model.topology)
    b = ModelBuilder()
    b.add_link("trunk", "world", **BODY)
    assert b.build().topology != model.topology


def leg(**knee) -> ModelBuilder:
    """A planar thigh and shank; the shank's ball lies inside the thigh's at the knee."""
    b = ModelBuilder()
    b.add_link("thigh", "world", joints=[hinge("hip", (0, 1, 0))], **BODY)
    knee = [hinge("knee", (0, -1, 0), **knee)]
    b.add_link("shank", "thigh", pos=(0.4, 0, 0), joints=knee, **BODY)
    b.add_shape("thigh", tapered_capsule(0.08, 0.1, 0.2, pos=(0.2, 0, 0), name="upper"))
    b.add_shape("shank", capsule(0.07, 0.2, pos=(0.2, 0, 0), name="lower"))
    return b


def test_shapes_and_world_pairs():
    b = leg()
    b.add_shape("world", plane(name="ground"))
    assert b.add_shape("world", box((1, 2, 3), pos=(0, 0, 1))) == "world_box_3"
    model = b.build()
    top = model.topology
    assert top.shape_kinds == ("tapered_capsule", "capsule", "plane", "box")
    assert top.shape_link == (0, 1, -1, -1)
    assert top.shape_pairs == ((0, 2), (1, 2), (0, 3), (1, 3))
    np.testing.assert_allclose(model.shape_size[0], [0.08, 0.1, 0.2], rtol=1e-6)
    assert model.shape_pos.shape == (4, 3) and model.shape_quat.shape == (4, 4)
    assert top.shape("ground") == 2
    with pytest.raises(KeyError, match="no shape named 'floor'; the shapes are: upper, lower"):
        top.shape("floor")


def test_pairs_of_links():
    b = leg()
    b.add_link("drum", "world", joints=[slide("lift", (0, 0, 1))], **BODY)
    b.add_shape("drum", box((1, 1, 1), name="lid"))
    for pair in (("lower", "lid"), ("lid", "lower"), ("lower", "upper")):
        b.add_pair(*pair)
    assert b.build().topology.shape_pairs == ((1, 2), (1, 0))
    b.exclude_pair("upper", "lower")
    assert b.build().topology.shape_pairs == ((1, 2),)


def names_of(model) -> set[tuple[str, str]]:
    top = model.topology
    return {(top.shape_names[a], top.shape_names[b]) for a, b in top.shape_pairs}


def test_everything_may_be_on_the_world_and_balls_come_first():
    b = leg()
    b.add_shape("shank", box((0.1, 0.1, 0.1), name="shoe"))
    b.add_shape("world", sphere(0.1, name="hold"))
    b.add_shape("world", capsule(0.1, 0.5, name="bar"))
    b.add_shape("world", height_field(np.zeros((4, 3)), (1.5, 1.5), name="ground"))
    model = b.build()
    assert names_of(model) == {
        *((link, other) for link in ("upper", "lower") for other in ("hold", "bar", "ground")),
        ("hold", "shoe"),
        ("bar", "shoe"),
        ("shoe", "ground"),
    }
    top = model.topology
    assert top.shape_field == (-1, -1, -1, -1, -1, 0)
    assert [grid.shape for grid in model.heights] == [(4, 3)]
    changed = model.with_shape("ground", heights=jnp.ones((4, 3)), friction=0.2)
    np.testing.assert_array_equal(changed.heights[0], np.ones((4, 3)))
    with pytest.raises(KeyError, match="no 'heights'"):
        model.with_shape("bar", heights=1.0)
    with pytest.raises(ValueError):
        model.with_shape("ground", heights=jnp.ones((3, 4)))


def test_group_and_mask_choose_the_pairs():
    """One shape's group must meet the other's mask, one way or the other; a pair overrules them."""
    b = leg()
    b.add_shape("shank", sphere(0.1, name="ghost", group=0, mask=0))
    b.add_shape("shank", sphere(0.1, name="special", group=2, mask=0))
    b.add_shape("world", plane(name="ground"))
    b.add_shape("world", plane(name="trap", group=0, mask=2))
    assert names_of(b.build()) == {("upper", "ground"), ("lower", "ground"), ("special", "trap")}
    b.add_pair("ground", "ghost")
    assert ("ghost", "ground") in names_of(b.build())


def crowd() -> ModelBuilder:
    """A trunk with two arms, one with a welded hand that holds a finger, and a loose ball."""
    b = ModelBuilder()
    b.add_link("trunk", "world", joints=[free("root")], **BODY)
    b.add_link("left", "trunk", joints=[ball("left_shoulder")], **BODY)
    b.add_link(
        "right", "trunk", joints=[hinge("yaw", (0, 0, 1)), hinge("pitch", (0, 1, 0))], **BODY
    )
    b.add_link("hand", "left", **BODY)
    b.add_link("finger", "hand", joints=[hinge("knuckle", (0, 1, 0))], **BODY)
    b.add_link("loose", "world", joints=[free("float")], **BODY)
    for name in ("trunk", "left", "right", "hand", "finger", "loose"):
        b.add_shape(name, sphere(0.1, name=name + "_ball"))
    return b


def test_self_collision_leaves_out_neighbours():
    """Across a joint, also where a weld stands between."""
    b = crowd()
    b.add_self_collision()
    b.add_self_collision()  # again changes nothing
    pairs = {tuple(x.removesuffix("_ball") for x in pair) for pair in names_of(b.build())}
    loose = {(name, "loose") for name in ("trunk", "left", "right", "hand", "finger")}
    assert pairs == loose | {
        ("trunk", "finger"),
        ("left", "right"),
        ("right", "hand"),
        ("right", "finger"),
    }
    assert len(b.build().topology.shape_pairs) == len(pairs)


def test_self_collision_of_some():
    b = crowd()
    b.add_shape("left", sphere(0.1, name="elbow"))
    exclude = [("right", "hand"), ("elbow", "right"), ("finger", "left")]
    b.add_self_collision(links=["left", "right", "hand"], exclude=exclude)
    assert names_of(b.build()) == {("left_ball", "right_ball")}


def test_a_covered_ball_stays_where_the_larger_one_does_not_touch_as_much():
    b = leg()
    b.add_link("drum", "world", joints=[slide("lift", (0, 0, 1))], **BODY)
    b.add_shape("drum", box((1, 1, 1), name="lid"))
    b.add_shape("world", plane(name="ground"))
    assert b.build().topology.covered_ends == ((1, 1),)
    b.add_pair("lower", "lid")
    assert b.build().topology.covered_ends == ()
    b.add_pair("upper", "lid")
    assert b.build().topology.covered_ends == ((1, 1),)


def test_the_smaller_ball_at_a_joint_is_dropped():
    """End 0 lies at +x: the knee end of the thigh. The shank's knee end 1 is within it."""
    top = leg().build().topology
    assert top.covered_ends == ((1, 1),)
    assert top.ends_of(0) == (0, 1)
    assert top.ends_of(1) == (0,)


def test_a_ball_off_the_joint_or_of_another_material_stays():
    assert leg(anchor=(0.01, 0, 0)).build().topology.covered_ends == ()
    b = leg()
    b.add_shape("shank", sphere(0.01, name="grip", friction=2.0))
    assert b.build().topology.covered_ends == ((1, 1),)


@pytest.mark.parametrize(
    "change, planar",
    [
        ({}, True),
        (dict(joints=[slide("ankle", (1, 0, 1))]), True),
        (dict(joints=[slide("ankle", (0, 1, 0))]), False),
        (dict(joints=[hinge("ankle", (0, 0, 1))]), False),
        (dict(joints=[ball("ankle")]), False),
        (dict(quat=(np.sqrt(0.5), 0, np.sqrt(0.5), 0)), True),
        (dict(quat=(np.sqrt(0.5), np.sqrt(0.5), 0, 0)), False),
    ],
)
def test_planar_scenes_are_recognised(change, planar):
    b = leg()
    b.add_link("foot", "shank", **change, **BODY)
    assert b.build().topology.planar is planar
    b.add_shape("world", plane(quat=(np.sqrt(0.5), np.sqrt(0.5), 0, 0)))
    assert not b.build().topology.planar


def test_balls_beside_one_another_are_not_planar():
    """A normal between two balls must lie in the plane."""
    for y, planar in ((0.0, True), (0.01, False)):
        b = leg()
        b.add_shape("world", sphere(0.1, name="hold", pos=(0, y, 0)))
        assert b.build().topology.planar is planar
    b.add_shape("world", height_field(np.zeros((2, 2)), (1, 1)))
    assert not b.build().topology.planar


def test_with_shape_changes_one_shape():
    model = leg().build()
    changed = model.with_shape("lower", size=jnp.array([0.05, 0.05, 0.2]), friction=0.3)
    np.testing.assert_allclose(changed.shape_size[1], [0.05, 0.05, 0.2], rtol=1e-6)
    np.testing.assert_allclose(changed.friction, [0.8, 0.3], rtol=1e-6)
    np.testing.assert_array_equal(changed.shape_size[0], model.shape_size[0])
    with pytest.raises(KeyError, match="no 'mass'; choose from pos, quat"):
        model.with_shape("lower", mass=1.0)
