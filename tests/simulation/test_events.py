"""The step that finds the instants of impacts, against mechanics in closed form; float64, 3-D."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.model import ModelBuilder, box, free, hinge, plane, sphere
from jaxsim.model.state import neutral_state
from jaxsim.simulation.events import EventDriven, event_step
from jaxsim.simulation.records import Control, no_control
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping
from jaxsim.solvers.status import Status
from tests.compiling import quick_jit
from tests.laws.bodies import G, surface

pytestmark = pytest.mark.usefixtures("x64_module")

RADIUS, HALF = 0.1, 0.1
TALL = RADIUS + 0.5
STEPS = 300


@pytest.fixture(scope="module")
def ball(x64_module):
    b = ModelBuilder()
    inertia = [0.4 * 2.0 * RADIUS**2] * 3
    b.add_link("ball", "world", mass=2.0, inertia=inertia, joints=[free("root")])
    b.add_shape("ball", sphere(RADIUS, name="ball"))
    b.add_shape("world", plane(name="ground"))
    return b.build()


@pytest.fixture(scope="module")
def crate(x64_module):
    b = ModelBuilder()
    inertia = [2.0 / 3 * 2 * HALF**2] * 3
    b.add_link("crate", "world", mass=2.0, inertia=inertia, joints=[free("root")])
    b.add_shape("crate", box([HALF] * 3, name="crate"))
    b.add_shape("world", plane(name="ground"))
    return b.build()


@partial(quick_jit, static_argnums=3)
def run(model, state, config, steps):
    """States and infos after every interval; one number of steps saves compiling."""

    def one(state, _):
        state, info = event_step(model, state, None, no_control(model), config)
        return state, (state, info)

    return jax.lax.scan(one, state, length=steps)[1]


def moving(model, q, qd):
    state = neutral_state(model)
    state = state.replace(q=jnp.asarray(q, float), qd=jnp.asarray(qd, float))
    return EventDriven().init(model, state)


def begin(model, height, velocity=(0, 0, 0), spin=(0, 0, 0)):
    q = np.array([0, 0, height, 1, 0, 0, 0.0])
    return moving(model, q, np.array([*velocity, *spin], float))


def test_a_ball_bounces_to_e_squared_of_its_height(ball):
    """The error is that of the integrator in flight, of first order in the interval."""
    model, e = surface(ball, restitution=0.8), 0.8
    missing = []
    for per_second in (120, 240, 480):
        states, info = run(model, begin(model, TALL), EventDriven(dt=1 / per_second), STEPS)
        assert (info.status == Status.OK).all()
        height = states.q[:, 2] - RADIUS
        again = states.time > np.sqrt(2 * 0.5 / G) + 0.01
        missing.append(1 - height[again].max() / (e**2 * 0.5))
        assert info.impacts.sum() >= 1
        assert info.penetration.max() < 1.01e-3  # the depth that halving allows
        assert info.tries.max() > 2
    assert 0 < missing[2] < 0.02
    np.testing.assert_allclose(np.divide(missing[:2], missing[1:]), 2, rtol=0.2)


def test_a_sliding_block_stops_where_coulomb_says(crate):
    model, mu = surface(crate, friction=0.4), 0.4
    config = EventDriven(dt=1 / 240, iterations=5000, tolerance=1e-10)
    states, info = run(model, begin(model, HALF, (2.0, 1.5, 0)), config, STEPS)
    assert (info.status == Status.OK).all()
    distance = 2.5**2 / (2 * mu * G)
    np.testing.assert_allclose(np.hypot(*states.q[-1, :2]), distance, rtol=0.01)
    np.testing.assert_allclose(states.q[-1, 1] / states.q[-1, 0], 0.75, rtol=1e-6)
    np.testing.assert_allclose(states.qd[-1], 0, atol=1e-6)
    # at rest the ground carries it
    np.testing.assert_allclose(info.contact_force[-1].sum(axis=0), [0, 0, 2 * G], atol=1e-4)


@pytest.mark.parametrize(("tangent", "holds"), [(0.36, True), (0.44, False)])
def test_a_block_on_a_slope_holds_up_to_the_angle_of_friction(crate, tangent, holds):
    model = surface(crate, friction=0.4, tilt=np.arctan(tangent))
    states, _ = run(model, begin(model, HALF), EventDriven(dt=1 / 240), STEPS)
    pull = G * (np.sin(np.arctan(tangent)) - 0.4 * np.cos(np.arctan(tangent)))
    if holds:
        assert np.abs(states.q[-1, 0]) < 1e-3
    else:
        np.testing.assert_allclose(states.q[-1, 0], 0.5 * pull * states.time[-1] ** 2, rtol=0.01)


@pytest.mark.parametrize("per_second", [240, 60])
def test_a_slide_just_beyond_the_angle_of_friction_is_as_slow_as_it_must(crate, per_second):
    """Friction does not turn aside while the slip is slower than what it changes in a step."""
    slope = np.arctan(1.005 * 0.4)
    model = surface(crate, friction=0.4, tilt=slope)
    states, _ = run(model, begin(model, HALF), EventDriven(dt=1 / per_second), STEPS)
    pull = G * (np.sin(slope) - 0.4 * np.cos(slope))
    time, slid = states.time[-1], states.q[-1, 0]
    np.testing.assert_allclose(slid, 0.5 * pull * time**2, rtol=0.01)
    np.testing.assert_allclose(states.q[-1, 1], 0, atol=0.01 * slid)
    np.testing.assert_allclose(states.q[-1, 3], 1, atol=1e-4)  # nor does the crate


def test_a_sliding_ball_rolls_on_with_five_sevenths_of_its_speed(ball):
    model = surface(ball, friction=0.3)
    states, info = run(model, begin(model, RADIUS, (2.0, 0, 0)), EventDriven(dt=1 / 240), STEPS)
    assert (info.status == Status.OK).all()
    np.testing.assert_allclose(states.qd[-1, 0], 10 / 7, rtol=2e-3)
    np.testing.assert_allclose(states.qd[-1, 4], 10 / 7 / RADIUS, rtol=2e-3)
    np.testing.assert_allclose(states.q[-1, 2], RADIUS, atol=2e-4)  # it neither sinks nor lifts


def test_a_pendulum_stays_within_its_limit():
    b = ModelBuilder()
    swing = hinge("swing", (0, 1, 0), limits=(-0.5, 0.5))
    b.add_link("rod", "world", mass=1.0, com=(0, 0, -0.5), inertia=(0.1, 0.1, 0.01), joints=[swing])
    model = b.build()
    states, info = run(model, moving(model, [0.0], [4.0]), EventDriven(dt=1 / 60), 100)
    assert np.abs(states.q).max() < 0.5 + 2e-3
    assert info.impacts.sum() >= 1 and (info.status == Status.OK).all()


def test_it_agrees_with_the_fixed_step_on_a_tumbling_crate(crate):
    """Both resolve the same landing on an edge; what remains are their errors of first order."""
    model = surface(crate, friction=0.5)
    turned = np.array([np.cos(0.3), 0, np.sin(0.3), 0])
    q = np.array([0, 0, 0.3, *turned])
    qd = np.array([0.5, 0, 0, 0, 1.0, 0])
    states, info = run(model, moving(model, q, qd), EventDriven(dt=1e-3), 400)

    @jax.tree_util.register_static
    class Limp:
        def init(self, model, state, obs):
            return ()

        def update(self, memory, model, state, obs, dt):
            return memory, no_control(model)

    state = neutral_state(model)
    state = state.replace(q=jnp.asarray(q), qd=jnp.asarray(qd))
    config = TimeStepping(dt=1e-3, sweeps=50)
    fixed = quick_jit(
        lambda s: rollout(model, Limp(), s, config, 400, backend="xla", record=lambda x: x.state.q)
    )(state)
    assert (info.status == Status.OK).mean() > 0.99
    airborne = 170  # it lands at 0.179 s
    np.testing.assert_allclose(states.q[:airborne], fixed.record[1 : airborne + 1], atol=1e-10)
    np.testing.assert_allclose(states.q[-1, 2], fixed.state.q[2], atol=0.02)
    assert abs(states.q[-1, 0] - fixed.state.q[0]) < 0.05


def test_bounds_are_told_and_members_stay_apart(ball):
    model = surface(ball, restitution=0.5)
    config = EventDriven(dt=1 / 30, parts=3)
    starts = [begin(model, TALL), begin(model, RADIUS + 1e-3, (0, 0, -5.0)), begin(model, 0.3)]
    batch = jax.tree.map(lambda *x: jnp.stack(x), *starts)
    batch = batch.replace(q=batch.q.at[2, 2].set(jnp.nan))

    @quick_jit
    @jax.vmap
    def one(state):
        return event_step(model, state, None, no_control(model), config)

    states, info = one(batch)
    assert info.status.tolist() == [Status.OK, Status.INTERVAL, Status.NOT_FINITE]
    assert info.left[1] > 0 and info.tries[1] == 3
    np.testing.assert_allclose(states.qd[0], [0, 0, -G / 30, 0, 0, 0], atol=1e-12)


@pytest.fixture(scope="module")
def wheel(x64_module):
    b = ModelBuilder((0, 0, 0))
    b.add_link("wheel", "world", mass=1.0, inertia=(1, 0.5, 1), joints=[hinge("axle", (0, 1, 0))])
    return b.build()


def test_a_torque_loses_what_its_damping_takes_within_the_interval(wheel):
    """One revolute body, torque 3 - 2 (w - w0): implicit Euler of the exponential."""
    control = Control(jnp.array([3.0]), jnp.array([2.0]))
    start = moving(wheel, [0.0], [1.0])
    state, info = event_step(wheel, start, None, control, EventDriven(dt=1e-3))
    np.testing.assert_allclose(state.qd, [1 + 1e-3 * 3 / (0.5 + 1e-3 * 2)], rtol=1e-12)
    assert info.tries == 1


def test_damping_that_an_explicit_step_would_not_survive(wheel):
    """Its interval times damping over inertia is 20, where explicit Euler leaves -19 of a speed."""
    stiff = wheel.replace(damping=jnp.array([600.0]))
    states, info = run(stiff, moving(stiff, [0.0], [4.0]), EventDriven(dt=1 / 60), 5)
    np.testing.assert_allclose(states.qd[:, 0], 4.0 / 21.0 ** np.arange(1, 6), rtol=1e-9)
    np.testing.assert_array_equal(info.tries, 1)


def test_what_rests_is_not_hit(crate):
    """The solver's tolerance is no approach that an impact must stop."""
    model = surface(crate, friction=0.5)
    _, info = run(model, begin(model, HALF), EventDriven(dt=1 / 240), STEPS)
    assert info.impacts.sum() <= 1  # the first interval may close a gap
    np.testing.assert_array_equal(info.tries, 1)


@pytest.mark.parametrize("slip", [0.02, -0.02])
def test_friction_stops_what_an_impact_would_slide_back(slip):
    """A rod falls on its end at 45 degrees, where the normal's blow alone pushes the end aside: it
    sticks, whichever way it slid before, for mu is above the 0.6 that this takes."""
    b, half, small = ModelBuilder(), 0.5, 0.01
    b.add_link("rod", "world", mass=1.0, inertia=[half**2 / 3] * 3, joints=[free("root")])
    b.add_shape("rod", sphere(small, pos=(0, 0, -half), name="end"))
    b.add_shape("world", plane(name="ground"))
    model = surface(b.build(), friction=0.9)
    turn, down = np.pi / 4, half * np.sqrt(0.5)
    q = np.array([0, 0, down + small + 5e-4, np.cos(turn / 2), 0, np.sin(turn / 2), 0])
    start = moving(model, q, np.array([slip, 0, -1, 0, 0, 0]))
    state, info = event_step(model, start, None, no_control(model), EventDriven(dt=1e-3))
    assert info.impacts >= 1
    end = state.qd[:3] + np.cross(state.qd[3:], [-down, 0, -down - small])
    np.testing.assert_allclose(end, 0, atol=2e-3)


def test_settings_that_cannot_be_are_told():
    with pytest.raises(ValueError, match="parts is 0; give a whole number from 1"):
        EventDriven(parts=0)
