"""A window of steps is physical, is a step where it has one frame, and sees what is to come."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim import push
from jaxsim.dynamics.kinematics import integrate
from jaxsim.model import ModelBuilder, ModelError, slide
from jaxsim.model.adopt import add_model
from jaxsim.model.drives import Drive
from jaxsim.solvers import qp, stages
from jaxsim.solvers.lcp import SOLVED
from jaxsim.synthesis.config import SynthesisConfig, units
from jaxsim.synthesis.configuration import configuration_at
from jaxsim.synthesis.contact_forces import EDGES, contact_modes
from jaxsim.synthesis.measured import cone_excess, needed_torque
from jaxsim.synthesis.passes import HorizonPlan
from jaxsim.synthesis.problem import motor_mask
from jaxsim.synthesis.scheme import PerStepOptimisation
from jaxsim.synthesis.several import SeveralCharacters
from jaxsim.synthesis.stops import Blocked
from jaxsim.synthesis.synthesizer import begin, first_problem
from jaxsim.synthesis.window import Ahead, first_plan, window_problem
from tests.compiling import quick_jit
from tests.synthesis.hopper import crouched, hopper, hopper_effectors, repeated, runner, wish

pytestmark = pytest.mark.usefixtures("x64_module")

DT, FRAMES = 0.02, 6
ROWS = 6  # of the root
ASIDE = (0.02, 0.0, -0.05)
MOVING = [0.3, 0, 0.2, 0, 0.4, 0, 0.5, -0.4, 0.2]  # velocities [m/s, rad/s]


@pytest.fixture(scope="module")
def model(x64_module):
    return hopper()


def seen(model, state):
    return configuration_at(model, hopper_effectors(model), state.q, state.qd)


def asked(model, state, config, aside=(0.0, 0.0, 0.0)):
    """To stand where it was, with the centre of mass so far from there [m]; nothing pushes."""
    unit, wanted = units(model), wish(model, crouched(model))
    wanted = replace(wanted, com=wanted.com + jnp.array(aside))
    none = lambda conf, elapsed: jnp.zeros_like(conf.v)  # noqa: E731

    def tasks(conf, at_v):
        return wanted.tasks(conf, at_v, unit, config.dt)

    return Ahead(tasks, none, state.solver.motors, state.time)


@pytest.fixture(scope="module")
def begun(model):
    """States as a window begins with them, without a plan."""
    config = SynthesisConfig(dt=DT, torque_limits=True)
    points = hopper_effectors(model)
    return quick_jit(lambda state: begin(model, points, state, units(model), config))


@pytest.fixture(scope="module")
def sweep(model):
    """By the number of frames: a plan after another QP, and the QP."""

    def of(frames, aside=(0.0, 0.0, 0.0)):
        config = SynthesisConfig(dt=DT, torque_limits=True, window=frames)

        def once(state, plan):
            conf = seen(model, state)
            none = Blocked.none(conf.near.gap, conf.v)
            ahead = asked(model, state, config, aside)
            p = window_problem(conf, conf.v > 1e9, none, plan, ahead, units(model), config)
            equality = jnp.pad(plan.equality, ((0, 0), (0, p.b.shape[1] - ROWS)))
            s = stages.solve(p, (plan.x, equality, plan.inequality))
            return HorizonPlan(s.u, s.equality[:, :ROWS], s.inequality), replace(s, u=s.u[0])

        return quick_jit(once)

    return of


def test_a_window_of_one_frame_is_a_step(model, begun, sweep):
    """How corners share the load is left open by the problem: the sums are compared."""
    state = begun(crouched(model, qd=MOVING))
    config = SynthesisConfig(dt=DT, torque_limits=True)

    def alone(state):
        tasks = asked(model, state, config).tasks
        problem = first_problem(seen(model, state), state, tasks, units(model), config)
        return qp.solve(problem)

    wanted = quick_jit(alone)(state)
    frame = first_plan(model, state.solver.last, replace(config, window=1))
    plan, found = sweep(1)(state, frame)
    assert found.status == SOLVED and wanted.status == SOLVED
    nv = model.topology.nv
    assert np.abs(wanted.x[:nv]).max() > 0.1
    np.testing.assert_allclose(plan.x[0, :nv], wanted.x[:nv], atol=1e-6)
    loads = [np.sum(x[nv:].reshape(-1, EDGES)) for x in (plan.x[0], wanted.x)]
    np.testing.assert_allclose(*loads, atol=1e-6)


def frames_of(model, state, plan, config):
    """Of each frame: root residual [N], cone excess [N], largest part of a torque limit."""
    nv, points = model.topology.nv, hopper_effectors(model)

    unit, first = units(model), jnp.arange(config.window) == 0

    def one(carry, frame):
        (q, v), (x, now) = carry, frame
        conf = configuration_at(model, points, q, v)
        touch = jnp.where(now, config.touch_distance, unit.limb)
        modes = contact_modes(conf, touch, config.slip_speed, config.dt)
        basis = unit.force * modes.basis
        force = jnp.sum(x[nv:].reshape(-1, EDGES, 1) * basis, axis=1)
        torque, root = needed_torque(conf, x[:nv], force, jnp.zeros_like(v), config)
        muscles = np.flatnonzero(motor_mask(model.topology))
        part = jnp.max(jnp.abs(torque[muscles]) / model.torque_limit[muscles])
        q = integrate(model, q, x[:nv], config.dt)
        return (q, x[:nv]), (root, cone_excess(modes, force), part, force.sum(0)[2])

    return jax.lax.scan(one, (state.q, state.qd), (plan.x, first))[1]


@pytest.mark.slow
def test_every_frame_of_a_plan_is_physical(model, begun, sweep):
    """The first one after one QP, all of them where a plan does not change any more."""
    config = SynthesisConfig(dt=DT, torque_limits=True, window=FRAMES)
    state = begun(crouched(model))
    plan, again = first_plan(model, state.solver.last, config), sweep(FRAMES, ASIDE)
    told = quick_jit(lambda state, plan: frames_of(model, state, plan, config))
    plan, found = again(state, plan)
    assert found.status == SOLVED
    root = told(state, plan)[0]
    assert root[0] < 1e-6 and root[1:].max() > 1e-3
    for _ in range(20):
        before, (plan, found) = plan, again(state, plan)
    velocity = plan.x[:, : model.topology.nv]
    assert np.abs(velocity).max() > 0.05
    assert np.abs(velocity - before.x[:, : model.topology.nv]).max() < 1e-6
    root, cone, part, load = told(state, plan)
    assert root.max() < 1e-6
    assert cone.max() < 1e-6
    assert part.max() < 1 + 1e-6
    assert load.min() > 50 and load.max() > 300


def test_what_a_window_cannot_take_is_told_before(model):
    points = hopper_effectors(model)
    with pytest.raises(ValueError, match="window is 0"):
        SynthesisConfig(window=0)
    with pytest.raises(ValueError, match="takes the form 'backward'"):
        SynthesisConfig(window=5, form="central")
    PerStepOptimisation.of(model, points, SynthesisConfig(window=5)).check(model)
    b = ModelBuilder()
    add_model(b, model)
    lift = slide("lift", (0, 0, 1), drive=Drive(amplitude=0.1, frequency=1.0))
    b.add_link("floor", "world", mass=1.0, inertia=(1, 1, 1), joints=[lift])
    on_lift = b.build()
    scheme = PerStepOptimisation.of(on_lift, points, SynthesisConfig(window=5))
    with pytest.raises(ModelError, match="window = 1"):
        scheme.check(on_lift)
    with pytest.raises(ModelError, match="takes one character"):
        SeveralCharacters.of_all(model, ("one",), SynthesisConfig(window=5))


@pytest.mark.slow
def test_a_push_that_is_announced_is_leant_against(model):
    """From the front for 0.1 s; one step falls by less. Not tuned on: the force of the docs."""
    state = crouched(model)
    wanted = repeated(wish(model, state), 40)

    def moved(force, window, announced):
        config = SynthesisConfig(torque_limits=True, window=window, announced=announced)
        shove = push(model, "trunk", (1.0, 0, 0), start=0.5, duration=0.1)
        shove = replace(shove, force=force * shove.force)
        _, after, info = runner(config)(model, jnp.asarray(0.03), state, wanted, shove)
        return after.q, info.root_residual, info.cone_excess, info.effort

    def upright(q):
        return (np.abs(q[:, 0]) < 0.1).all()

    alone = quick_jit(lambda f: moved(f, 1, False))
    ahead = quick_jit(lambda f: moved(f, 12, True))
    assert upright(alone(200.0)[0]) and not upright(alone(350.0)[0])
    q, root, cone, effort = ahead(350.0)
    assert upright(q)
    assert q[:16, 0].min() < -0.01  # against the push, before it begins
    assert root.max() < 1e-6 and cone.max() < 1e-6 and effort.max() < 1 + 1e-6
