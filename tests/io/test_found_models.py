"""Model files as they are found: without what they name, in other encodings, with what is off."""

import numpy as np
import pytest

from jaxsim.io.model_file import load_model
from jaxsim.model import ModelError

mujoco = pytest.importorskip("mujoco", reason="MuJoCo reads what is imported")

OLD = not hasattr(mujoco.mjtDisableBit, "mjDSBL_SPRING")
OF_NEW_MUJOCO = pytest.mark.skipif(OLD, reason="MuJoCo before 3.4 reads it in another way")

BALL = '<body name="ball" pos="0 0 1"><freejoint/><geom name="g" size=".1" mass="2"{}/></body>'
WORLD = f"<worldbody>{BALL.format('')}</worldbody>"
INERTIAL = '<inertial pos="0 0 0" mass="2" diaginertia=".1 .1 .1"/>'
LEG = """<worldbody><body name="leg" pos="0 0 1"><joint name="j" axis="0 1 0"/>
  <geom type="capsule" fromto="0 0 0 0 0 -.5" size=".05" mass="2"/></body></worldbody>"""
ARM = """<robot name="r"><link name="base"/><link name="arm"><inertial>
  <origin xyz="0 0 -.2" rpy=".3 .4 .5"/><mass value="2"/>
  <inertia ixx="{xx}" ixy="{xy}" ixz="0" iyy="{yy}" iyz="0" izz="{zz}"/></inertial>{more}</link>
  <joint name="j" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/>
  <limit lower="-1" upper="1" effort="{effort}" velocity="3"/></joint></robot>"""


def mjcf(inner: str) -> str:
    return f"<mujoco>{inner}</mujoco>"


def arm(xx=".1", xy="0", yy=".1", zz=".05", effort="5", more="") -> str:
    return ARM.format(xx=xx, xy=xy, yy=yy, zz=zz, effort=effort, more=more)


# ---- what only is seen, or moves nothing

TEXTURE = (
    '<asset><texture name="t" type="2d" file="no.png"/><material name="m" texture="t"/></asset>'
)
SEEN = {
    "texture": TEXTURE + WORLD,
    "cube": '<asset><texture name="t" type="cube" fileright="no.png"/></asset>' + WORLD,
    "material": WORLD.replace("/></body>", ' material="no"/></body>'),
    "material's texture": '<asset><material name="m" texture="no"/></asset>' + WORLD,
    "site": f'<worldbody><site material="no"/>{BALL.format("")}</worldbody>',
    "skin": WORLD + '<deformable><skin file="no.skn"/></deformable>',
    "camera": f'<worldbody><camera mode="targetbody" target="no"/>{BALL.format("")}</worldbody>',
    "light": f'<worldbody><light mode="targetbody" target="no"/>{BALL.format("")}</worldbody>',
    "mesh that is seen": '<asset><mesh name="m" file="no.stl"/></asset><worldbody><body>'
    f'<freejoint/>{INERTIAL}<geom type="mesh" mesh="m" contype="0" conaffinity="0"/></body>'
    "</worldbody>",
    "sensor": WORLD + '<sensor><gyro site="no"/></sensor>',
    "sensor's reference": WORLD
    + '<sensor><framepos objtype="body" objname="ball" reftype="site" refname="no"/></sensor>',
    "exclude": WORLD + '<contact><exclude body1="ball" body2="no"/></contact>',
}
MOVES = {
    "mesh": (
        '<asset><mesh name="m" file="no.stl"/></asset><worldbody><body><freejoint/>'
        f'{INERTIAL}<geom name="shell" type="mesh" mesh="m"/></body></worldbody>',
        "meshes (their files were not found): shell",
    ),
    "height field": (
        '<asset><hfield name="h" file="no.png" size="1 1 1 1"/></asset><worldbody>'
        f'<geom name="hills" type="hfield" hfield="h"/>{BALL.format("")}</worldbody>'
        '<sensor><framepos objtype="geom" objname="hills"/></sensor>',
        "height fields (their files were not found): hills",
    ),
    "pair": (
        WORLD + '<contact><pair geom1="g" geom2="floor"/></contact>',
        "contact pairs with geoms that the file lacks: g with floor",
    ),
    "actuator": (
        WORLD + '<actuator><motor name="a" joint="no"/></actuator>',
        "actuators of what the file lacks: a",
    ),
    "equality": (
        WORLD + '<equality><weld name="e" body1="ball" body2="no"/></equality>',
        "equality constraints of what the file lacks: e",
    ),
    "include": (
        '<include file="no.xml"/>' + WORLD,
        "files that it includes (they were not found): no.xml",
    ),
    "key frame": (
        WORLD + '<keyframe><key name="k" qpos="1 2 3 4 5 6 7 8 9"/></keyframe>',
        "key frames of another model: k",
    ),
    "size": (
        f'<worldbody><body><freejoint/>{INERTIAL}<geom name="z" type="box" size=".1 0 .1"/></body>'
        "</worldbody>",
        "geoms of size zero: z",
    ),
}


@pytest.mark.parametrize("what", SEEN)
def test_what_is_only_seen_may_be_lost(what):
    imported = load_model(mjcf(SEEN[what]))  # strictly: the motion is the same
    assert float(imported.model.total_mass) == pytest.approx(2.0)
    assert imported.notes, "it is told"


@pytest.mark.parametrize("what", MOVES)
def test_what_is_lost_and_moves_is_listed(what):
    text, line = MOVES[what]
    imported = load_model(mjcf(text), strict=False)
    assert float(imported.model.total_mass) == pytest.approx(2.0)
    assert imported.unsupported == (line,)
    with pytest.raises(ModelError, match="uses what jaxsim does not have"):
        load_model(mjcf(text))


def test_a_scene_includes_a_robot_whose_files_are_lost(tmp_path):
    """By their folders, and relative to the file that includes them."""
    inner = tmp_path / "robot"
    inner.mkdir()
    (inner / "robot.xml").write_text(mjcf(MOVES["mesh"][0] + '<include file="more.xml"/>'))
    (inner / "more.xml").write_text(mjcf('<sensor><gyro site="no"/></sensor>'))
    floor = '<worldbody><geom type="plane" size="1 1 1"/></worldbody>'
    scene = tmp_path / "scene.xml"
    scene.write_text(mjcf('<include file="robot/robot.xml"/>' + floor))
    imported = load_model(scene, strict=False)
    assert float(imported.model.total_mass) == 2.0
    assert imported.unsupported == ("meshes (their files were not found): shell",)
    (inner / "more.xml").write_text(
        mjcf(f"<worldbody>{BALL.format('')}</worldbody>").replace("2", "nan")
    )
    with pytest.raises(ModelError, match=r'scene\.xml, .*more\.xml: <geom> .g. has mass="nan"'):
        load_model(scene, strict=False)
    (inner / "robot.xml").unlink()
    with pytest.raises(ModelError, match=r"no body of it moves(.|\n)*robot/robot\.xml"):
        load_model(scene, strict=False)


def test_meshes_that_are_there_still_give_the_mass(tmp_path):
    """One of two is lost, of a body that states its inertia; the other weighs."""
    (tmp_path / "t.obj").write_text(
        "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    )
    text = mjcf(
        '<asset><mesh name="lost" file="no.stl"/><mesh name="tetra" file="t.obj"/></asset>'
        f'<worldbody><body><freejoint/>{INERTIAL}<geom type="mesh" mesh="lost"/></body>'
        '<body><freejoint/><geom type="mesh" mesh="tetra" density="6"/></body></worldbody>'
    )
    path = tmp_path / "m.xml"
    path.write_text(text)
    np.testing.assert_allclose(load_model(path, strict=False).model.mass, [2.0, 1.0], rtol=1e-5)


@pytest.mark.parametrize("encoding", ["latin-1", "gbk", "utf-8", "utf-8-sig", "utf-16"])
def test_encodings(encoding, tmp_path):
    """Comments and names; also of a file that another includes."""
    word = "关节" if encoding == "gbk" else "Rücken"
    declared = f'<?xml version="1.0" encoding="{encoding}"?>' if encoding == "gbk" else ""
    body = BALL.format("").replace("ball", word)
    text = f"{declared}<mujoco><!-- {word} --><worldbody>{body}</worldbody></mujoco>"
    (tmp_path / "model.xml").write_bytes(text.encode(encoding))
    (tmp_path / "scene.xml").write_text(mjcf('<include file="model.xml"/>'))
    for name in ("model.xml", "scene.xml"):
        assert load_model(tmp_path / name).model.topology.link_names == (word,)


# ---- numbers that MuJoCo or jaxsim does not take


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"yy": ".3"}, [0.125, 0.175, 0.3]),  # triangle: both smaller moments by the same
        ({"zz": "0"}, [1e-7, 0.1, 0.1]),  # a rod
        ({"xx": "1e-6", "xy": "1e-6", "yy": "1e-6", "zz": "0"}, [1e-6, 1e-6, 2e-6]),
        ({"xx": "0", "yy": "0", "zz": "0"}, [8e-5] * 3),  # a ball of 1 cm
        ({"xx": "-.1"}, [0.025, 0.075, 0.1]),
    ],
)
def test_inertias_that_no_body_has_are_raised_by_name(given, wanted):
    mesh = '<collision><geometry><mesh filename="package://r/no.dae"/></geometry></collision>'
    imported = load_model(arm(**given, more=mesh), strict=False)
    moments = np.linalg.eigvalsh(np.asarray(imported.model.inertia[-1], float))
    np.testing.assert_allclose(moments, wanted, rtol=1e-4, atol=1e-8)
    assert any(
        line.startswith("inertias") and line.endswith("arm") for line in imported.unsupported
    )
    with pytest.raises(ModelError, match=r"inertias .*: arm"):
        load_model(arm(**given))


@OF_NEW_MUJOCO  # an old one turns the axes of a URDF's inertia twice
def test_a_raised_inertia_keeps_its_axes():
    """The same axes as one that MuJoCo reads as it is."""
    raised = load_model(arm(xx=".1", xy=".05", yy=".2", zz=".01"), strict=False).model.inertia[-1]
    plain = load_model(arm(xx=".1", xy=".05", yy=".2", zz=".15")).model.inertia[-1]
    axes, others = (np.linalg.eigh(np.asarray(I, float))[1] for I in (raised, plain))
    same = np.abs(axes.T @ others)
    np.testing.assert_allclose(same[-1].max(), 1.0, atol=1e-4)


def test_tiny_masses_are_raised():
    text = mjcf(
        '<worldbody><body name="goal"><joint type="slide" axis="1 0 0"/>'
        '<geom size=".05" contype="0" conaffinity="0" density="1e-6"/></body></worldbody>'
    )
    imported = load_model(text, strict=False)
    np.testing.assert_allclose(imported.model.mass, [1e-9])
    assert imported.unsupported == ("masses under 1e-09 kg (they are raised to it): goal",)


@pytest.mark.parametrize("effort", ["0", "0.0", "-0", "0e0"])
def test_an_effort_of_zero_is_told(effort):
    imported = load_model(arm(effort=effort))
    assert not imported.model.topology.actuated_joints
    assert any("effort is 0" in line and line.endswith("j") for line in imported.notes)
    assert not any("effort" in line for line in load_model(arm()).notes)


# ---- what the file switches off

MOTOR = '<actuator><motor name="m" joint="j" group="2" {}/></actuator>'
OFF = {
    "group": f'<option actuatorgroupdisable="1 2"/>{LEG}' + MOTOR.format('ctrlrange="-5 5"'),
    "actuation": f'<option><flag actuation="disable"/></option>{LEG}'
    + MOTOR.format('ctrlrange="-5 5"'),
    "force": LEG + MOTOR.format('gear="0" ctrlrange="-5 5"'),
}


@pytest.mark.parametrize("how", OFF)
def test_motors_that_are_off_are_none(how):
    imported = load_model(mjcf(OFF[how]))
    assert not imported.model.topology.actuated_joints
    assert any("motor" in line and line[-1] in "mj" for line in imported.notes)
    mj = mujoco.MjModel.from_xml_string(mjcf(OFF[how]))
    data = mujoco.MjData(mj)
    data.ctrl[:] = 3.0
    mujoco.mj_forward(mj, data)
    assert data.qfrc_actuator[0] == 0.0


TWO = WORLD.replace(
    "<worldbody>", '<worldbody><body name="b" pos="0 0 2"><freejoint/><geom size=".1"/></body>'
)
SPRING = LEG.replace(
    'axis="0 1 0"', 'axis="0 1 0" stiffness="5" damping="1" frictionloss="1" range="-9 9"'
)
TENDON = LEG.replace("<worldbody>", '<worldbody><site name="a"/>').replace(
    "</body>", '<site name="b"/></body>'
)
PATH = '<tendon><spatial name="t"{}><site site="a"/><site site="b"/></spatial></tendon>'
SAME = {
    "inactive equality": TWO + '<equality><weld body1="ball" body2="b" active="false"/></equality>',
    "equality flag": '<option><flag equality="disable"/></option>'
    + TWO
    + '<equality><weld body1="ball" body2="b"/></equality>',
    "constraint flag": '<option><flag constraint="disable"/></option>'
    + SPRING.replace("stiffness", "armature"),
    "springs off": None
    if OLD
    else '<option><flag spring="disable" frictionloss="disable"/></option>' + SPRING,
    "friction off": '<option><flag frictionloss="disable" limit="disable"/></option>'
    + SPRING.replace("stiffness", "armature").replace(
        'range="-9 9"', 'range="-9 9" solreflimit="1 1"'
    ),
    "seen tendon": TENDON + PATH.format(""),
    "its motor is off": f'<option actuatorgroupdisable="2"/>{TENDON}{PATH.format("")}'
    + '<actuator><motor tendon="t" group="2"/></actuator>',
    "soft stops of a joint without": LEG.replace('axis="0 1 0"', 'axis="0 1 0" solreflimit="1 1"'),
    "cylinder that touches nothing": LEG.replace("capsule", "cylinder"),
    "softness of what touches nothing": LEG.replace('size=".05"', 'size=".05" solref="1 1"'),
    "equal priorities": TWO.replace("<geom ", '<geom priority="1" '),
    "wind in a vacuum": '<option wind="1 0 0"/>' + LEG,
    "mocap without a shape": LEG.replace("</worldbody>", '<body mocap="true"/></worldbody>'),
}
NOT_SAME = {
    "equality": TWO + '<equality><weld body1="ball" body2="b"/></equality>',
    "spring": SPRING,
    "tendon with stiffness": TENDON + PATH.format(' stiffness="1"'),
    "tendon with a limit": TENDON + PATH.format(' range="0 1"'),
    "tendon with a motor": TENDON + PATH.format("") + '<actuator><motor tendon="t"/></actuator>',
    "priorities": TWO.replace("<geom ", '<geom priority="1" ', 1),
}


@pytest.mark.parametrize("what", SAME)
def test_what_changes_nothing_is_no_reason_to_refuse(what):
    """Its motion over 50 steps is that of the model without constraints and contacts, in MuJoCo."""
    if SAME[what] is None:
        pytest.skip("MuJoCo before 3.4 has no flag for springs")
    text = mjcf(SAME[what])
    imported = load_model(text)
    model = imported.model
    mj = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(mj)
    data.qvel[:] = 1.0
    mujoco.mj_forward(mj, data)
    from jaxsim.dynamics import rigid
    from jaxsim.dynamics.kinematics import forward_kinematics

    kin = forward_kinematics(model, imported.state.q, np.ones(mj.nv))
    bias = np.asarray(rigid.bias_force(model, kin)) + np.asarray(model.damping)
    wanted = data.qfrc_bias - data.qfrc_passive - data.qfrc_constraint
    np.testing.assert_allclose(bias, wanted, atol=1e-4)


@pytest.mark.parametrize("what", NOT_SAME)
def test_what_changes_the_motion_is_refused(what):
    with pytest.raises(ModelError, match="uses what jaxsim does not have"):
        load_model(mjcf(NOT_SAME[what]))


@OF_NEW_MUJOCO
def test_flags_leave_the_model_that_was_given_as_it_is():
    mj = mujoco.MjModel.from_xml_string(mjcf(SAME["springs off"]))
    load_model(mj)
    assert mj.jnt_stiffness[0] == 5 and mj.dof_frictionloss[0] == 1


# ---- self-collision, shapes


def test_self_collision_of_a_scenario_means_what_it_says(tmp_path):
    """By default of a model file what the file says, of a built-in character nothing."""
    from jaxsim.io.world_file import read_world
    from jaxsim.io.world_model import build_world

    (tmp_path / "two.xml").write_text(
        mjcf(
            '<worldbody><geom type="plane" size="1 1 1"/><body pos="0 0 1"><freejoint/>'
            '<geom name="a" size=".1"/><geom name="far" size=".05" pos="1 0 0" contype="2" '
            'conaffinity="2"/><body pos="0 0 .3"><joint/><geom name="b" size=".1"/>'
            '<body pos="0 0 .3"><joint/><geom name="c" size=".1"/></body></body></body></worldbody>'
        )
    )

    def pairs(character, key):
        path = tmp_path / "world.toml"
        path.write_text(f'[character]\nmodel = "{character}"\n{key}\n')
        top = build_world(read_world(path)).model.topology
        moving = [
            [top.shape_names[s] for s in pair]
            for pair in top.shape_pairs
            if -1 not in [top.shape_link[s] for s in pair]
        ]
        return sorted(map(sorted, moving))

    assert pairs("two.xml", "") == [["a", "c"]]
    assert pairs("two.xml", "self_collision = false") == []
    assert ["a", "c"] in pairs("two.xml", "self_collision = true")
    assert pairs("planar_human", "") == pairs("planar_human", "self_collision = false") == []
    assert pairs("planar_human", "self_collision = true") != []


def test_a_body_without_shapes_has_no_lowest_point(tmp_path):
    """Its standing start is not there; the rest of it is."""
    from jaxsim.characters.registry import start
    from jaxsim.io.world_file import read_world
    from jaxsim.io.world_model import build_world

    parts = [
        f'<body name="{side}_{part}"><joint name="{side}{part}" axis="0 1 0"/>{INERTIAL}</body>'
        for side in ("left", "right")
        for part in ("foot", "hand")
    ]
    text = mjcf(
        "<worldbody>" + BALL.split("<geom")[0] + INERTIAL + "".join(parts) + "</body></worldbody>"
    )
    model = load_model(text).model
    assert model.topology.roles.link("leftFoot") == "left_foot"
    with pytest.raises(ModelError, match="no link has a shape"):
        start(model, "standing")
    (tmp_path / "m.xml").write_text(text)
    (tmp_path / "w.toml").write_text('[character]\nmodel = "m.xml"\n')
    assert any(
        "no link has a shape" in line for line in build_world(read_world(tmp_path / "w.toml")).notes
    )
