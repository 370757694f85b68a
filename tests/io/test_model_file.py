"""MJCF and URDF read as Models: against what MuJoCo makes of the same file, and back again."""

import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from jaxsim.characters.planar_human import planar_human
from jaxsim.dynamics import rigid
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.io.mjcf import to_mjcf
from jaxsim.io.model_file import load_model
from jaxsim.math.rotation import quat_to_matrix
from jaxsim.model import Model, ModelError, check_state
from jaxsim.model.joints import V_SIZE
from tests.compiling import quick_jit
from tests.io.scenes import every_kind
from tests.oracles.mujoco_versions import mujoco_mass_matrix
from tests.oracles.random_trees import MIXED, drawn_structure, random_tree

mujoco = pytest.importorskip("mujoco", reason="MuJoCo reads what is imported")

pytestmark = pytest.mark.usefixtures("x64")

MODELS = Path(__file__).parents[1] / "models"


def of(model: Model, field: str) -> np.ndarray:
    return np.asarray(getattr(model, field))


def close(got, wanted, what: str = "", rtol: float = 1e-12) -> None:
    """To rtol of the largest entry wanted."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape, what
    size = np.abs(wanted).max(initial=0.0)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=rtol * size, err_msg=what)


def assert_same(back: Model, model: Model, with_shapes: bool = True) -> None:
    """The same links, joints and shapes by name; MuJoCo puts them in another order."""
    top, new = model.topology, back.topology
    assert new.planar == top.planar
    links = [new.link(name) for name in top.link_names]
    joints = [new.joint(name) for name in top.joint_names]
    assert len(links) == new.n_links and len(joints) == new.n_joints
    for name, parent in zip(top.link_names, top.link_parent):
        above = new.link_parent[new.link(name)]
        assert (parent < 0 and above < 0) or top.link_names[parent] == new.link_names[above]
    for field in ("joint_kinds", "joint_limited", "joint_actuated"):
        assert [getattr(new, field)[j] for j in joints] == list(getattr(top, field)), field
    for field in ("mass", "com", "inertia"):
        close(of(back, field)[np.array(links, int)], of(model, field), field)
    close(back.gravity, model.gravity)
    kinds = np.array(top.joint_kinds)
    along, turning = np.isin(kinds, ["hinge", "slide"]), ~np.isin(kinds, ["free", "fixed"])
    limited = np.array(top.joint_limited)
    everywhere = np.ones(len(kinds), bool)
    for field, where in (
        ("joint_pos", everywhere),
        ("joint_quat", everywhere),
        ("joint_axis", along),
        ("joint_anchor", turning),
        ("joint_lower", limited),
        ("joint_upper", limited),
    ):
        close(of(back, field)[np.array(joints, int)][where], of(model, field)[where], field)
    dofs = [
        new.v_start[j] + i for j, kind in zip(joints, top.joint_kinds) for i in range(V_SIZE[kind])
    ]
    for field in ("damping", "armature", "gain_p", "gain_d", "torque_limit"):
        close(of(back, field)[np.array(dofs, int)], of(model, field), field)
    if with_shapes:
        assert_same_shapes(back, model)


def assert_same_shapes(back: Model, model: Model) -> None:
    top, new = model.topology, back.topology
    shapes = [new.shape(name) for name in top.shape_names]
    assert len(shapes) == len(new.shape_names)
    assert [new.shape_kinds[s] for s in shapes] == list(top.shape_kinds)
    for field in ("shape_pos", "shape_quat", "shape_size", "friction"):
        close(of(back, field)[np.array(shapes, int)], of(model, field), field)
    assert pair_names(new) == pair_names(top)


def pair_names(top) -> set[tuple[str, ...]]:
    return {tuple(sorted(top.shape_names[s] for s in pair)) for pair in top.shape_pairs}


@pytest.mark.parametrize("structure", [MIXED, *(drawn_structure(seed) for seed in range(8))])
def test_random_trees_come_back_as_they_were(structure):
    model = random_tree(structure, seed=7).model
    imported = load_model(to_mjcf(model))
    assert imported.unsupported == () and imported.notes == ()
    assert_same(imported.model, model)


def test_every_joint_and_shape_comes_back():
    model = every_kind().build()
    imported = load_model(to_mjcf(model, timestep=0.003, actuators=True))
    assert_same(imported.model, model)
    assert imported.timestep == 0.003


def test_planar_human_comes_back():
    """Its tapered capsules as their end balls; a second time nothing changes at all."""
    model = planar_human(chair_height=0.45)
    once = load_model(to_mjcf(model, actuators=True)).model
    assert_same(once, model, with_shapes=False)
    kinds = dict(zip(once.topology.shape_names, once.topology.shape_kinds))
    assert kinds["neck"] == "capsule" and kinds["head_0"] == "sphere" and kinds["chair"] == "box"
    assert len(once.topology.shape_names) == 19
    twice = load_model(to_mjcf(once, actuators=True)).model
    assert twice.topology == once.topology
    for (path, got), wanted in zip(jax.tree.leaves_with_path(twice), jax.tree.leaves(once)):
        close(got, wanted, str(path))


# Joints with a ref, one body with several; a massless mount, a massless carriage with a welded
# load, moving bodies on scenery.
CRANES = """
<mujoco>
  <compiler angle="radian" autolimits="true"/>
  <worldbody>
    <body name="pillar" pos="1 2 0.5" euler="0.1 0.2 0.3">
      <geom name="stone" type="box" size="0.2 0.2 0.5"/>
      <body name="ledge" pos="0 0 0.6" euler="0 0.4 0">
        <geom name="step" type="box" size="0.3 0.3 0.1" pos="0 0.1 0"/>
        <body name="crane" pos="0.1 0 0.3" quat="0.8 0.6 0 0">
          <joint name="turn" axis="1 2 3" pos="0.1 0.2 0.3" ref="0.7"/>
          <joint name="reach" type="slide" axis="0 1 1" ref="-0.4" range="-1 0.5"/>
          <joint name="bend" axis="3 0 1" pos="-0.2 0 0.1" ref="1.1"/>
          <geom name="beam" type="capsule" size="0.05 0.4" pos="0.1 0 0.2" euler="0.5 0 0.2"/>
          <body name="mount" pos="0 0 0.4" euler="0.3 0 0">
            <body name="camera" pos="0.05 0 0" euler="0 0.7 0">
              <geom name="lens" type="sphere" size="0.02" pos="0.1 0 0" mass="0"/>
              <body name="hook" pos="0.2 0 0">
                <joint name="swing" type="ball" pos="0 0 0.1"/>
                <joint name="rope" type="slide" axis="0 1 1" ref="0.3"/>
                <geom type="sphere" size="0.1" pos="0 0 -0.1"/>
              </body>
            </body>
          </body>
        </body>
      </body>
    </body>
    <body name="carriage" pos="0 0 3" euler="0 0 1">
      <joint type="slide" axis="1 0 0" ref="0.25"/>
      <body name="load" pos="0.1 0.2 0.3" euler="0.4 0.5 0.6">
        <geom type="box" size="0.1 0.2 0.3" pos="0.1 0 0"/>
      </body>
      <body name="spare" pos="-0.3 0 0" euler="1 0 0">
        <inertial mass="0.5" pos="0.1 0 0" diaginertia="0.02 0.03 0.04"/>
      </body>
    </body>
  </worldbody>
</mujoco>"""


def assert_same_motion(model: Model, mj, links: list[str]) -> None:
    """Poses of links and shapes and the mass matrix in random states, q being qpos."""
    rng = np.random.default_rng(3)
    evaluate = quick_jit(jax.vmap(observed, (None, 0, 0)))
    q = np.tile(mj.qpos0, (4, 1))
    for row in q[1:]:
        mujoco.mj_integratePos(mj, row, rng.normal(size=mj.nv), 1.0)
    qd = rng.normal(size=(4, mj.nv))
    kin, shape_pos, shape_rot, M, bias = jax.device_get(evaluate(model, q, qd))
    top = model.topology
    for k in range(len(q)):
        data = mujoco.MjData(mj)
        data.qpos[:], data.qvel[:] = q[k], qd[k]
        mujoco.mj_forward(mj, data)
        for name in links:
            link, body = top.link(name), mj.body(name).id
            close(kin.link_pos[k, link], data.xpos[body], name, 1e-9)
            close(kin.link_rot[k, link].ravel(), data.xmat[body], name, 1e-9)
        for s, (name, kind) in enumerate(zip(top.shape_names, top.shape_kinds)):
            geoms = [g for g in range(mj.ngeom) if mj.geom(g).name == name]
            for g in geoms:
                close(shape_pos[k, s], data.geom_xpos[g], name, 1e-9)
                wanted = data.geom_xmat[g].reshape(3, 3)
                along = 0 if kind == "capsule" else 2
                close(shape_rot[k, s][:, along], wanted[:, 2], name, 1e-9)
        close(M[k], mujoco_mass_matrix(mj, data), "mass matrix", 1e-9)
        close(bias[k], data.qfrc_bias, "bias force", 1e-9)


def observed(model, q, qd):
    kin = forward_kinematics(model, q, qd)
    link = np.array(model.topology.shape_link)
    rot = jax.numpy.where((link < 0)[:, None, None], np.eye(3), kin.link_rot[link])
    pos = jax.numpy.where((link < 0)[:, None], 0.0, kin.link_pos[link])
    shape_pos = pos + (rot @ model.shape_pos[..., None])[..., 0]
    shape_rot = rot @ quat_to_matrix(model.shape_quat)
    return kin, shape_pos, shape_rot, rigid.mass_matrix(model, kin), rigid.bias_force(model, kin)


def test_refs_massless_bodies_and_scenery():
    imported = load_model(CRANES, strict=False, self_collision=False)
    top = imported.model.topology
    assert top.link_names == ("crane", "hook", "carriage")
    assert top.joint_names == ("turn", "reach", "bend", "swing", "rope", "carriage_slide")
    assert {"stone", "step", "beam", "lens", "hook_sphere", "load_box"} == set(top.shape_names)
    assert "bodies that never move became part of the world: pillar, ledge" in imported.notes
    mj = mujoco.MjModel.from_xml_string(CRANES)
    np.testing.assert_array_equal(imported.state.q, mj.qpos0)
    close(imported.model.joint_lower[1:2], [-1])
    assert_same_motion(imported.model, mj, ["crane", "hook", "carriage"])


def test_urdf():
    """Every kind of joint; what is not supported is listed, missing mesh files among it."""
    path = MODELS / "arm.urdf"
    with pytest.raises(ModelError, match=r"arm\.urdf uses what jaxsim does not have") as caught:
        load_model(path)
    imported = load_model(path, strict=False)
    assert imported.unsupported == (
        "meshes (their files were not found): upper",
        "geoms of type cylinder: wheel_cylinder",
    )
    assert all(line in str(caught.value) for line in imported.unsupported)
    model, top = imported.model, imported.model.topology
    assert top.link_names == ("upper", "rail", "slider", "wheel")
    assert top.joint_names == ("shoulder", "rail_fixed", "extend", "spin")
    assert top.joint_limited == (True, False, True, False)
    np.testing.assert_array_equal(model.joint_lower[:3:2], [-1.5, 0])
    np.testing.assert_array_equal(model.joint_upper[:3:2], [2, 0.3])
    np.testing.assert_array_equal(model.torque_limit, [30, 100, 0])
    np.testing.assert_array_equal(model.damping, [0.7, 0, 0])
    assert top.shape_names == ("base_box", "rail_box", "slider_sphere")
    text = path.read_text().replace("<link", "<mujoco/><link", 1)
    for mesh in ("upper_look", "upper"):
        text = text.replace(f'<mesh filename="package://arm/{mesh}.stl"/>', '<sphere radius="1"/>')
    spec = mujoco.MjSpec.from_string(text)
    spec.compiler.fusestatic = False
    assert_same_motion(model, spec.compile(), ["upper", "rail", "slider", "wheel"])


def test_missing_meshes_that_give_the_inertia_are_an_error(tmp_path):
    text = """<mujoco><asset><mesh name="m" file="lost.stl"/></asset><worldbody><body>
        <joint/><geom type="mesh" mesh="m"/></body></worldbody></mujoco>"""
    path = tmp_path / "mesh.xml"
    path.write_text(text)
    with pytest.raises(ModelError, match=r"mesh\.xml: MuJoCo cannot read it: .*lost\.stl"):
        load_model(path)


def test_motors_give_the_torque_that_mujoco_gives():
    """A servo, a velocity servo and both on one joint; gears, limits of force and of control."""
    text = """<mujoco><worldbody>
      <body><joint name="a"/><geom size="1"/>
      <body><joint name="b" type="slide"/><geom size="1"/>
      <body><joint name="c" actuatorfrcrange="-3 3"/><geom size="1"/>
      <body><joint name="d"/><geom size="1"/><body><joint name="e"/><geom size="1"/>
      </body></body></body></body></body>
      </worldbody><actuator>
        <position joint="a" kp="20" kv="3" gear="2" forcerange="-4 4"/>
        <velocity joint="b" kv="5" forcerange="-6 6"/>
        <motor joint="c" gear="2" ctrlrange="-5 5"/>
        <motor joint="d" gear="-2" ctrlrange="-5 5"/>
        <position joint="e" kp="7"/><velocity joint="e" kv="2"/>
      </actuator></mujoco>"""
    imported = load_model(text, strict=False, self_collision=False)
    assert not [line for line in imported.unsupported if "actuator" in line]
    model = imported.model
    np.testing.assert_allclose(model.torque_limit, [8, 6, 3, 10, 1e9])
    mj = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(mj)
    rng = np.random.default_rng(0)
    for _ in range(20):
        data.qpos[:], data.qvel[:] = rng.normal(size=(2, 5)) / 5
        control = rng.normal(size=6)
        data.ctrl[:] = control
        mujoco.mj_forward(mj, data)
        target, speed = np.zeros(5), np.zeros(5)
        target[[0, 4]] = control[0] / 2, control[4]  # a gear of 2 halves the target
        speed[[1, 4]] = control[1], control[5]
        servo = np.array(model.gain_p) * (target - data.qpos)
        servo += np.array(model.gain_d) * (speed - data.qvel)
        servo[2:4] = [2 * control[2], -2 * control[3]]
        limit = np.array(model.torque_limit)
        np.testing.assert_allclose(np.clip(servo, -limit, limit), data.qfrc_actuator, atol=1e-12)


def test_pairs_are_those_that_mujoco_lets_touch():
    """Spheres in one place: every pair that is not filtered is in contact."""
    from jaxsim.io.mujoco_shapes import wanted_pairs

    rng = np.random.default_rng(1)
    for _ in range(20):
        spec = mujoco.MjSpec()
        bodies = [spec.worldbody]
        for i in range(8):
            above = bodies[rng.integers(len(bodies))]
            body = above.add_body(name=f"b{i}")
            if rng.integers(3):
                body.add_joint(type=mujoco.mjtJoint.mjJNT_HINGE)
            bodies.append(body)
        for i, body in enumerate(bodies):
            masks = dict(zip(("contype", "conaffinity"), rng.integers(4, size=2).tolist()))
            for k in range(2):
                body.add_geom(name=f"g{i}_{k}", size=[1, 0, 0], **masks)
        spec.worldbody.add_body(name="last").add_freejoint()
        spec.body("last").add_geom(name="last", size=[1, 0, 0], contype=0, conaffinity=0)
        for i in range(2):
            spec.add_pair(geomname1=f"g{i}_0", geomname2="last")
            names = [f"b{b}" for b in rng.choice(8, 2, replace=False)]
            spec.add_exclude(bodyname1=names[0], bodyname2=names[1])
        mj = spec.compile()
        data = mujoco.MjData(mj)
        mujoco.mj_forward(mj, data)
        found = {tuple(sorted(contact.geom.tolist())) for contact in data.contact}
        assert found == set(wanted_pairs(mujoco, mj))


RICH = """
<mujoco>
  <option density="1.2"/>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1" friction="0.5"/>
    <body name="bird" mocap="true"><geom name="beak" size="0.1"/></body>
    <body name="egg" pos="0 0 1" gravcomp="1">
      <joint name="hinge" range="-9 9" stiffness="3" frictionloss="0.1" solreflimit="0.1 1"/>
      <geom name="shell" type="ellipsoid" size="1 1 2"/>
      <geom name="yolk" size="0.1" solref="0.01 1" margin="0.01"/>
      <geom name="look" type="cylinder" size="1 1" contype="0" conaffinity="0"/>
      <geom name="ghost" size="0.1" contype="2" conaffinity="2"/>
      <site name="tip"/>
      <body name="stick">
        <joint name="ball" type="ball" range="0 1" limited="true"/>
        <geom name="wood" type="cylinder" size="0.1 0.5"/>
      </body>
    </body>
  </worldbody>
  <tendon><fixed name="string"><joint joint="hinge" coef="1"/></fixed></tendon>
  <equality><joint name="tied" joint1="hinge"/></equality>
  <actuator>
    <motor name="pull" tendon="string"/>
    <muscle name="biceps" joint="hinge" lengthrange="0 1"/>
    <motor name="spin" joint="ball" gear="1 0 0"/>
    <motor name="push" joint="hinge" ctrlrange="0 1"/>
    <general name="odd" joint="hinge" biastype="affine" biasprm="1 0 0"/>
  </actuator>
  <sensor><jointpos joint="hinge"/></sensor>
</mujoco>"""


def test_all_that_is_not_supported_is_listed_in_one_message():
    with pytest.raises(ModelError) as caught:
        load_model(RICH)
    imported = load_model(RICH, strict=False)
    wanted = (
        "joint springs (stiffness, springref): hinge",
        "softness of joint limits (solreflimit, solimplimit): hinge",
        "dry friction of joints (frictionloss): hinge",
        "gravity compensation: egg",
        "mocap bodies (they stay where the file puts them): bird",
        "margins and gaps of contacts: yolk",
        "softness of contacts (solref, solimp): yolk",
        "tendons: string",
        "equality constraints: tied",
        "fluid forces (option density, viscosity, wind)",
        "actuators on tendons, sites, bodies or cranks: pull",
        "actuators with a state of their own (muscles, filters, integrators): biceps",
        "actuators on ball and free joints: spin",
        "force limits that differ by direction (the larger one is kept): push",
        "actuators with a constant force, negative stiffness or negative damping: odd",
        "geoms of type ellipsoid: shell",
        "geoms of type cylinder: wood",
    )
    assert imported.unsupported == wanted
    assert str(caught.value) == (
        "the model text uses what jaxsim does not have:\n  " + "\n  ".join(wanted) + "\n"
        "load_model(..., strict=False) loads the rest"
    )
    assert "ignored, as the motion does not depend on them: sites, sensors" in imported.notes
    ball = imported.model.topology.joint("ball")
    assert imported.model.topology.joint_limited[ball]
    np.testing.assert_allclose(imported.model.joint_upper[ball], np.pi / 180)
    assert any("floor with yolk (0.707 for 1)" in line for line in imported.notes)
    assert pair_names(imported.model.topology) == {("floor", "yolk"), ("beak", "yolk")}
    assert imported.report().count("\n") == len(wanted) + len(imported.notes) + 1


def test_height_fields_and_shapes_of_the_world():
    """Heights where MuJoCo's rays meet the ground; no two shapes of the world touch."""
    text = """<mujoco><asset>
      <hfield name="hills" nrow="2" ncol="3" size="4 2 0.5 1" elevation="0 1 5  4 2 3"/></asset>
      <worldbody>
      <geom name="ground" type="hfield" hfield="hills" pos="1 2 0.3" euler="0 0 30"/>
      <geom name="rock" size="0.3" pos="2 0 0"/><geom name="log" type="capsule" size="0.1 1"/>
      <body name="ball" pos="0 0 3"><freejoint/><geom size="0.2"/></body></worldbody></mujoco>"""
    imported = load_model(text)
    model, top = imported.model, imported.model.topology
    ball = "ball_sphere"
    pairs = {tuple(sorted((ball, other))) for other in ("ground", "rock", "log")}
    assert pair_names(top) == pairs
    mj = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(mj)
    mujoco.mj_forward(mj, data)
    (heights,) = model.heights
    ground = top.shape("ground")
    half = np.asarray(model.shape_size[ground, :2])
    np.testing.assert_array_equal(half, [4, 2])
    for i, x in enumerate(np.linspace(-1, 1, 3)):
        for j, y in enumerate(np.linspace(-1, 1, 2)):
            # just inside of the field's edge; the height over it, from rays of the field alone
            local = np.array([x * half[0], y * half[1], 0]) * (1 - 1e-9)
            start = quat_to_matrix(model.shape_quat[ground]) @ local + model.shape_pos[ground]
            above = np.asarray(start) + np.array([0, 0, 9.0])
            distance = mujoco.mj_rayHfield(mj, data, 0, above, np.array([0, 0, -1.0]))
            np.testing.assert_allclose(heights[i, j], 9 - distance, atol=1e-6)
    back = load_model(to_mjcf(model)).model
    assert_same(back, model)
    np.testing.assert_allclose(back.heights[0], heights, atol=1e-7)


def test_humanoid_file():
    itself = load_model(MODELS / "humanoid.xml").model.topology
    world = {itself.shape("floor")}
    assert sum(not world & set(pair) for pair in itself.shape_pairs) == 109
    imported = load_model(MODELS / "humanoid.xml", self_collision=False)
    model, top = imported.model, imported.model.topology
    assert (top.nq, top.nv, len(top.actuated_joints)) == (28, 27, 21)
    mj = mujoco.MjModel.from_xml_path(str(MODELS / "humanoid.xml"))
    for name, state in (("squat", 0), ("key1", 1)):
        check_state(model, imported.keyframes[name])
        np.testing.assert_array_equal(imported.keyframes[name].q, mj.key_qpos[state])
        np.testing.assert_array_equal(imported.keyframes[name].qd, mj.key_qvel[state])
    assert float(imported.keyframes["squat"].time) == 0.5
    assert any("109 pairs of links do not touch" in line for line in imported.notes)
    np.testing.assert_allclose(model.total_mass, mj.body_mass.sum())
    elbow = top.dof("elbow_left")
    assert [float(a[elbow]) for a in (model.gain_p, model.gain_d, model.torque_limit)] == [
        40,
        4,
        40,
    ]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nowhere.xml", r"nowhere\.xml: there is no such file"),
        ("<mujoco><worldbody></mujoco>", "the model text: MuJoCo cannot read it: XML parse error"),
        ("<mujoco><leg/></mujoco>", "cannot read it: .*'leg', line 1"),
        (
            "<mujoco><worldbody><body><joint/></body></worldbody></mujoco>",
            "mass and inertia of moving bodies must be larger",
        ),
        ("<mujoco/>", "no body of it moves"),
    ],
)
def test_broken_files_are_named_with_the_reason(source, message):
    with pytest.raises(ModelError, match=message):
        load_model(source)


def test_binary_files_are_refused(tmp_path):
    path = tmp_path / "model.mjb"
    path.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(ModelError, match=r"model\.mjb: this is no text"):
        load_model(path)


def test_without_mujoco_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(ImportError, match=r"jaxsim-characters\[models\]"):
        load_model("<mujoco/>")


@pytest.mark.parametrize(
    "mass, message",
    [
        ("nan", """<geom> 'inf' has mass="nan"; give finite numbers"""),
        ("inf", """<geom> 'inf' has mass="inf"; give finite numbers"""),
        ("1e300", r"link 'a': mass is 1e[+]300 kg; give a number from 1e-09 to 1e[+]09 kg"),
    ],
)
def test_masses_that_no_body_has_are_refused(mass, message):
    geom = f'<geom name="inf" type="sphere" size="0.1" mass="{mass}"/>'
    body = f'<body name="a"><freejoint/>{geom}</body>'
    with pytest.raises(ModelError, match=message):
        load_model(f"<mujoco><worldbody>{body}</worldbody></mujoco>")
