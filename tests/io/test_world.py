"""World files: what is read, what is refused and how, what is built."""

import jax
import numpy as np
import pytest

from jaxsim.io.toml_table import WorldError
from jaxsim.io.world import CharacterSpec, World
from jaxsim.io.world_file import read_world
from jaxsim.io.world_model import build_world
from jaxsim.model import ModelBuilder, ModelError, box, capsule, hinge, plane, sphere
from jaxsim.model import tapered_capsule as cone
from jaxsim.model.adopt import add_model
from jaxsim.model.drives import Drive
from jaxsim.synthesis.surroundings import frames
from tests.compiling import quick_jit

SCENE = """
[world]
title = "A scene"
gravity = [0, 0, -10]
seconds = 2
friction = 0.5

[[fixed]]
shape = "plane"

[[fixed]]
name = "step"
shape = "box"
half_extents = [0.1, 0.5, 0.05]
pos = [1, 0, 0.05]
turn_deg = [0, 0, 90]
repeat = { count = 3, offset = [0.2, 0, 0.1] }

[[fixed]]
name = "field"
shape = "height_field"
half_extents = [1, 2]
generator = "rough"
rows = 4
columns = 5
height = 0.1
seed = 3
pos = [-3, 0, 0]

[[body]]
name = "ball"
shape = "sphere"
radius = 0.1
mass = 4
pos = [0, 0, 1]
velocity = [3, 0, 1]
throw_at = 0.5

[[body]]
name = "crate"
shape = "box"
half_extents = [0.1, 0.2, 0.3]
mass = 6
pos = [0, 1, 0.3]
turn_deg = [0, 0, 90]
angular_velocity = [1, 0, 0]
friction = 0.2

[[driven]]
name = "platform"
shape = "box"
half_extents = [1, 1, 0.1]
pos = [0, -3, 0.5]

[[driven.motion]]
turn = [0, 0, 1]
rate_deg = 90
begin = 1

[[driven.motion]]
slide = [0, 0, 1]
amplitude = 0.2
frequency = 0.5

[[grip]]
name = "rope"
link = "crate"
point = [0, 0, 0.3]
strength = 500
open = 1.5

[[push]]
link = "crate"
force = [10, 0, 0]
duration = 0.2
"""


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "scene.toml"
        path.write_text(text)
        return path

    return write


CABIN = """
[[body]]
name = "ball"
shape = "sphere"
radius = 0.1
mass = 1
pos = [0, 0, 5]

[[driven]]
name = "cabin"
shape = "box"
half_extents = [1, 1, 0.1]
pos = [0, 0, 3]

[[driven.motion]]
turn = [1, 0, 0]
rate_deg = 90

[[driven]]
name = "floor"
on = "cabin"
shape = "box"
half_extents = [1, 1, 0.1]
pos = [0, 0, -2]

[[driven.motion]]
slide = [0, 0, -1]
rate = 1
begin = 1

[[driven]]
name = "wall"
on = "cabin"
shape = "box"
half_extents = [0.1, 1, 1]
pos = [1, 0, -1]
turn_deg = [0, 0, 90]

[[hold]]
name = "bar"
pos = [0, 0, 1]
on = "floor"
"""


def test_what_is_driven_may_be_on_what_is_driven(written):
    with jax.enable_x64(True):
        model = build_world(read_world(written(CABIN))).model
        top = model.topology
        assert top.link_names == ("ball", "cabin", "floor") and top.link_parent == (-1, -1, 1)
        assert top.shape_link[top.shape("wall")] == 1
        ball = top.shape("ball")
        touches = {b for a, b in top.shape_pairs if a == ball}
        assert touches == {top.shape(name) for name in ("cabin", "floor", "wall")}
        names = ("cabin", "floor", "wall", "bar")
        shapes = np.array([top.shape(name) for name in names])
        places = quick_jit(lambda time: frames(model, shapes, time)[0])
        # a quarter turn about x brings (0, 0, -2) to (0, 2, 0)
        for time, drop in ((0.0, 0.0), (1.0, 0.0), (2.0, 1.0)):
            c, s = np.cos(np.pi / 2 * time), np.sin(np.pi / 2 * time)
            below = np.array([[0, 0, 0], [0, 0, -2 - drop], [1, 0, -1], [0, 0, -1 - drop]])
            turned = below @ np.array([[1, 0, 0], [0, c, s], [0, -s, c]]) + [0, 0, 3]
            np.testing.assert_allclose(places(time), turned, atol=1e-12)


@pytest.mark.parametrize("old, on", [("cabin", "cabbin"), ("cabin", "wall"), ("floor", "wall")])
def test_what_carries_nothing_is_named(written, old, on):
    text = CABIN.replace(f'on = "{old}"', f'on = "{on}"', 1)
    with pytest.raises(WorldError) as error:
        build_world(read_world(written(text)))
    for word in ("key 'on'", f"no driven body {on!r} with a motion of its own", "world, cabin"):
        assert word in str(error.value)


def test_a_scene_is_built_as_it_is_written(written):
    with jax.enable_x64(True):
        world = read_world(written(SCENE))
        built = build_world(world)
        model, top = built.model, built.model.topology
        assert (world.title, world.seconds, world.scheme) == ("A scene", 2.0, "time_stepping")
        assert top.link_names == ("ball", "crate", "platform")
        assert built.roles == ("prop", "prop", "driven")
        assert top.shape_names[4:7] == ("step_1", "step_2", "step_3")
        steps = [top.shape(f"step_{k}") for k in (1, 2, 3)]
        np.testing.assert_allclose(
            model.shape_pos[np.array(steps)], [[1, 0, 0.05], [1.2, 0, 0.15], [1.4, 0, 0.25]]
        )
        assert model.friction[top.shape("crate")] == 0.2
        assert model.friction[top.shape("step_1")] == 0.5
        assert model.heights[0].shape == (4, 5)
        touching = {frozenset((top.shape_names[a], top.shape_names[b])) for a, b in top.shape_pairs}
        assert {frozenset(("ball", "crate")), frozenset(("ball", "platform"))} <= touching
        assert frozenset(("ball", "field")) in touching
        # Turned by 90 degrees about z, the world's x axis is -y of the crate.
        np.testing.assert_allclose(built.state.qd[9:12], [0, -1, 0], atol=1e-12)
        np.testing.assert_allclose(model.inertia[1], np.diag([0.26, 0.2, 0.1]))
        # A thrown body is held at first; the push then gives it its velocity against gravity.
        assert top.grip_names == ("rope", "hand_of_ball")
        np.testing.assert_allclose(built.state.qd[:6], 0)
        np.testing.assert_allclose(built.grip_open, [1.5, 0.4495])
        np.testing.assert_allclose(built.pushes.force[1], [4 * 60, 0, 4 * (20 + 10)])
        np.testing.assert_allclose(model.grip_other_point[0], [0, 1, 0.6], atol=1e-12)
        np.testing.assert_allclose(model.drive.position(2.0), [np.pi / 2, 0], atol=1e-12)


HEAD = '[[body]]\nname = "a"\nshape = "sphere"\nradius = 0.1\npos = [0, 0, 1]\nmass = 1\n'


@pytest.mark.parametrize(
    "text, words",
    [
        ("[world\n", ["scene.toml", "not TOML", "line 1"]),
        ("[wrold]\n", ["key 'wrold'", "did you mean 'world'?"]),
        ("[world]\nfrictoin = 1\n", ["[world], key 'frictoin'", "did you mean 'friction'?"]),
        ("[world]\ndt = 0\n", ["[world], key 'dt'", "is 0; give a finite number above 0"]),
        (
            '[world]\nscheme = "event_drive"\n',
            ["did you mean 'event_driven'?", "time_stepping, event_driven"],
        ),
        ('[world]\nscheme = "event_driven"\nsweeps = 3\n', ["key 'sweeps'", "leave it out"]),
        ("[body]\nmass = 1\n", ["key 'body'", "[[body]]"]),
        (HEAD.replace("mass", "mas"), ["[[body]] 1 'a', key 'mass': is missing", "'mas'"]),
        (HEAD.replace("0.1", '"big"'), ["key 'radius'", "is 'big'; give a finite number"]),
        (HEAD.replace("[0, 0, 1]", "[0, 0]"), ["key 'pos'", "give 3 numbers in brackets"]),
        (HEAD.replace("sphere", "spere"), ["did you mean 'sphere'?"]),
        (HEAD.replace("sphere", "plane"), ["key 'shape'", "choose from sphere"]),
        (HEAD + "throw_at = 1\n", ["key 'velocity'", "needs the velocity"]),
        (HEAD + "half_length = 1\n", ["key 'half_length': is not known here", "radius"]),
        (HEAD + HEAD, ["the name 'a' is given twice"]),
        (HEAD.replace("mass = 1", "mass = 1e300"), ["key 'mass'", "from 1e-09 to 1e+09 kg"]),
        (HEAD.replace("[0, 0, 1]", "[0, 0, 1e30]"), ["key 'pos'", "is 1e+30; give a number from"]),
        (HEAD + "repeat = {count = 1000000000, offset = [0, 0, 1]}\n", ["'count'", "1 to 1000"]),
        ("[world]\nsweeps = 1000000000000000000\n", ["key 'sweeps'", "from 1 to 10000"]),
        ("[world]\nseconds = 1e300\n", ["key 'seconds'", "from 1e-06 to 100000 s"]),
        ("[world]\ndt = 0.1\n", ["key 'dt'", "is 0.1; give a number from 1e-06 to 0.05 s"]),
        ('[[driven]]\nname = "w"\nshape = "sphere"\nradius = 1\n', ["[[driven.motion]]"]),
        (
            '[[driven]]\nname = "w"\nshape = "sphere"\nradius = 1\n[[driven.motion]]\nrate = 1\n',
            ["[[driven]] 1 'w', [[motion]] 1", "either turn or slide"],
        ),
        ('[[grip]]\nname = "g"\nlink = "a"\nclose = 2\nopen = 1\n', ["not after close"]),
        ('[[push]]\nlink = "a"\n', ["[[push]] 1, key 'force': is missing"]),
        ('[[fixed]]\nshape = "height_field"\nhalf_extents = [1, 1]\n', ["either heights or"]),
        (
            '[[fixed]]\nshape = "height_field"\nhalf_extents = [1, 1]\nheights = [[1], [1, 2]]\n',
            ["key 'heights'", "at least 2 rows"],
        ),
        ('[character]\nmodel = "x"\nself_collision = 1\n', ["give true or false"]),
        ('[[hold]]\nname = "h"\n', ["[[hold]] 1 'h', key 'pos': is missing"]),
        ('[[hold]]\nname = "h"\npos = [0, 0, 2]\nstrength = 0\n', ["key 'strength'"]),
        (
            '[[hold]]\nname = "h"\npos = [0, 0, 2]\n[[hold]]\nname = "h"\npos = [0, 0, 1]\n',
            ["the name 'h' is given twice"],
        ),
        ("[world]\nwindow = 3\n", ['belongs to the scheme "per_step_optimisation"']),
        (
            '[world]\nscheme = "per_step_optimisation"\nannounced = true\n',
            ["key 'announced'", "give window = 5"],
        ),
        ('[world]\nscheme = "per_step_optimisation"\ncontacts = 3\n', ["key 'contacts'"]),
        (
            '[[body]]\nname = "b"\nshape = "sphere"\nradius = 1\nmass = 1\n'
            "target = [0, 0, 1]\narrives = 1\npos = [0, 0, 1]\n",
            ["[[body]] 1 'b', key 'pos'", "flies from the start"],
        ),
    ],
)
def test_a_mistake_is_named_with_its_place_and_remedy(written, text, words):
    with pytest.raises(WorldError) as error:
        read_world(written(text))
    assert all(word in str(error.value) for word in ["scene.toml", *words]), str(error.value)


@pytest.mark.parametrize(
    "text, words",
    [
        ("", ["nothing moves"]),
        ('[character]\nmodel = "articulated_humna"\n', ["did you mean 'articulated_human'?"]),
        ('[character]\nmodel = "none.xml"\n', ["none.xml"]),
        (
            '[character]\nmodel = "planar_human"\nstature = 1.8\n',
            ["planar_human has none of these: stature"],
        ),
        (HEAD + '[[grip]]\nname = "g"\nlink = "b"\n', ["[[grip]] 'g', key 'link'", "are: a"]),
        (HEAD + '[[push]]\nlink = "b"\nforce = [1, 0, 0]\n', ["no link 'b' to push"]),
    ],
)
def test_what_does_not_fit_together_is_named(written, text, words):
    with pytest.raises((WorldError, ModelError)) as error:
        build_world(read_world(written(text)))
    assert all(word in str(error.value) for word in words), str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(WorldError, match="no such world file"):
        read_world(tmp_path / "none.toml")


ROBOT = """
<mujoco><worldbody><geom type="plane" size="1 1 1"/>
<body name="base" pos="0 0 1"><freejoint/><geom type="box" size=".1 .1 .1"/>
<body name="arm" pos=".2 0 0"><joint name="elbow" axis="0 1 0" range="-60 60"/>
<geom type="capsule" fromto="0 0 0 .3 0 0" size=".05"/></body></body></worldbody></mujoco>
"""


def test_a_model_file_keeps_its_ground_or_gets_the_worlds(written, tmp_path):
    pytest.importorskip("mujoco")
    (tmp_path / "robot.xml").write_text(ROBOT)
    alone = build_world(World(character=CharacterSpec(str(tmp_path / "robot.xml"))))
    top = alone.model.topology
    assert top.link_names == ("base", "arm")
    assert top.shape_kinds.count("plane") == 1
    pose = "pos = [2, 0, 0]\nturn_deg = [0, 0, 90]\npose = { elbow = 30 }\n"
    text = '[character]\nmodel = "robot.xml"\n' + pose + '[[fixed]]\nshape = "sphere"\nradius = 1\n'
    built = build_world(read_world(written(text)))
    assert built.model.topology.shape_kinds == ("box", "capsule", "sphere")
    half = np.sqrt(0.5)
    wanted = [2, 0, 1, half, 0, 0, half, np.pi / 6]
    np.testing.assert_allclose(built.state.q, wanted, atol=1e-6)
    with pytest.raises(WorldError, match="no joint 'elbw'; did you mean 'elbow'"):
        build_world(read_world(written(text.replace("elbow =", "elbw ="))))
    with pytest.raises(WorldError, match="no key frame 'up'"):
        build_world(read_world(written('[character]\nmodel = "robot.xml"\nstart = "up"\n')))


def test_a_model_is_declared_again_as_it_was():
    with jax.enable_x64(True):
        b = ModelBuilder()
        rod = dict(mass=1.0, com=(0, 0, -0.5), inertia=(0.08, 0.08, 0.001))
        joints = [
            hinge("swing", (0, 1, 1), limits=(-1, 1), kp=3, kd=2, max_torque=5, damping=0.1),
            hinge("turn", (0, 0, 1), drive=Drive(rate=0.5, amplitude=0.1)),
        ]
        b.add_link("upper", "world", pos=(0, 0, 1), quat=(0.8, 0, 0.6, 0), joints=joints, **rod)
        b.add_link("hand", "upper", pos=(0, 0, -1), **rod)
        b.add_shape("hand", capsule(0.1, 0.2, friction=0.3))
        b.add_shape("upper", box((0.1, 0.2, 0.3), restitution=0.4))
        b.add_shape("world", plane(friction=0.9))
        b.add_grip("hold", "hand", (0, 0, 0.1), strength=30)
        model = b.build()
        again = ModelBuilder()
        add_model(again, model)
        copy = again.build()
        assert copy.topology == model.topology
        for one, other in zip(jax.tree.leaves(model), jax.tree.leaves(copy), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-12)
        bare = ModelBuilder()
        add_model(bare, model, world_shapes=False)
        assert "plane" not in bare.build().topology.shape_kinds


def test_inertias_of_solids():
    r, half, m = 0.1, 0.2, 3.0
    tube, ball = np.pi * r**2 * 2 * half, 4 / 3 * np.pi * r**3
    a, b = m * tube / (tube + ball), m * ball / (tube + ball)
    along = a * r**2 / 2 + b * 0.4 * r**2
    across = a * (r**2 / 4 + half**2 / 3) + b * (0.4 * r**2 + half**2 + 0.75 * half * r)
    com, inertia = capsule(r, half).solid(m)
    np.testing.assert_allclose(com, 0, atol=1e-12)
    np.testing.assert_allclose(inertia, [along, across, across], rtol=2e-6)
    np.testing.assert_allclose(sphere(r).solid(m)[1], 0.4 * m * r**2)
    com, inertia = cone(0.3, 0.1, 0.1).solid(m)  # the large ball holds the small one
    np.testing.assert_allclose(com, [0.1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(inertia, 0.4 * m * 0.3**2, rtol=2e-6)
