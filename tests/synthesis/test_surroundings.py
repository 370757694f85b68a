"""Surfaces that move carry, press and leave what stands on them as mechanics says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.dynamics.jacobians import center_of_mass
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.fused import fuse
from jaxsim.model import ModelBuilder, ModelError, State, box, hinge, slide
from jaxsim.model.adopt import add_model
from jaxsim.model.drives import Drive
from jaxsim.model.part import driven_part, main_part, part_of
from jaxsim.simulation.pushes import push
from jaxsim.solvers.lcp import SOLVED
from jaxsim.synthesis.checks import SynthesisError, check_setup
from jaxsim.synthesis.config import FORMS, SynthesisConfig
from jaxsim.synthesis.scheme import PerStepOptimisation
from jaxsim.synthesis.tasks import Tasks, position_rows, stack_rows, velocity_rows
from tests.compiling import quick_jit
from tests.synthesis.hopper import BENT, HANDLE, JOINTS, crouched, hopper, hopper_effectors

pytestmark = pytest.mark.usefixtures("x64_module")

MASS, G, DT = 40.0, 9.81, 0.01
FLOOR = 0.05  # half the thickness of the floor, whose top is at height 0 at first [m]
EACH = [pytest.param(form, marks=[pytest.mark.slow] * (form != "backward")) for form in FORMS]


def on_floor(*joints):
    """The hopper on a driven floor alone."""
    b = ModelBuilder()
    add_model(b, hopper(), world_shapes=False)
    b.add_link(
        "floor", "world", pos=(0, 0, -FLOOR), mass=1.0, inertia=(1, 1, 1), joints=list(joints)
    )
    b.add_shape("floor", box((1.0, 1.0, FLOOR), name="floor"))
    b.add_pair("foot", "floor")
    return b.build()


def from_rest(amplitude, frequency):
    """Swings between 0 and twice the amplitude."""
    return Drive(start=-amplitude, amplitude=amplitude, frequency=frequency, phase=np.pi / 2)


def standing(model):
    own, q = crouched(hopper()), jnp.zeros(model.topology.nq)
    nq, nv = own.q.shape[0], own.qd.shape[0]
    return State(q.at[:nq].set(own.q), jnp.zeros(model.topology.nv).at[:nv].set(own.qd), own.time)


def tasks_on_board(conf, at_v, unit):
    """The joints stay, and the centre of mass over the sole, wherever that goes."""
    top, eye = conf.model.topology, jnp.eye(conf.v.shape[0])
    dofs = np.array([top.dof(j) for j in JOINTS])
    at = np.array([top.q_start[top.joint(j)] for j in JOINTS])
    over = conf.com[:2] - conf.position[:HANDLE, :2].mean(axis=0)
    J = conf.com_jacobian[:2] - conf.jacobian[:HANDLE, :2].mean(axis=0)
    goals = stack_rows(
        position_rows(conf, conf.q[at] - jnp.array(BENT), eye[dofs], at_v, 30.0, DT),
        position_rows(conf, over, J, at_v, 2.0 / unit.com, DT),
        velocity_rows(J, jnp.zeros(2), 0.5 / unit.com),
    )
    one = jnp.ones(conf.effectors.count)
    return Tasks(goals, relax=0.0 * one, still=one, torque=jnp.asarray(0.1))


def ride(model, steps=100, form="backward"):
    """States after each step, and infos."""
    config = SynthesisConfig(form=form, iterations=40)
    scheme = PerStepOptimisation.of(model, hopper_effectors(model), config)

    def run(model, state):
        def step(state, _):
            obs = scheme.observe(model, state)
            tasks = lambda conf, at_v: tasks_on_board(conf, at_v, scheme.unit)  # noqa: E731
            after, info = scheme.step(model, state, obs, tasks)
            return after, (after, info)

        return jax.lax.scan(step, scheme.init(model, state), None, length=steps)[1]

    return run, standing(model)


def rode(model, **options):
    run, state = ride(model, **options)
    return quick_jit(run)(model, state)


def com_of(model, states):
    """(T, 3) of the hopper [m]."""
    part = main_part(model.topology)
    own = part.of(model)

    def place(q, qd):
        return center_of_mass(own, forward_kinematics(own, q[part.q], qd[part.dofs]))

    return np.asarray(quick_jit(jax.vmap(place))(states.q, states.qd))


@pytest.mark.parametrize("form", EACH)
def test_on_a_lift_the_ground_presses_with_g_and_its_acceleration(form):
    model = on_floor(slide("up", (0, 0, 1), drive=Drive(acceleration=2.0, begin=0.2)))
    after, info = rode(model, form=form)
    assert (info.status == SOLVED).all() and info.root_residual.max() < 1e-6
    pressed = np.asarray(info.force.sum(axis=1))
    np.testing.assert_allclose(pressed[10, 2], MASS * G, rtol=1e-4)
    np.testing.assert_allclose(pressed[60:, 2], MASS * (G + 2.0), rtol=1e-3)
    np.testing.assert_allclose(after.q[-1, 9 + 1], 0.5 * 2.0 * 0.8**2, rtol=1e-12)


@pytest.mark.parametrize("form", EACH)
def test_in_a_cabin_that_falls_nothing_presses_on_the_floor(form):
    model = on_floor(slide("up", (0, 0, 1), drive=Drive(acceleration=-G, begin=0.2)))
    after, info = rode(model, form=form)
    assert info.root_residual.max() < 1e-6
    pressed = np.linalg.norm(info.force.sum(axis=1), axis=-1)
    np.testing.assert_allclose(pressed[10], MASS * G, rtol=1e-4)
    assert pressed[60:].max() < 1e-3 * MASS * G
    place = com_of(model, after)
    fallen = place[-1, 2] - place[59, 2]  # 0.4 s to 0.8 s after it began
    np.testing.assert_allclose(fallen, -G / 2 * (0.8**2 - 0.4**2), rtol=2e-2)


@pytest.mark.slow
def test_who_stands_on_a_shaking_turning_floor_is_carried_without_slipping():
    model = on_floor(
        slide("along", (1, 0, 0), drive=from_rest(0.015, 1.0)),
        slide("across", (0, 1, 0), drive=from_rest(0.006, 1.4)),
        hinge("yaw", (0, 0, 1), drive=from_rest(0.1, 0.5)),
    )
    after, info = rode(model)
    assert (info.status == SOLVED).all() and info.root_residual.max() < 1e-6
    points = hopper_effectors(model)

    def on_board(q, qd):
        """The corners of the sole as the floor sees them."""
        kin = forward_kinematics(model, q, qd)
        floor = model.topology.link("floor")
        return (points.positions(kin)[:4] - kin.link_pos[floor]) @ kin.link_rot[floor]

    seen = np.asarray(quick_jit(jax.vmap(on_board))(after.q, after.qd))
    moved = np.ptp(np.asarray(after.q[:, 12]))
    assert moved > 0.19  # the floor's yaw [rad]
    assert np.abs(seen - seen[0]).max() < 2e-3
    assert not info.sliding.any()


def test_a_floor_that_drops_away_leaves_its_rider_in_free_fall():
    model = on_floor(slide("up", (0, 0, 1), drive=Drive(acceleration=-30.0, begin=0.2)))
    after, info = rode(model, steps=60)
    assert info.root_residual.max() < 1e-6
    gone = np.asarray(info.on).any(axis=1)
    assert gone[:20].all() and not gone[24:50].any()
    place = com_of(model, after)
    bent = np.diff(place[25:50, 2], n=2) / DT**2
    np.testing.assert_allclose(bent, -G, rtol=1e-2)


@pytest.mark.slow
def test_fused_it_is_the_same():
    model = on_floor(hinge("tilt", (1, 0, 0), drive=Drive(amplitude=0.1, frequency=1.0)))
    run, state = ride(model, steps=5)
    batch = jax.tree.map(lambda x: jnp.stack([x, x]), state)
    fused = fuse(lambda s: run(model, s))(batch)
    plain = quick_jit(run)(model, state)
    np.testing.assert_allclose(fused[0].q[0], plain[0].q, rtol=0, atol=1e-8)


def test_parts_of_a_model_have_its_numbers():
    model = on_floor(slide("up", (0, 0, 1), drive=Drive(rate=0.3)))
    own, floor = main_part(model.topology), driven_part(model.topology)
    whole = hopper()
    part = own.of(model)
    assert part.topology.link_names == whole.topology.link_names
    assert part.topology.joint_parent == whole.topology.joint_parent
    for name in ("mass", "com", "inertia", "joint_pos", "torque_limit", "damping"):
        np.testing.assert_array_equal(getattr(part, name), getattr(whole, name))
    assert floor.topology.link_names == ("floor",) and float(floor.of(model).drive.rate[0]) == 0.3
    assert own.of(whole) is not whole and main_part(whole.topology).of(whole) is whole
    with pytest.raises(ValueError, match="'trunk' and 'thigh' are of one tree"):
        part_of(model.topology, (True, False, False, False, True))


def test_pushes_on_what_is_driven_are_refused():
    model = on_floor(slide("up", (0, 0, 1), drive=Drive(rate=0.3)))
    with pytest.raises(SynthesisError, match="'floor' moves as its drives say"):
        check_setup(
            model,
            hopper_effectors(model),
            standing(model),
            pushes=push(model, "floor", (1.0, 0, 0)),
        )


def test_a_model_that_begins_with_what_is_driven_is_refused():
    b = ModelBuilder()
    drives = [slide("up", (0, 0, 1), drive=Drive(rate=0.3))]
    b.add_link("floor", "world", mass=1.0, inertia=(1, 1, 1), joints=drives)
    b.add_shape("floor", box((1.0, 1.0, FLOOR), name="floor"))
    add_model(b, hopper(), world_shapes=False)
    model = b.build()
    scheme = PerStepOptimisation.of(model, hopper_effectors(model))
    with pytest.raises(ModelError, match="the first link is 'floor', and moves by drives"):
        scheme.check(model)
