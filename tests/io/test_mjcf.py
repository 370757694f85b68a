"""The MJCF export, read by MuJoCo: the same mechanics, the same contacts, the same names."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.characters.planar_human import planar_human
from jaxsim.collision.contacts import find_contacts
from jaxsim.dynamics import rigid
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.io.mjcf import mjcf_link_order, mjcf_q_index, mjcf_v_index, to_mjcf
from jaxsim.model import (
    ModelError,
    capsule,
    height_field,
    sphere,
)
from tests.compiling import quick_jit
from tests.io.scenes import every_kind
from tests.oracles.mujoco_versions import mujoco_mass_matrix

mujoco = pytest.importorskip("mujoco", reason="MuJoCo reads what is exported")

RTOL = 1e-9
STATES = 5


@pytest.fixture(scope="module")
def human(x64_module):
    """The planar human on the ground, as ours and as MuJoCo's model; float64."""
    with jax.enable_x64(True):
        model = planar_human()
    return model, mujoco.MjModel.from_xml_string(to_mjcf(model))


@pytest.fixture(scope="module")
def evaluate():
    """Mass matrix, bias force, contacts and kinematics of a batch of states."""

    def one(model, q, qd):
        kin = forward_kinematics(model, q, qd)
        contacts = find_contacts(model, kin)
        return rigid.mass_matrix(model, kin), rigid.bias_force(model, kin), contacts, kin

    return quick_jit(jax.vmap(one, (None, 0, 0)))


def close(got, wanted, rtol: float = RTOL) -> None:
    """To rtol of the largest entry wanted."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=0, atol=rtol * np.abs(wanted).max())


def by_mujoco(mj, q, qd, data=None):
    """Mass matrix and bias force, in MuJoCo's order."""
    data = data or mujoco.MjData(mj)
    data.qpos[:], data.qvel[:] = q, qd
    mujoco.mj_forward(mj, data)
    return mujoco_mass_matrix(mj, data), data.qfrc_bias.copy()


def test_planar_human_has_the_mechanics_that_mujoco_finds(human, evaluate):
    model, mj = human
    index = mjcf_v_index(model.topology)
    rng = np.random.default_rng(0)
    q, qd = rng.normal(size=(2, STATES, model.topology.nq)) * 2
    M, bias, *_ = evaluate(model, q, qd)
    assert M.dtype == np.float64
    for k in range(STATES):
        at, speed = np.zeros(mj.nq), np.zeros(mj.nv)
        at[index], speed[index] = q[k], qd[k]
        M_mujoco, bias_mujoco = by_mujoco(mj, at, speed)
        close(M[k], M_mujoco[np.ix_(index, index)])
        close(bias[k], bias_mujoco[index])


def test_planar_human_touches_the_ground_where_mujoco_says(human, evaluate):
    """Every ball that is sunk in: depth, place and normal; none between two links."""
    model, mj = human
    rng = np.random.default_rng(1)
    q = rng.normal(size=(STATES, model.topology.nq))
    q[:, 1] = rng.uniform(-0.5, 0.3, STATES)  # some of the body below the ground
    contacts = evaluate(model, q, 0 * q)[2]
    for k in range(STATES):
        data = mujoco.MjData(mj)
        by_mujoco(mj, q[k][np.argsort(mjcf_q_index(model.topology))], np.zeros(mj.nv), data)
        assert data.ncon > 0
        assert all(0 in c.geom for c in data.contact)  # geom 0 is the ground
        theirs = sorted((c.dist, *c.pos) for c in data.contact)
        sunk = np.asarray(contacts.gap[k]) < 0
        ours = sorted((gap, *p) for gap, p in zip(contacts.gap[k][sunk], contacts.point[k][sunk]))
        deepest = np.array(ours[0])
        np.testing.assert_allclose(deepest, theirs[0], atol=1e-9)
        # a capsule of theirs has both ends, also those that a larger ball of a neighbour covers
        found = [np.abs(np.array(theirs) - row).sum(axis=1).min() < 1e-9 for row in ours]
        assert all(found)


def test_no_two_links_touch_and_limits_are_kept(human):
    model, mj = human
    data = mujoco.MjData(mj)
    data.qpos[1] = 10.0  # in the air, folded up
    for joint in ("waist", "leftHip", "rightHip"):
        data.qpos[mj.joint(joint).qposadr[0]] = 1.5
    mujoco.mj_forward(mj, data)
    assert not [c for c in data.contact if c.dist < 0]
    top = model.topology
    for j in top.limited_joints:
        wanted = model.joint_lower[j], model.joint_upper[j]
        np.testing.assert_array_equal(mj.joint(top.joint_names[j]).range, wanted)
    assert mj.jnt_limited.sum() == len(top.limited_joints) == 15


def test_weight_of_the_planar_human_rests_on_the_ground_in_mujoco(human):
    """The model is fit to be simulated: MuJoCo lets it fall and holds its weight."""
    model = human[0]
    mj = mujoco.MjModel.from_xml_string(to_mjcf(model.replace(damping=model.gain_d), 0.002))
    data = mujoco.MjData(mj)
    data.qpos[1] = 0.3
    for joint in ("leftAnkle", "rightAnkle"):
        data.qpos[mj.joint(joint).qposadr[0]] = 0.6
    mujoco.mj_step(mj, data, 600)
    force, total = np.zeros(6), 0.0
    for c in range(data.ncon):
        mujoco.mj_contactForce(mj, data, c, force)
        total += data.contact[c].frame[2] * force[0]
    np.testing.assert_allclose(abs(total), 89.49 * 9.81, rtol=0.02)


def test_every_joint_and_shape_is_exported(x64, evaluate):
    model = every_kind().build()
    top = model.topology
    mj = mujoco.MjModel.from_xml_string(to_mjcf(model))
    order = [top.link_names[link] for link in mjcf_link_order(top)]
    assert order == [mj.body(i).name for i in range(1, mj.nbody)]
    assert order == ["base", "arm", "hand", "leg", "other"]
    assert {mj.geom(i).name for i in range(mj.ngeom)} == set(top.shape_names)
    assert (mj.nq, mj.nv) == (top.nq, top.nv)

    rng = np.random.default_rng(2)
    qpos, qvel = mj.qpos0.copy(), rng.normal(size=mj.nv)
    mujoco.mj_integratePos(mj, qpos, rng.normal(size=mj.nv), 1.0)
    q, v = qpos[mjcf_q_index(top)], mjcf_v_index(top)
    M, bias = by_mujoco(mj, qpos, qvel)
    ours = evaluate(model, q[None], qvel[v][None])
    close(ours[0][0], M[np.ix_(v, v)])
    close(ours[1][0], bias[v])

    data = mujoco.MjData(mj)
    data.qpos[:] = qpos
    mujoco.mj_forward(mj, data)
    rod = mj.geom("rod").id
    along = data.geom_xmat[rod].reshape(3, 3)[:, 2]  # MuJoCo's capsules run along z, ours along x
    wanted = ours[3].link_rot[0, 2] @ np.array([0.0, 0.0, -1.0])
    np.testing.assert_allclose(np.abs(along @ wanted), 1, atol=1e-9)
    np.testing.assert_allclose(mj.geom_size[rod, :2], [0.1, 0.4], atol=1e-12)
    np.testing.assert_allclose(mj.geom("wall").size, [1, 2, 3])
    np.testing.assert_allclose(data.geom_xmat[mj.geom("floor").id].reshape(3, 3)[:, 2], [1, 0, 0])
    np.testing.assert_array_equal(mj.dof_damping[v], model.damping)
    np.testing.assert_array_equal(mj.dof_armature[v], model.armature)
    assert mj.npair == 1
    np.testing.assert_allclose(mj.pair_friction[0, 0], np.sqrt(0.9 * 0.4))


def test_float32_models_load():
    """A plate's moments, rounded, still pass MuJoCo's triangle inequality."""
    model = planar_human(chair_height=0.45)
    mj = mujoco.MjModel.from_xml_string(to_mjcf(model, timestep=0.00025))
    assert mj.opt.timestep == 0.00025
    np.testing.assert_allclose(mj.body_mass.sum(), 89.49, rtol=1e-6)
    assert mj.geom("chair").type == mujoco.mjtGeom.mjGEOM_BOX
    names = {mj.geom(i).name for i in range(mj.ngeom)}
    assert {"head_0", "head_1", "leftFoot_1"} <= names
    assert "pelvis_1" not in names  # covered by the thighs' balls


def test_pairs_that_bits_cannot_say_are_written_out(x64):
    """Shapes that leave out some of the world, and links that touch one another."""
    b = every_kind()
    b.add_shape("world", sphere(0.3, name="hold", group=2, mask=2))
    b.add_shape("base", capsule(0.1, 0.2, name="grip", group=2, mask=2, friction=0.3))
    b.add_pair("rod", "ball")
    top = b.build().topology
    mj = mujoco.MjModel.from_xml_string(to_mjcf(b.build()))
    wanted = {frozenset((top.shape_names[a], top.shape_names[b])) for a, b in top.shape_pairs}
    found = {frozenset(mj.geom(g).name for g in pair) for pair in zip(mj.pair_geom1, mj.pair_geom2)}
    assert found == wanted and frozenset(("grip", "hold")) in wanted
    assert not mj.geom_contype.any() and not mj.geom_conaffinity.any()
    assert frozenset(("rod", "ball")) in wanted and frozenset(("grip", "floor")) not in wanted


def test_a_height_field_is_exported_with_its_place(x64):
    """MuJoCo's rows run along y, the last one first, and start at the lowest point."""
    b = every_kind()
    heights = np.random.default_rng(0).normal(size=(5, 4))
    b.add_shape("world", height_field(heights, (2, 1), name="hills", pos=(0, 0, 3)))
    b.add_shape("world", height_field(np.ones((2, 2)), (1, 1), name="flat"))
    model = b.build()
    mj = mujoco.MjModel.from_xml_string(to_mjcf(model))
    hills = mj.hfield("hills")
    grid = hills.data.reshape(4, 5).T * hills.size[2] + mj.geom("hills").pos[2] - 3
    # MuJoCo keeps float32; the geom's pos is that of the field
    np.testing.assert_allclose(grid, heights, atol=1e-6)
    np.testing.assert_allclose(hills.size[:2], [2, 1])
    np.testing.assert_allclose(mj.geom("flat").pos, [0, 0, 1])
    with pytest.raises(ModelError, match="heights of 'flat' are not finite"):
        to_mjcf(model.with_shape("flat", heights=np.nan))


def test_what_cannot_be_exported_is_refused():
    model = every_kind().build()
    with pytest.raises(ModelError, match=r"'float'.*differ in damping"):
        to_mjcf(model.replace(damping=model.damping.at[1].set(0.7)))
    with pytest.raises(ModelError, match=r"model\.mass is not finite"):
        to_mjcf(model.replace(mass=model.mass.at[0].set(jnp.nan)))
    turn = model.topology.joint("turn")
    with pytest.raises(ModelError, match="'turn' is not the first"):
        to_mjcf(model.replace(joint_pos=model.joint_pos.at[turn, 0].set(0.1)))
