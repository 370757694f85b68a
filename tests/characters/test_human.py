"""The humans in space: what the documents and tables fix, symmetry, starts, standing."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.pose.pd import PoseController, pose_error
from jaxsim.characters import anthropometry as body_data
from jaxsim.characters.human import TURNS, articulated_human, ball_joint_human, start
from jaxsim.characters.poses import posed, without_side
from jaxsim.characters.registry import start as any_start
from jaxsim.characters.standing import START_DEPTH
from jaxsim.collision.contacts import find_contacts, lowest_point
from jaxsim.collision.slots import contact_slots
from jaxsim.dynamics.jacobians import center_of_mass
from jaxsim.dynamics.kinematics import forward_kinematics, integrate
from jaxsim.dynamics.rigid import bias_force, mass_matrix
from jaxsim.io.mjcf import mjcf_q_index, mjcf_v_index, to_mjcf
from jaxsim.model import ModelError
from jaxsim.model.state import neutral_q
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping
from tests.compiling import quick_jit
from tests.oracles.mujoco_versions import mujoco_mass_matrix

pytestmark = pytest.mark.usefixtures("x64_module")

HUMANS = {"articulated": articulated_human, "balls": ball_joint_human}
BUILDS = ("adult", "child")
STARTS = ("standing", "t_pose", "supine", "prone")
WEIGHT = {"adult": 72.0 * 9.81, "child": 20.0 * 9.81}


@pytest.fixture(scope="module")
def models(x64_module):
    return {kind: {b: make(b) for b in BUILDS} for kind, make in HUMANS.items()}


def stacked(models):
    """Models of one topology as a batch."""
    return jax.tree.map(lambda *x: jnp.stack(x), *models.values())


@pytest.fixture(scope="module")
def looks(models):
    """By kind, build and start: state, kinematics, contacts, lowest point and mass matrix."""

    def at(model, state):
        kin = forward_kinematics(model, state.q, state.qd)
        contacts, low = find_contacts(model, kin), lowest_point(model, kin)
        return dict(state=state, kin=kin, contacts=contacts, low=low, M=mass_matrix(model, kin))

    def one(model):
        states = [start(model, name) for name in STARTS]
        batch = jax.tree.map(lambda *x: jnp.stack(x), *states)
        return jax.vmap(at, (None, 0))(model, batch)

    result = {}
    for kind, builds in models.items():
        seen = jax.tree.map(np.asarray, quick_jit(jax.vmap(one))(stacked(builds)))
        result[kind] = {
            build: {
                name: SimpleNamespace(**jax.tree.map(lambda x, i=i, k=k: x[i, k], seen))
                for k, name in enumerate(STARTS)
            }
            for i, build in enumerate(BUILDS)
        }
    return result


def test_table_adds_up():
    """De Leva's shares of the mass make one body, his parts of the trunk its whole."""
    rows = body_data.DE_LEVA
    middle, limbs = body_data.UPWARD, [name for name in rows if name not in body_data.UPWARD]
    total = sum(rows[n].mass for n in middle) + 2 * sum(rows[n].mass for n in limbs)
    assert total == pytest.approx(100.0, abs=1e-9)
    trunk = [rows[n] for n in ("chest", "abdomen", "pelvis")]
    assert sum(row.mass for row in trunk) == pytest.approx(43.46)  # his row of the whole trunk
    assert sum(row.length for row in trunk) == pytest.approx(603.3)
    com = [
        sum(t.length for t in trunk[:i]) + row.com / 100 * row.length for i, row in enumerate(trunk)
    ]
    whole = sum(row.mass * c for row, c in zip(trunk, com)) / 43.46
    # his centre of the whole trunk, which lies 3 mm above that of its parts
    assert whole / 603.3 == pytest.approx(0.5138 + 3 / 603.3, abs=1e-3)
    for build in body_data.BUILDS.values():
        m, h = build.masses, build.heights
        assert m["head"] + m["trunk"] + 2 * (m["arm"] + m["leg"]) == pytest.approx(1.0, abs=1e-12)
        assert h["head"] + h["trunk"] + h["leg"] == pytest.approx(1.0, abs=1e-12)


def test_foot_and_toes_make_the_foot_of_the_table():
    foot = body_data.segments(body_data.ADULT, 1.741, 73.0)["foot"]
    rest, toes = body_data.foot_and_toes(foot, 1.741)
    again = body_data.combine(
        foot.length, (rest, 1.0), (body_data.shift_segment(toes, body_data.toe_joint(1.741)), 1.0)
    )
    assert foot.length == pytest.approx(0.2581) and foot.mass == pytest.approx(0.0137 * 73)
    assert again.mass == pytest.approx(foot.mass)
    np.testing.assert_allclose(again.com, foot.com, atol=1e-12)
    np.testing.assert_allclose(again.inertia, foot.inertia, atol=1e-12)
    assert (np.linalg.eigvalsh(rest.inertia) > 0).all()


def test_counts_of_the_documents(models):
    """18 nodes with 31 + 6 dofs; 13 ball joints with 39 inner dofs, all links boxes."""
    for model in models["articulated"].values():
        top = model.topology
        assert (top.n_links, top.nv) == (18, 37)
        assert top.joint_kinds.count("hinge") == 31 and top.joint_kinds[0] == "free"
        assert len(top.limited_joints) == len(top.actuated_joints) == 31
        assert not top.planar
    for model in models["balls"].values():
        top = model.topology
        assert (top.n_links, top.nv) == (14, 45)
        assert top.joint_kinds == ("free", *["ball"] * 13)
        assert top.shape_kinds == (*["box"] * 14, "plane")
    assert models["articulated"]["adult"].topology == models["articulated"]["child"].topology


@pytest.mark.parametrize("kind", HUMANS)
def test_mass_and_stature(models, looks, kind):
    for build, (stature, mass) in {"adult": (1.75, 72.0), "child": (1.15, 20.0)}.items():
        model, seen = models[kind][build], looks[kind][build]["standing"]
        top = model.topology
        np.testing.assert_allclose(model.total_mass, mass, rtol=1e-12)
        head, vertex = top.shape("head"), seen.kin.link_pos[top.link("head"), 2]
        vertex = vertex + model.shape_pos[head, 2]
        half = model.shape_size[head, 2 if kind == "balls" else 0]
        np.testing.assert_allclose(vertex + half, stature - START_DEPTH, rtol=1e-12)
        share = {name: float(model.mass[top.link(name)]) / mass for name in ("head", "leftThigh")}
        assert share["head"] == pytest.approx({"adult": 0.0694, "child": 0.1717}[build], abs=1e-4)
        com = jnp.sum(model.mass[:, None] * seen.kin.com, axis=0) / mass
        assert 0.55 < com[2] / stature < 0.62
        heel, tip = -0.25 * 258.1 / 1741 * stature, 0.75 * 258.1 / 1741 * stature
        assert heel < com[0] < tip  # over the feet
        assert abs(com[1]) < 1e-12
    with pytest.raises(ModelError, match=r"no build named 'giant'.*adult, child"):
        HUMANS[kind]("giant")
    with pytest.raises(ModelError, match="both must be positive"):
        HUMANS[kind](mass=0.0)


@pytest.mark.parametrize("kind", HUMANS)
def test_left_and_right_mirror_one_another(models, looks, kind):
    """Equal angles on both sides are mirror images: poses, masses, gains, limits, shapes."""
    model = models[kind]["adult"]
    top = model.topology
    rng = np.random.default_rng(0)
    joints = [n for n in top.joint_names if n.startswith("left")]
    angle = {without_side(n): rng.uniform(-60, 60, 3 if kind == "balls" else None) for n in joints}
    state = posed(model, angle)
    kin = quick_jit(forward_kinematics)(model, state.q, state.qd)
    flip = np.array([1.0, -1.0, 1.0])
    for left, name in enumerate(top.link_names):
        if not name.startswith("left"):
            continue
        right = top.link("right" + name.removeprefix("left"))
        np.testing.assert_allclose(kin.com[left] * flip, kin.com[right], atol=1e-12)
        np.testing.assert_allclose(
            kin.link_rot[left] * np.outer(flip, flip), kin.link_rot[right], atol=1e-12
        )
        a, b = (top.shape(n) for n in (name, "right" + name.removeprefix("left")))
        for field, i, j in (
            ("mass", left, right),
            ("inertia", left, right),
            ("shape_size", a, b),
            ("shape_pos", a, b),
        ):
            np.testing.assert_array_equal(getattr(model, field)[i], getattr(model, field)[j])
    for name in joints:
        a, b = top.joint(name), top.joint("right" + name.removeprefix("left"))
        assert model.joint_lower[a] == model.joint_lower[b]
        assert model.joint_upper[a] == model.joint_upper[b]
        for field in ("gain_p", "gain_d", "torque_limit", "damping", "armature"):
            values = getattr(model, field)
            assert values[top.v_start[a]] == values[top.v_start[b]]


def test_names_say_which_way_positive_angles_go(models):
    """Each hinge alone at 30 degrees: where a point of its link goes."""
    model = models["articulated"]["adult"]
    top = model.topology
    # name: link, point in its frame, and where this goes
    wanted = {
        "waistFlexion": ("head", (0, 0, 1), (1, 0, 0)),
        "waistBend": ("head", (0, 0, 1), (0, -1, 0)),
        "neckRotation": ("head", (1, 0, 0), (0, 1, 0)),
        "leftShoulderFlexion": ("leftForearm", (0, 0, -1), (1, 0, 0)),
        "leftShoulderAbduction": ("leftForearm", (0, 0, -1), (0, 1, 0)),
        "rightShoulderAbduction": ("rightForearm", (0, 0, -1), (0, -1, 0)),
        "leftShoulderRotation": ("leftForearm", (1, 0, 0), (0, -1, 0)),
        "rightElbowFlexion": ("rightForearm", (0, 0, -1), (1, 0, 0)),
        "leftWristFlexion": ("leftHand", (0, 0, -1), (0, -1, 0)),
        "rightHipFlexion": ("rightShank", (0, 0, -1), (1, 0, 0)),
        "leftHipAbduction": ("leftFoot", (0, 0, -1), (0, 1, 0)),
        "rightHipRotation": ("rightFoot", (1, 0, 0), (0, 1, 0)),
        "leftKneeFlexion": ("leftShank", (0, 0, -1), (-1, 0, 0)),
        "leftAnkleFlexion": ("leftFoot", (1, 0, 0), (0, 0, 1)),
        "leftAnkleInversion": ("leftFoot", (0, 0, -1), (0, -1, 0)),
        "rightToeExtension": ("rightToes", (1, 0, 0), (0, 0, 1)),
    }
    assert {without_side(name) for name in wanted} | {
        "waistRotation",
        "spineFlexion",
        "neckFlexion",
    } | {"neckBend"} == set(TURNS)
    states = [posed(model, {name: 30.0}) for name in wanted]
    batch = jax.tree.map(lambda *x: jnp.stack(x), *states)
    kin = quick_jit(jax.vmap(forward_kinematics, (None, 0, 0)))(model, batch.q, batch.qd)
    for k, (link, point, towards) in enumerate(wanted.values()):
        went = np.asarray(kin.link_rot[k, top.link(link)]) @ point
        expected = np.cos(np.pi / 6) * np.array(point) + 0.5 * np.array(towards)
        np.testing.assert_allclose(went, expected, atol=1e-12)


def test_limits_contain_the_zero_pose_and_the_starts(models, looks):
    for build in BUILDS:
        model = models["articulated"][build]
        limited = np.array(model.topology.limited_joints)
        lower, upper = (
            np.asarray(model.joint_lower)[limited],
            np.asarray(model.joint_upper)[limited],
        )
        assert (
            (lower <= 0).all()
            and (upper > 0).all()
            and (upper - lower < np.pi * 4 / 3 + 1e-9).all()
        )
        for name in STARTS:
            q = np.asarray(looks["articulated"][build][name].state.q)[7:]
            assert (lower <= q).all() and (q <= upper).all()


@pytest.mark.parametrize("kind", HUMANS)
def test_gains_are_near_critical_for_what_a_joint_carries(models, looks, kind):
    """Damping ratio of each freedom in the zero pose, all beyond the joint moving with it.

    The legs also carry the body the other way round and are stiffer; a foot or toe alone is
    overdamped, as are rotations about a straight limb.
    """
    light = ("Rotation", "ankle", "toe", "Ankle", "Toe")
    for build in BUILDS:
        model, seen = models[kind][build], looks[kind][build]["standing"]
        top = model.topology
        carried = np.diag(seen.M)[6:]
        kp, kd = np.asarray(model.gain_p)[6:], np.asarray(model.gain_d)[6:]
        ratio = kd / (2 * np.sqrt(kp * carried))
        assert (kp > 0).all() and (ratio > 0.7).all()
        names = [top.joint_names[j] for j in top.dof_joint[6:]]
        about_z = np.array([kind == "balls" and d % 3 == 2 for d in range(len(names))])
        heavy = np.array([not any(word in n for word in light) for n in names]) & ~about_z
        assert (ratio[heavy] < 1.8).all()
        assert (np.asarray(model.torque_limit)[6:] > 0).all()
        assert not np.asarray(model.torque_limit)[:6].any()


@pytest.mark.parametrize("kind", HUMANS)
def test_starts(models, looks, kind):
    for build in BUILDS:
        model = models[kind][build]
        top = model.topology
        slots = contact_slots(top)
        for name in STARTS:
            seen = looks[kind][build][name]
            np.testing.assert_allclose(seen.low, -START_DEPTH, atol=1e-12)
            np.testing.assert_allclose(seen.contacts.gap.min(), -START_DEPTH, atol=1e-12)
            np.testing.assert_allclose(seen.state.q[:2], 0, atol=1e-12)
            np.testing.assert_array_equal(seen.state.qd, 0)
            chest = seen.kin.link_rot[top.link("chest")]
            up = {"supine": chest[:, 0], "prone": -chest[:, 0]}.get(name, chest[:, 2])
            np.testing.assert_allclose(up, [0, 0, 1], atol=1e-12)
        for name in ("standing", "t_pose"):
            gap = np.asarray(looks[kind][build][name].contacts.gap)
            down = {top.shape_names[s] for s in slots.shape_a[gap < 1e-9]}
            feet = {"leftFoot", "rightFoot"}
            toes = {"leftToes", "rightToes"} if kind == "articulated" else set()
            assert down == feet | toes
            points = looks[kind][build][name].contacts.point[gap < 1e-9]
            assert points[:, 0].min() < -0.03 and points[:, 0].max() > 0.12  # heels and toes
        tips = looks[kind][build]["t_pose"].kin.com
        last = "Hand" if kind == "articulated" else "Forearm"
        reach = np.asarray([tips[top.link(side + last)] for side in ("left", "right")])
        np.testing.assert_allclose(reach[:, 2], reach[0, 2])
        assert reach[0, 1] == pytest.approx(-reach[1, 1]) and reach[0, 1] > 0.3
    with pytest.raises(ModelError, match=r"no start named 'sitting'.*standing, t_pose"):
        any_start(model, "sitting")


@pytest.mark.parametrize("kind", HUMANS)
def test_mechanics_agree_with_mujoco(models, kind):
    mujoco = pytest.importorskip("mujoco", reason="MuJoCo reads what is exported")
    model = models[kind]["adult"]
    top = model.topology
    mj = mujoco.MjModel.from_xml_string(to_mjcf(model))
    data = mujoco.MjData(mj)
    rng = np.random.default_rng(0)
    move, qd = rng.normal(size=(2, 3, top.nv))

    def one(move, qd):
        q = integrate(model, jnp.asarray(neutral_q(model)), move, 1.0)
        kin = forward_kinematics(model, q, qd)
        return q, mass_matrix(model, kin), bias_force(model, kin)

    q, M, bias = quick_jit(jax.vmap(one))(move, qd)
    to_q, to_v = mjcf_q_index(top), mjcf_v_index(top)
    for k in range(3):
        data.qpos[to_q], data.qvel[to_v] = np.asarray(q[k]), qd[k]
        mujoco.mj_forward(mj, data)
        wanted = mujoco_mass_matrix(mj, data)[np.ix_(to_v, to_v)]
        np.testing.assert_allclose(M[k], wanted, rtol=0, atol=1e-9 * np.abs(wanted).max())
        force = data.qfrc_bias[to_v]
        np.testing.assert_allclose(bias[k], force, rtol=0, atol=1e-9 * np.abs(force).max())


def _held(model, state, steps: int):
    """Holds the state's own pose at 1 ms: joint errors, contact forces, state and residual."""

    def record(sample):
        error = pose_error(sample.model, state.q, sample.state.q)[6:]
        return jnp.abs(error).max(), sample.info.contact_force, sample.info.penetration

    return rollout(
        model,
        PoseController(state.q),
        state,
        TimeStepping(dt=0.001),
        steps,
        record=record,
        record_every=20,
        backend="xla",
    )


def _dropped(model):
    state = start(model, "standing")
    return _held(model, state.replace(q=state.q.at[2].add(0.01)), 300)


_ALL = [(kind, build) for kind in HUMANS for build in BUILDS]


@pytest.mark.parametrize(
    ("kind", "build"),
    [_ALL[0], *(pytest.param(*rest, marks=pytest.mark.slow) for rest in _ALL[1:])],
)
def test_a_short_drop_ends_on_the_feet(models, kind, build):
    """Dropped by 1 cm: heels and toes carry the weight, and the joints stay where they are."""
    model = models[kind][build]
    result = quick_jit(_dropped)(model)
    error, force, depth = (np.asarray(x) for x in result.record)
    slots, top = contact_slots(model.topology), model.topology
    names = np.array(top.shape_names)[slots.shape_a]
    feet = np.array([without_side(n) in ("foot", "toes") for n in names])
    total = force[-1].sum(axis=0)
    assert total[2] == pytest.approx(WEIGHT[build], abs=0.01)
    assert np.abs(total[:2]).max() < 1e-3 * WEIGHT[build]  # it still sways a little
    np.testing.assert_array_equal(force[:, ~feet], 0)
    # each side carries half; how a side shares it between foot and toes is left open at rest
    of_side = np.array([n.startswith("left") for n in names])
    by_side = [force[-1, feet & side, 2].sum() for side in (of_side, ~of_side)]
    assert by_side[0] == pytest.approx(by_side[1], rel=1e-4)
    assert np.rad2deg(error.max()) < 0.5 and depth.max() < START_DEPTH + 1e-6
    landed = quick_jit(start, static_argnames="name")(model, name="standing").q[2]
    np.testing.assert_allclose(result.state.q[2], landed, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", HUMANS)
def test_the_pose_is_held(models, kind):
    """Two seconds: standing free, and in the T pose with the pelvis held in the air."""

    def one(model):
        held = model.replace(armature=model.armature.at[:6].set(1e9))
        hanging = start(model, "t_pose")
        hanging = hanging.replace(q=hanging.q.at[2].add(1.0))
        standing = _held(model, start(model, "standing"), 2000)
        return standing.record[0], _held(held, hanging, 2000).record[0]

    batch = stacked(models[kind])
    standing, hanging = quick_jit(jax.vmap(one))(batch)
    assert np.rad2deg(standing.max()) < 0.5
    # the arms sink by their weight's torque over kp and stay there
    assert np.rad2deg(hanging.max()) < 4.0
    np.testing.assert_allclose(hanging[:, -1], hanging[:, -25], atol=1e-5)


@pytest.mark.slow
def test_hands_are_of_the_forearms_mass():
    bare, handed = ball_joint_human(), ball_joint_human(hands=True)
    assert handed.topology.nv == bare.topology.nv + 6
    assert handed.topology.part("leftHand") == handed.topology.link("leftHand")
    np.testing.assert_allclose(handed.mass.sum(), bare.mass.sum(), rtol=1e-9)
    coms = [
        center_of_mass(model, forward_kinematics(model, state.q, state.qd))
        for model in (bare, handed)
        for state in [start(model, "t_pose")]
    ]
    np.testing.assert_allclose(*coms, atol=1e-9)
