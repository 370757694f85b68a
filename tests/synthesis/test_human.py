"""The 37-DOF human under plain goals: stands, is pushed, lifts a foot and puts it down."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks._synthesis import PUSHED, Scene
from jaxsim import articulated_human, push, start
from jaxsim.characters.standing import effectors_of
from jaxsim.dynamics.jacobians import center_of_mass
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.fused import fuse
from jaxsim.model.state import neutral_q
from jaxsim.solvers.lcp import SOLVED
from jaxsim.synthesis.config import SynthesisConfig, units
from jaxsim.synthesis.configuration import configuration_at
from jaxsim.synthesis.synthesizer import begin, synthesize
from jaxsim.synthesis.tasks import Tasks, position_rows, stack_rows, velocity_rows
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64_module")

STEPS = 80


@pytest.fixture(scope="module")
def human(x64_module):
    model = articulated_human("adult")
    return model, effectors_of(model)


def test_effectors_of_the_human_lie_on_the_soles_and_hands(human):
    model, points = human
    assert points.count == 12 and points.group_names == (
        "leftFoot",
        "rightFoot",
        "leftHand",
        "rightHand",
    )
    assert points.of("leftFoot").sum() == 5 and points.of("rightHand").sum() == 1
    with pytest.raises(KeyError, match="the groups are: leftFoot"):
        points.of("foot")

    def places(model):
        q, v = jnp.asarray(neutral_q(model)), jnp.zeros(model.topology.nv)
        return points.positions(forward_kinematics(model, q, v))

    place = quick_jit(places)(model)
    np.testing.assert_allclose(place[:10, 2], place[0, 2], atol=1e-9)
    assert place[10, 1] > 0.1 > -0.1 > place[11, 1]


def lifted_foot(conf, at_v, unit, dt, place, lifted):
    """To bring the centre of mass over a place (2,), and the right foot 8 cm up or not."""
    nv, points = conf.v.shape[0], conf.effectors
    right = points.of("rightFoot")
    middle = jnp.asarray(right / right.sum()) @ conf.position
    J = jnp.einsum("e,eij->ij", right / right.sum(), conf.jacobian)
    foot = jnp.where(lifted, jnp.sqrt(0.8), 0.0) / unit.limb
    goals = stack_rows(
        velocity_rows(jnp.eye(nv), jnp.zeros(nv), jnp.sqrt(0.5) / unit.rate),
        position_rows(
            conf, conf.com[:2] - place, conf.com_jacobian[:2], at_v, jnp.sqrt(5.0) / unit.com, dt
        ),
        position_rows(conf, middle[2:] - 0.08, J[2:], at_v, foot, dt),
    )
    return Tasks(
        goals=goals,
        relax=jnp.where(lifted & right, 1.0, 0.0),
        still=jnp.where(lifted & right, 0.0, 1.0),
        torque=jnp.ones(()),
    )


@pytest.fixture(scope="module")
def motion(human):
    """States and infos: 0.2 s on both feet, pushed at 0.1 s, 0.3 s on the left one, 0.3 s both."""
    model, points = human
    unit, config = units(model), SynthesisConfig(iterations=40)
    shove = push(model, "pelvis", (40.0, 20.0, 0.0), start=0.1, duration=0.1)

    def run(model, state):
        def step(state, lifted):
            conf = configuration_at(model, points, state.q, state.qd)
            left = jnp.asarray(points.of("leftFoot") / 5)
            both = jnp.asarray(points.of("leftFoot") + points.of("rightFoot") * 1.0) / 10
            place = (jnp.where(lifted, left, both) @ conf.position)[:2]
            after, info = synthesize(
                conf,
                state,
                lambda conf, at_v: lifted_foot(conf, at_v, unit, config.dt, place, lifted),
                unit,
                config,
                shove,
            )
            return after, (after, info)

        time = jnp.arange(STEPS)
        first = begin(model, points, state, unit, config)
        return jax.lax.scan(step, first, (time >= 20) & (time < 50))[1]

    return quick_jit(run)(model, start(model, "standing"))


def test_a_step_of_the_human_is_physical(human, motion):
    _, info = motion
    assert (info.status == SOLVED).all()
    assert info.root_residual.max() < 1e-6 and info.cone_excess.max() < 1e-6
    assert info.penetration.max() < 1e-4 and not info.leaving.any()
    on = np.asarray(info.on)
    assert on[:20, :10].all() and on[30:48, :5].all() and on[-1, 5:10].any()
    load = np.asarray(info.force)[:, :10, 2].reshape(STEPS, 2, 5).sum(axis=2)
    assert load[:20].min() > 100 and load[30:48, 1].max() < 10  # [N] left, right


def test_the_ground_carries_the_weight_and_the_push(human, motion):
    """The contact forces are what the centre of mass's acceleration asks for, to first order."""
    model, _ = human
    states, info = motion

    def com(q):
        return center_of_mass(model, forward_kinematics(model, q, jnp.zeros(model.topology.nv)))

    place = np.asarray(quick_jit(jax.vmap(com))(states.q))
    total = np.asarray(info.force).sum(axis=1)
    mass = float(model.total_mass)
    wanted = mass * (np.diff(place, 2, axis=0) / 1e-4 + [0, 0, 9.81])
    middle = np.asarray(states.time)[2:] - 0.005
    wanted[(middle >= 0.1) & (middle < 0.2), :2] -= [40.0, 20.0]
    assert np.abs(total[2:] - wanted).max() < 0.01 * mass * 9.81


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_human_as_a_kernel(dtype):
    """Twenty frames of the balance controller, three humans pushed each in its way."""
    with jax.enable_x64(dtype == "float64"):
        scene = Scene(SynthesisConfig())
        model, first = scene.human[0], scene.begin()
        first = replace(first[0], time=first[0].time + PUSHED), first[1]  # pushed at once

        def pushed(force):
            def step(carry, _):
                carry, info = scene.step(model, carry, scene.pushes(force))
                return carry, (carry[0].q, info.root_residual, info.status)

            return jax.lax.scan(step, first, None, length=20)[1]

        forces = jnp.array([[200.0, 0, 0], [-50.0, 120.0, 0], [0, -150.0, 0]])
        q, residual, status = map(np.asarray, fuse(pushed)(forces))
        wanted = np.asarray(quick_jit(jax.vmap(pushed))(forces)[0])
    assert (status == SOLVED).all()
    assert residual.max() < {"float32": 1e-2, "float64": 1e-8}[dtype]  # [N]
    np.testing.assert_allclose(q, wanted, atol={"float32": 1e-3, "float64": 1e-7}[dtype])
    assert np.abs(q[:, -1] - q[:, 0]).max(axis=1).min() > 0.005  # none stands still
