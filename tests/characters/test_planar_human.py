"""The planar human: Shen's tables 4.1 and 4.2 as printed, his zero pose, and the start poses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.characters.lamina import tapered_capsule_lamina
from jaxsim.characters.planar_human import planar_human, posed, set_chair_height, start
from jaxsim.characters.standing import START_DEPTH
from jaxsim.collision.contacts import find_contacts, lowest_point
from jaxsim.collision.slots import contact_slots
from jaxsim.dynamics.kinematics import forward_kinematics, plane_angles
from jaxsim.model import ModelError
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64_module")

# Table 4.1: length [cm], tip thickness [cm], mass [kg].
PARTS = """
    head 35 26, 22 5.89
    neck 2 12, 12 1.1
    trunk 50 30, 20 29.27
    pelvis 25 24, 27 16.61
    arm 32 16, 8 2.79
    forearm 32 8.4, 8.4 1.12
    hand 17 5, 4 0.55
    thigh 50 28, 10 8.35
    shank 48 10, 7 4.16
    foot 22.6 8, 5.2 1.34
"""
# Table 4.2: range [deg], kp [Nm/rad], kd [Nm s/rad], greatest torque [Nm].
JOINTS = """
    neckTop -30, 90 170, 5 60
    neckBottom -30, 30 171, 18 122
    waist -40, 90 674, 61 250
    shoulder -90, 180 386, 33 180
    elbow 0, 160 300, 20 180
    wrist -90, 90 156, 11 120
    hip -30, 100 500, 70 300
    knee -160, 0 600, 70 300
    ankle 30, 150 500, 60 300
"""
# Figure 4.1: each link, the joint that hangs it on its parent, and the parent.
TREE = """
    neck neckTop head
    trunk neckBottom neck
    pelvis waist trunk
    arm shoulder trunk
    forearm elbow arm
    hand wrist forearm
    thigh hip pelvis
    shank knee thigh
    foot ankle shank
"""
SINGLE = ("head", "neck", "trunk", "pelvis", "neckTop", "neckBottom", "waist")
HEIGHTS = (0.15, 0.25, 0.35, 0.45, 0.46, 0.55, 0.75)  # of chairs [m]


def rows(table: str) -> dict[str, list[str]]:
    lines = [line.replace(",", " ").split() for line in table.strip().splitlines()]
    return {name: rest for name, *rest in lines}


def numbers(table: str) -> dict[str, list[float]]:
    return {name: [float(x) for x in rest] for name, rest in rows(table).items()}


def each_side(name: str) -> list[str]:
    if name in SINGLE:
        return [name]
    return [side + name[0].upper() + name[1:] for side in ("left", "right")]


@pytest.fixture(scope="module")
def model(x64_module):
    return planar_human()


@pytest.fixture(scope="module")
def look():
    """What a batch of states looks like: kinematics, link angles, contacts, lowest point."""

    def one(model, state):
        kin = forward_kinematics(model, state.q, state.qd)
        contacts = find_contacts(model, kin)
        return kin, plane_angles(model, state.q), contacts, lowest_point(model, kin)

    return quick_jit(jax.vmap(one, (None, 0)))


@pytest.fixture(scope="module")
def starts(model, look):
    """The starts on flat ground by name: state and looks."""
    names = ("standing", "supine", "prone")
    together = quick_jit(
        lambda model: jax.tree.map(lambda *x: jnp.stack(x), *(start(model, n) for n in names))
    )
    batch = together(model)
    seen = look(model, batch)
    return {name: jax.tree.map(lambda x, i=i: x[i], (batch, *seen)) for i, name in enumerate(names)}


def test_has_the_links_and_joints_of_figure_4_1(model):
    top = model.topology
    assert len(top.link_names) == 16
    hinges = [name for name in top.joint_names if not name.startswith("root")]
    assert len(hinges) == 15
    assert [top.joint_names[j] for j in top.actuated_joints] == hinges
    assert [top.joint_names[j] for j in top.limited_joints] == hinges
    assert top.link_parent[top.link("head")] == -1
    assert top.joint_names[:3] == ("rootX", "rootZ", "rootAngle")
    for link, (joint, parent) in rows(TREE).items():
        for own, by, above in zip(
            each_side(link), each_side(joint), each_side(parent) * 2, strict=False
        ):
            index = top.link(own)
            assert top.joint_names[top.link_joint[index]] == by
            assert top.link_names[top.link_parent[index]] == above
    assert top.planar


def test_table_4_1(model):
    top = model.topology
    for name, (length, proximal, distal, mass) in numbers(PARTS).items():
        for own in each_side(name):
            shape, link = top.shape(own), top.link(own)
            size = np.array([proximal / 2, distal / 2, length / 2]) / 100
            np.testing.assert_allclose(model.shape_size[shape], size, rtol=1e-12)
            np.testing.assert_allclose(model.shape_pos[shape], [-length / 200, 0, 0], atol=1e-12)
            assert top.shape_link[shape] == link
            assert float(model.mass[link]) == mass
    np.testing.assert_allclose(model.total_mass, 89.49, rtol=1e-12)


def test_table_4_2(model):
    top = model.topology
    for name, (lower, upper, kp, kd, torque) in numbers(JOINTS).items():
        for own in each_side(name):
            joint, dof = top.joint(own), top.dof(own)
            limits = model.joint_lower[joint], model.joint_upper[joint]
            np.testing.assert_allclose(np.rad2deg(limits), [lower, upper], atol=1e-9)
            assert (model.gain_p[dof], model.gain_d[dof]) == (kp, kd)
            assert model.torque_limit[dof] == torque
    assert not np.asarray(model.torque_limit)[:3].any()  # nothing drives the root
    assert not np.asarray(model.damping).any()


def test_zero_pose_points_the_head_to_plus_x_and_the_limbs_to_minus_x(model, look):
    kin, angles, *_ = look(model, jax.tree.map(lambda x: x[None], posed(model, {})))
    np.testing.assert_array_equal(angles, np.zeros((1, 16)))
    x = {name: float(kin.com[0, i, 0]) for i, name in enumerate(model.topology.link_names)}
    for order in (
        ("head", "neck", "trunk", "pelvis", "leftThigh", "leftShank", "leftFoot"),
        ("head", "neck", "leftArm", "leftForearm", "leftHand"),
    ):
        assert list(order) == sorted(order, key=lambda name: -x[name])
    np.testing.assert_allclose(kin.com[0, :, 1:], 0, atol=1e-12)
    for link in ("Hand", "Foot", "Thigh"):
        assert x["left" + link] == x["right" + link]


def test_neighbours_meet_at_their_joints(model, look):
    """Every hinge lies at the distal tip of the parent, the shoulders at the trunk's proximal."""
    top, table = model.topology, numbers(PARTS)
    rng = np.random.default_rng(0)
    state = posed(model, {})
    state = state.replace(q=jnp.asarray(rng.normal(size=top.nq)))
    kin = jax.tree.map(lambda x: x[0], look(model, jax.tree.map(lambda x: x[None], state))[0])
    for link, (joint, parent) in rows(TREE).items():
        reach = 0.0 if joint == "shoulder" else table[parent][0] / 100
        for own, above in zip(each_side(link), each_side(parent) * 2, strict=False):
            p = top.link(above)
            tip = kin.link_pos[p] - reach * kin.link_rot[p, :, 0]
            np.testing.assert_allclose(kin.link_pos[top.link(own)], tip, atol=1e-12)


def test_positive_angles_turn_the_child_counter_clockwise(model, look):
    """Each joint alone at 30 degrees: the links beyond it turn from +x towards +z."""
    top = model.topology
    hinges = [name for name in top.joint_names if name not in ("rootX", "rootZ")]
    turned = np.stack([np.eye(top.nq)[top.dof(name)] * np.pi / 6 for name in hinges])
    zero = posed(model, {})
    batch = jax.tree.map(lambda x: jnp.stack([x] * len(hinges)), zero).replace(q=turned)
    kin, angles, *_ = look(model, batch)
    for k, name in enumerate(hinges):
        moved = top.link_dofs[:, top.dof(name)]
        np.testing.assert_allclose(angles[k], np.where(moved, np.pi / 6, 0), atol=1e-12)
        wanted = np.where(moved[:, None], [np.cos(np.pi / 6), 0, 0.5], [1.0, 0, 0])
        np.testing.assert_allclose(kin.link_rot[k, :, :, 0], wanted, atol=1e-12)


def test_inertia_is_that_of_a_plate(model):
    """Against cells of a fine grid: a trapezoid with two half discs."""
    for length, r0, r1 in ((0.5, 0.15, 0.1), (0.02, 0.06, 0.06), (0.25, 0.12, 0.135)):
        h = (length + r0 + r1) / 2000
        x, z = np.meshgrid(np.arange(-length - r1, r0, h) + h / 2, np.arange(-0.2, 0.2, h) + h / 2)
        wide = r0 + (r1 - r0) * -x / length
        body = (x <= 0) & (x >= -length) & (np.abs(z) <= wide)
        body |= ((x > 0) & (x**2 + z**2 <= r0**2)) | (
            (x < -length) & ((x + length) ** 2 + z**2 <= r1**2)
        )
        x, z = x[body], z[body]
        com, inertia = tapered_capsule_lamina(length, r0, r1, 3.0)
        np.testing.assert_allclose(com, x.mean(), atol=1e-4 * (length + r0))
        about_x, about_z = 3 * np.mean(z**2), 3 * np.mean((x - x.mean()) ** 2)
        np.testing.assert_allclose(inertia, [about_x, about_x + about_z, about_z], rtol=2e-3)


def test_standing_has_the_soles_on_the_ground_and_the_head_above(model, starts):
    top = model.topology
    state, kin, angles, _, low = starts["standing"]
    np.testing.assert_allclose(low, -START_DEPTH, atol=1e-12)
    feet = [top.link("leftFoot"), top.link("rightFoot")]
    others = [i for i in range(16) if i not in feet]
    np.testing.assert_allclose(angles[np.array(others)], np.pi / 2)
    np.testing.assert_allclose(angles[np.array(feet)], np.pi)
    # heel, shank, thigh, pelvis, trunk, neck and head on top of one another
    tall = 0.04 + 0.48 + 0.5 + 0.25 + 0.5 + 0.02 + 0.35 - START_DEPTH
    np.testing.assert_allclose(kin.link_pos[top.link("head")], [0, 0, tall], atol=1e-12)
    head = kin.com[top.link("head")]
    assert head[2] > 1.8  # the standing height of section 5.3
    assert kin.com[feet[0], 0] > 0.05  # it faces +x
    np.testing.assert_allclose(state.qd, 0)


@pytest.mark.parametrize(("name", "up"), [("supine", 1.0), ("prone", -1.0)])
def test_lying_touches_the_ground_face_up_or_down(model, starts, name, up):
    top = model.topology
    _, kin, _, contacts, low = starts[name]
    np.testing.assert_allclose(low, -START_DEPTH, atol=1e-12)
    np.testing.assert_allclose(contacts.gap.min(), -START_DEPTH, atol=1e-12)
    np.testing.assert_allclose(kin.com[top.link("pelvis"), 0], 0, atol=1e-12)
    front = -kin.link_rot[top.link("trunk"), :, 2]  # the side that faces +x when it stands
    np.testing.assert_allclose(front, [0, 0, up], atol=1e-12)


def test_standing_faces_plus_x(model, starts):
    kin = starts["standing"][1]
    np.testing.assert_allclose(
        -kin.link_rot[model.topology.link("trunk"), :, 2], [1, 0, 0], atol=1e-12
    )


def test_feet_that_are_drawn_in_stand_clear_of_the_chair():
    """At a low seat the shanks would cut through its front edge; the body sits further forward."""
    seated = planar_human(chair_height=0.45)
    slots = contact_slots(seated.topology)
    feet = [seated.topology.shape(name) for name in ("leftFoot", "rightFoot")]
    beside = np.isin(slots.shape_a, feet) & (slots.shape_b == seated.topology.shape("chair"))

    def gap(height, tilt):
        model = set_chair_height(seated, height)
        state = start(model, "sitting", tilt)
        kin = forward_kinematics(model, state.q, state.qd)
        return find_contacts(model, kin).gap, kin.joint_anchor[seated.topology.joint("leftHip"), 0]

    heights, tilts = np.meshgrid([0.16, 0.3, 0.45, 0.65], np.deg2rad([15.0, 30.0, 40.0, 45.0]))
    heights, tilts = jnp.array(heights.ravel()), jnp.array(tilts.ravel())
    gaps, hip = quick_jit(jax.vmap(gap))(heights, tilts)
    assert np.asarray(gaps)[:, beside].min() > -1e-9
    assert (np.asarray(hip) < 0.3).all()  # and yet on the seat
    np.testing.assert_allclose(hip[heights < 0.4][:2], 0.0, atol=0.03)  # no need to at 15 degrees


def test_sitting_for_a_batch_of_chair_heights(model):
    seated = planar_human(chair_height=0.45)
    top, slots = seated.topology, contact_slots(seated.topology)

    def one(model, height):
        model = set_chair_height(model, height)
        state = start(model, "sitting")
        kin = forward_kinematics(model, state.q, state.qd)
        return state, kin, find_contacts(model, kin)

    state, kin, contacts = quick_jit(jax.vmap(one, (None, 0)))(seated, jnp.array(HEIGHTS))
    assert np.isfinite(state.q).all()
    chair, ground = top.shape("chair"), top.shape("ground")
    for k, height in enumerate(HEIGHTS):
        hip = kin.joint_anchor[k, top.joint("leftHip")]
        np.testing.assert_allclose(hip[2], height + 0.14 - START_DEPTH, atol=1e-9)
        assert abs(hip[0]) < 0.03 if height <= 0.45 else 0.1 < hip[0] < 0.3  # at the front edge
        touching = np.asarray(contacts.gap[k]) < 1e-6
        on = {
            shape: {top.shape_names[a] for a in slots.shape_a[touching & (slots.shape_b == shape)]}
            for shape in (chair, ground)
        }
        assert on[chair] == {"leftThigh", "rightThigh"}
        assert on[ground] == {"leftFoot", "rightFoot"}
        assert (touching & (slots.shape_b == ground)).sum() == 4  # both tips of both soles
        assert contacts.gap[k].min() > -START_DEPTH - (1e-9 if height != 0.46 else 1e-3)
        limits = np.array(top.limited_joints)
        angle = np.asarray(state.q[k])[limits]
        assert (angle <= seated.joint_upper[limits] + 1e-9).all()
        assert (angle >= seated.joint_lower[limits] - 1e-9).all()


def test_links_never_touch_one_another(model):
    seated = planar_human(chair_height=0.45)
    for top in (model.topology, seated.topology):
        assert all(-1 in (top.shape_link[a], top.shape_link[b]) for a, b in top.shape_pairs)
        assert (contact_slots(top).link_b == -1).all()
    assert contact_slots(model.topology).count == 18
    assert contact_slots(seated.topology).count == 2 * 18 + 16


def test_friction_and_chair_are_numbers_of_the_model():
    model = planar_human(chair_height=0.4, friction=0.3)
    np.testing.assert_allclose(model.friction, 0.3)
    chair = model.topology.shape("chair")
    np.testing.assert_allclose(model.shape_size[chair, 2] + model.shape_pos[chair, 2], 0.4)
    other = set_chair_height(model, 0.5)
    np.testing.assert_allclose(other.shape_size[chair, 2] + other.shape_pos[chair, 2], 0.5)
    assert other.topology is model.topology


def test_mistakes_are_named(model):
    with pytest.raises(ModelError, match=r"no start named 'lying'.*standing, supine, prone"):
        start(model, "lying")
    with pytest.raises(ModelError, match="'sitting' needs a chair"):
        start(model, "sitting")
    for height in (0.0, -0.3, float("nan")):
        with pytest.raises(ModelError, match="chair_height"):
            planar_human(chair_height=height)
    with pytest.raises(KeyError, match="no shape named 'chair'"):
        set_chair_height(model, 0.4)
    with pytest.raises(KeyError, match="leftTail"):
        posed(model, {"tail": 10})


def test_a_traced_chair_is_as_high_as_it_is_asked_to_be():
    build = jax.jit(lambda height: planar_human(chair_height=height))
    for one, other in zip(jax.tree.leaves(build(0.5)), jax.tree.leaves(planar_human(0.5))):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)
    slope = jax.grad(lambda height: planar_human(chair_height=height).shape_pos[-1, 2])(0.5)
    assert slope == pytest.approx(0.5)
