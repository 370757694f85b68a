"""What general code asks of a character: roles, starts, effectors, its standing height."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from controllers import vocabulary
from jaxsim import (
    CHARACTERS,
    ModelBuilder,
    ModelError,
    Roles,
    articulated_human,
    capsule,
    character_of,
    effectors_of,
    free,
    load_model,
    planar_human,
    plane,
    push,
    sphere,
    standing_height,
    start,
)
from jaxsim.characters.default_gains import SPARE, with_default_gains
from jaxsim.characters.human import TURNS
from jaxsim.characters.role_finding import find_roles
from jaxsim.characters.sole import find_points
from jaxsim.characters.standing import START_DEPTH
from jaxsim.dynamics.kinematics import forward_kinematics
from tests.compiling import quick_jit

MODELS = Path(__file__).parents[1] / "models"


@pytest.fixture(scope="module")
def bodies():
    """The humanoids of tests/models by name."""
    names = "humanoid", "other_humanoid"
    return {name: load_model(MODELS / f"{name}.xml").model for name in names}


def test_built_in_characters_say_their_roles():
    for name, character in CHARACTERS.items():
        model = character.build()
        assert character_of(model) is character and model.topology.roles.character == name
        model.topology.require("the test", "head", "pelvis", "leftFoot", "rightFoot")
        assert character.starts[0] == "standing"
    top = planar_human().topology
    assert top.link_names[top.part("chest")] == "trunk"
    assert top.link_names[top.part("leftUpperArm")] == "leftArm"
    with pytest.raises(KeyError, match=r"no link or role named 'tail'.*the roles: head"):
        top.part("tail")
    with pytest.raises(ModelError, match="planar_human has no effectors"):
        effectors_of(planar_human())
    with pytest.raises(ModelError, match=r"(?s)the test needs the role leftToes.*\[roles\]"):
        top.require("the test", "leftToes")


def test_standing_height_is_the_thesis_or_a_share_of_the_heads():
    assert standing_height(planar_human()) == 1.8
    adult, child = (standing_height(articulated_human(build)) for build in ("adult", "child"))
    assert adult == pytest.approx(0.9 * 1.6330, abs=1e-4)
    assert child == pytest.approx(0.9 * 1.0539, abs=1e-4)


def test_names_tell_the_roles_where_they_leave_no_doubt(bodies):
    top = bodies["humanoid"].topology
    assert find_roles(top) == dict(top.roles.links)  # the roles file says no more
    assert find_roles(bodies["other_humanoid"].topology) == {}

    def called(**changes):
        """Links of other names; shapes too, as a foot may be a shape of its shank."""
        links, shapes = (
            tuple(changes.get(name, name) for name in names)
            for names in (top.link_names, top.shape_names)
        )
        return find_roles(dataclasses.replace(top, link_names=links, shape_names=shapes))

    assert "leftHand" not in called(waist="l_hand", torso="r_hand")  # they hang on no forearm
    one = called(foot_left="x")
    assert "rightFoot" not in one and "leftShank" in one  # both of a pair, or none
    assert "pelvis" not in called(waist="Pelvis")  # which of the two?


@pytest.mark.parametrize("name", ["humanoid", "other_humanoid"])
def test_soles_are_found_flat_below_the_feet(bodies, name):
    model = bodies[name]
    points = effectors_of(model)
    assert points.group_names == ("leftFoot", "rightFoot", "leftHand", "rightHand")
    assert points.names[:4] == tuple(
        f"leftFoot{end}{edge}" for end in ("Heel", "Ball") for edge in ("Left", "Right")
    )
    state = start(model, "standing")
    kin = quick_jit(forward_kinematics)(model, state.q, state.qd)
    place = np.asarray(points.positions(kin))
    np.testing.assert_allclose(place[:8, 2], -START_DEPTH, atol=1e-5)
    assert (place[[2, 3, 6, 7], 0] - place[[0, 1, 4, 5], 0] > 0.15).all()  # balls ahead of heels
    assert (place[:8:2, 1] - place[1:8:2, 1] > 0.05).all()  # left of right
    assert place[:4, 1].min() > place[4:8, 1].max()


def foot_of(*shapes):
    """A body on two feet of such shapes."""
    b = ModelBuilder()
    b.add_link("body", "world", mass=5, inertia=(1, 1, 1), joints=[free("root")])
    b.add_shape("world", plane())
    names = ("left_foot", "right_foot")
    for name, y in zip(names, (0.1, -0.1)):
        b.add_link(name, "body", pos=(0, y, -0.5), mass=1, inertia=(0.01, 0.01, 0.01))
        for k, shape in enumerate(shapes):
            b.add_shape(name, dataclasses.replace(shape, name=f"{name}{k}"))
    model = b.build()
    links = tuple(find_roles(model.topology).items())
    return model, Roles("mine", links)


def test_a_foot_of_capsules_or_balls_has_a_heel_and_a_ball():
    pos, rot = np.array([[0, 0, 0.5], [0, 0.1, 0], [0, -0.1, 0]]), np.tile(np.eye(3), (3, 1, 1))
    one = find_points(*foot_of(capsule(0.03, 0.1)), pos, rot)
    assert [name for name, *_ in one[:2]] == ["leftFootHeel", "leftFootBall"]
    np.testing.assert_allclose(one[1][3], (0.1 / 0.13, 0, -1), atol=1e-9)
    balls = sphere(0.02, pos=(-0.1, 0, 0)), sphere(0.02, pos=(0.1, 0, 0))
    two = find_points(*foot_of(*balls), pos, rot)
    assert [point[2] for point in two[:2]] == ["left_foot0", "left_foot1"]
    assert find_points(*foot_of(sphere(0.05)), pos, rot) == ()


def test_motors_without_gains_take_those_of_a_human_of_the_size(bodies):
    model = bodies["humanoid"]
    filled, joints = with_default_gains(model)
    knee, elbow = (model.topology.dof(name) for name in ("knee_left", "elbow_left"))
    ratio = float(filled.gain_p[knee]) / (SPARE * TURNS["kneeFlexion"].kp)
    assert 0.6 < ratio < 0.65  # 50 of 72 kg, legs of 0.83 of 0.94 m
    assert filled.gain_p[elbow] == model.gain_p[elbow] == 40 and "elbow_left" not in joints
    assert with_default_gains(articulated_human())[1] == ()


def test_scripts_and_pushes_know_roles(bodies):
    words = vocabulary(planar_human())
    assert words.joint_groups["necks"] == ("neckTop", "neckBottom")
    assert words.links_of("chest") == ("trunk",)
    model = bodies["other_humanoid"]
    assert vocabulary(model).links_of("feet") == ("a_pad", "b_pad")
    assert int(push(model, "leftFoot", (1, 0, 0)).link[0]) == model.topology.link("a_pad")
    with pytest.raises(ModelError, match=re.escape("no link 'tail' to push; there are base")):
        push(model, "tail", (1, 0, 0))
