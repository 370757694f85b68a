"""Mistakes are told before a run where they can be known, else by member and step."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.dynamics.effectors import effectors
from jaxsim.model import ModelBuilder, ModelError, box, free
from jaxsim.simulation.pushes import push
from jaxsim.synthesis.checks import SynthesisError, check_setup
from jaxsim.synthesis.config import SynthesisConfig, units
from jaxsim.synthesis.surroundings import bearing_shapes
from tests.synthesis.hopper import DT, crouched, hopper, hopper_effectors, wish

pytestmark = pytest.mark.usefixtures("x64_module")


@pytest.fixture(scope="module")
def scene(x64_module):
    model = hopper()
    return model, hopper_effectors(model), crouched(model)


def test_a_good_scene_passes(scene):
    model, _, state = scene
    wanted = wish(model, state)
    shove = push(model, "trunk", (10.0, 0, 0))
    config = SynthesisConfig(dt=jnp.array(0.01))
    check_setup(
        *scene, config, shove, lambda conf, at_v: wanted.tasks(conf, at_v, units(model), DT)
    )


def test_a_contact_below_the_ground_at_the_start(scene):
    model, points, state = scene
    sunk = state.replace(q=state.q.at[2].add(-0.03))
    with pytest.raises(SynthesisError, match="'corner-1-1' begins 30 mm inside"):
        check_setup(model, points, sunk)


@pytest.mark.parametrize("mu", [0.0, -0.2, np.nan])
@pytest.mark.parametrize("shape", ["ground", "foot"])
def test_friction_is_positive(scene, mu, shape):
    model, points, state = scene
    with pytest.raises(SynthesisError, match=f"friction of shape '{shape}' is {mu}"):
        check_setup(model.with_shape(shape, friction=mu), points, state)


def test_states_fit_and_are_finite(scene):
    model, points, state = scene
    with pytest.raises(ModelError, match="is nan"):
        check_setup(model, points, state.replace(q=state.q.at[8].set(jnp.nan)))
    with pytest.raises(ModelError, match="needs"):
        check_setup(model, points, state.replace(q=state.q[:-1]))


def test_targets_and_weights_are_numbers(scene):
    model, points, state = scene

    def tasks(**changes):
        wanted = wish(model, state, **changes)
        return lambda conf, at_v: wanted.tasks(conf, at_v, units(model), DT)

    bad = tasks(com=jnp.array([0.0, jnp.nan, 0.0]))
    with pytest.raises(SynthesisError, match="row 13 of the goals is not finite"):
        check_setup(model, points, state, tasks=bad)
    with pytest.raises(SynthesisError, match=r"weight .still. is .*zero or more"):
        check_setup(model, points, state, tasks=tasks(still=-1.0))


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(dt=np.array(-0.01)), "dt is -0.01; it is positive"),
        (dict(slip_speed=jnp.array([0.05, 0.0])), "slip_speed is 0.0"),
        (dict(response_delay=-0.2), "response_delay is -0.2; it is zero or more"),
        (dict(touch_distance=np.nan), "touch_distance is nan"),
    ],
)
def test_settings_in_their_range(scene, changes, message):
    with pytest.raises(SynthesisError, match=message):
        check_setup(*scene, SynthesisConfig(**changes))


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(form="forward"), "there are backward, central"),
        (dict(dt=0.0), "give a positive time step"),
        (dict(passes=0), "passes is 0; at least one"),
    ],
)
def test_settings_that_shape_the_program(changes, message):
    with pytest.raises(ValueError, match=message):
        SynthesisConfig(**changes)


def test_pushes_are_numbers(scene):
    shove = push(scene[0], "trunk", (1.0, 0, 0))
    with pytest.raises(SynthesisError, match="pushes: force is not finite"):
        check_setup(*scene, pushes=replace(shove, force=shove.force * jnp.inf))
    with pytest.raises(ModelError, match="no link 'torso' to push; there are trunk"):
        push(scene[0], "torso", (1.0, 0, 0))


def test_effectors_have_shapes_and_the_world_a_surface(scene):
    model, points, _ = scene
    with pytest.raises(ModelError, match="no link has a shape 'toe'; there are trunk, foot"):
        effectors(model, [("toe", "foot", "toe", (0, 0, 0))])
    with pytest.raises(KeyError, match="no group 'hand'; the groups are: foot, handle"):
        points.of("hand")
    b = ModelBuilder()
    b.add_link("body", "world", mass=1.0, inertia=(1, 1, 1), joints=[free("body")])
    b.add_shape("body", box((1, 1, 1), name="body"))
    with pytest.raises(ModelError, match="no shape to stand on"):
        bearing_shapes(b.build().topology)
