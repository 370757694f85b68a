"""Goals: the Jacobians that are given are those that automatic differentiation finds."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.goals import tasks as goals
from controllers.goals.controller import GoalController
from controllers.goals.everyday import look_at, wave
from controllers.goals.machine import GoalMachine, GoalState
from controllers.goals.paths import COM, adding_path, along, path_of
from controllers.goals.sitting import sit
from controllers.goals.step_to import step_to
from jaxsim.dynamics.kinematics import forward_kinematics, integrate
from jaxsim.dynamics.momentum import angular_momentum
from jaxsim.simulation.rollout import rollout
from jaxsim.synthesis.config import SynthesisConfig, units
from jaxsim.synthesis.configuration import configuration_at
from jaxsim.synthesis.observation import EffectorObservation
from jaxsim.synthesis.scheme import PerStepOptimisation
from tests.compiling import quick_jit
from tests.synthesis.hopper import JOINTS, crouched, hopper, hopper_effectors

pytestmark = pytest.mark.usefixtures("x64_module")

PLACE = (0.2, -0.1)  # [m]
POINT = (0.2, -0.1, 0.4)  # [m]
ANGLES = (0.1, -0.2, 0.3)  # [rad]


def spine(obs, _):
    z = obs.conf.kin.link_rot[obs.conf.link("trunk")][:, 2]
    sine = jnp.hypot(z[0], z[1])
    return jnp.arctan2(sine, z[2]) / sine * jnp.stack([z[1], -z[0]])  # z x up, as long as the angle


def angles(obs, _):
    top = obs.conf.model.topology
    return obs.conf.q[np.array([top.q_start[top.joint(j)] for j in JOINTS])] - np.array(ANGLES)


def looks(obs, _):
    """The rotation vector from where a place is seen to where the trunk's x axis points."""
    index = obs.conf.link("trunk")
    axis = obs.conf.kin.link_rot[index][:, 0]
    to = np.array(POINT) - obs.conf.kin.com[index]
    to = to / jnp.sqrt(to @ to)
    across = jnp.cross(to, axis)
    return jnp.arctan2(jnp.sqrt(across @ across), to @ axis) / jnp.sqrt(across @ across) * across


GOALS = {
    "com_over": (
        goals.com_over("com", lambda s, _: np.array(PLACE)),
        lambda s, _: s.conf.com[:2] - np.array(PLACE),
    ),
    "upright": (goals.upright("trunk"), spine),
    "reach": (
        goals.reach("reach", "handle", lambda s, _: np.array(POINT), 0.0, 1.0),
        lambda s, _: s.conf.position[s.conf.effectors.names.index("handle")] - np.array(POINT),
    ),
    "pose": (goals.pose("pose", JOINTS, lambda s, _: np.array(ANGLES)), angles),
    "look_at": (look_at(POINT, "trunk"), looks),
}


@pytest.fixture(scope="module")
def obs(x64_module):
    """Tilted and moving."""
    model = hopper()
    state = crouched(model, height=0.2)
    tilt = jnp.array([0.8, 0.3, -0.4, 0.33])
    q = state.q.at[3:7].set(tilt / jnp.linalg.norm(tilt))
    v = jnp.linspace(-1, 1, model.topology.nv)
    conf = configuration_at(model, hopper_effectors(model), q, v)
    none = jnp.zeros(conf.effectors.count)
    zero = jnp.array(0.0)
    forces = none[:, None] * jnp.ones(3)
    return EffectorObservation(
        conf, none > 0, forces, jnp.array(400.0), jnp.array(1.0), zero, units(conf.model)
    )


def test_the_jacobian_of_angular_momentum_is_its_change_with_the_velocities(obs):
    """By differences, which are exact but for rounding, and as a product; also of the rows."""
    model, conf = obs.conf.model, obs.conf

    @quick_jit
    def momentum(v):
        return angular_momentum(model, forward_kinematics(model, conf.q, v))

    target = np.array([0.1, -0.3, 0.2])
    error, J = goals.angular_momentum("spin", lambda *_: target).rows(obs, None)
    steps = jnp.eye(model.topology.nv)
    differences = [(momentum(conf.v + e) - momentum(conf.v - e)) / 2 for e in steps]
    np.testing.assert_allclose(J, np.stack(differences, axis=1), atol=1e-12)
    np.testing.assert_allclose(J @ conf.v, momentum(conf.v), atol=1e-12)
    np.testing.assert_allclose(error, -target)
    assert np.abs(J).max() > 1


def test_a_path_passes_its_points_at_their_times(obs):
    points = ((0.5, 0.0, 0.0, 1.0), (1.0, 0.2, 0.0, 1.0), (2.0, 0.2, 0.4, 0.8))
    for what, place, J in (
        ("handle", obs.place(obs.group("handle")), obs.conf.jacobian[4]),
        ("foot", obs.conf.position[:4].mean(axis=0), obs.conf.jacobian[:4].mean(axis=0)),
        (COM, obs.conf.com, obs.conf.com_jacobian),
    ):
        path = path_of(what, points, end=2.5)
        goal = along("walk", path)
        for time, target in (
            *((t, point) for t, *point in points),
            (0.75, (0.1, 0.0, 1.0)),
            (2.4, points[-1][1:]),
        ):
            error, rows = goal.rows(dataclasses.replace(obs, time=jnp.asarray(time)), None)
            np.testing.assert_allclose(error, place - np.array(target), atol=1e-12)
            np.testing.assert_allclose(rows, J, atol=1e-12)
        for time in (0.49, 2.51):
            error, rows = goal.rows(dataclasses.replace(obs, time=jnp.asarray(time)), None)
            assert not np.any(error) and not np.any(rows)
    moving = GoalState({"damping": 1.0}, lambda obs, _: obs.time >= 0)
    machine = GoalMachine((goals.damping(),), {"only": moving}, {})
    machine = adding_path(machine, path_of("foot", points), "walk", 2.0)
    for time, lifts in ((0.4, 0), (0.6, 4), (2.1, 0)):
        now = dataclasses.replace(obs, time=jnp.asarray(time))
        assert machine.states["only"].lifts(now, ()).sum() == lifts
    with pytest.raises(KeyError, match=r"no group 'tail'; the groups are: foot, handle"):
        along("walk", path_of("tail", points)).rows(obs, None)


def test_a_hopper_follows_a_path(x64_module):
    """A centre of mass on straight lines of 4 mm, by per-step optimisation, a step behind."""
    model = hopper()
    state = crouched(model)
    scheme = PerStepOptimisation.of(model, hopper_effectors(model), SynthesisConfig(passes=1))
    start = configuration_at(model, scheme.effectors, state.q, state.qd).com
    points = np.array([[0, 0, 0], [0, 0, 0.004], [0.004, 0, 0.004]]) + np.asarray(start)
    path = path_of(COM, [(0.05 * k, *point) for k, point in enumerate(points)])
    weak = GoalState({"damping": 1e-3}, lambda obs, _: obs.time >= 0)
    machine = GoalMachine((goals.damping(),), {"only": weak}, {})
    controller = GoalController.of(adding_path(machine, path, "climb", 1e5), model)

    @quick_jit
    def follow(state):
        def record(sample):
            return sample.state.time, sample.obs.com

        given = model, controller, state, scheme, 11
        return rollout(*given, record=record, backend="xla").record

    time, com = follow(state)
    behind = [path.at(max(t - 0.01, 0.0)) for t in time]
    np.testing.assert_allclose(com, np.stack(behind), atol=5e-4)


@pytest.mark.parametrize(
    ("points", "end", "message"),
    [
        ([[0.0, 1, 1, 1]], None, "two points or more"),
        ([[0.0, 1, 1], [1.0, 1, 1]], None, r"\[time, x, y, z\] each"),
        ("far", None, r"\[time, x, y, z\] each"),
        ([[0.0, 1, 1, 1], [1.0, 1, 1, np.nan]], None, "two points or more"),
        ([[1.0, 1, 1, 1], [1.0, 0, 1, 1]], None, "times of a path increase"),
        ([[0.0, 1, 1, 1], [1.0, 0, 1, 1]], 0.5, "end is 0.5 s, before the last point at 1 s"),
    ],
)
def test_a_wrong_path_is_named(points, end, message):
    with pytest.raises(ValueError, match=message):
        path_of("foot", points, end)


def leaning(obs, degrees, towards=0.7):
    """The same body, its trunk turned from the vertical by an angle."""
    half = jnp.deg2rad(degrees) / 2
    axis = jnp.array([-jnp.sin(towards), jnp.cos(towards), 0.0])
    turned = jnp.concatenate([jnp.cos(half)[None], jnp.sin(half) * axis])
    conf = obs.conf
    q = conf.q.at[3:7].set(turned)
    return obs.with_conf(configuration_at(conf.model, conf.effectors, q, conf.v))


@pytest.mark.slow
@pytest.mark.parametrize("name", GOALS)
def test_given_jacobians_are_the_automatic_ones(obs, name):
    given, residual = GOALS[name]
    automatic = goals.residual_goal(name, given.unit, residual)
    (error, J), (own_error, own_J) = (
        quick_jit(lambda s, goal=goal: goal.rows(s, None))(obs) for goal in (given, automatic)
    )
    assert np.abs(J).max() > 0.1
    np.testing.assert_allclose(error, own_error, rtol=0, atol=1e-12)
    np.testing.assert_allclose(J, own_J, rtol=0, atol=1e-12)


def test_a_reach_asks_for_nothing_at_other_times(obs):
    goal, _ = GOALS["reach"]
    for time, asked in ((0.0, True), (0.999, True), (1.0, False), (-0.001, False)):
        error, J = goal.rows(dataclasses.replace(obs, time=jnp.asarray(time)), None)
        assert np.any(error) == np.any(J) == asked
    with pytest.raises(KeyError, match=r"no effector 'hand'; there are .*handle"):
        goals.reach("reach", "hand", lambda s, _: np.array(POINT)).rows(obs, None)


def test_a_reach_comes_to_its_weight_by_and_by(obs):
    """Its rows grow smoothly from nothing to what they are at once without an onset."""
    there = lambda s, _: np.array(POINT)  # noqa: E731
    at_once, slowly = (goals.reach("reach", "handle", there, 0.1, 1.0, on) for on in (0.0, 0.4))
    part = []
    for time in (0.1, 0.2, 0.3, 0.4, 0.5, 0.9):
        now = dataclasses.replace(obs, time=jnp.asarray(time))
        full, rows = at_once.rows(now, None), slowly.rows(now, None)
        part.append(np.linalg.norm(rows[1]) / np.linalg.norm(full[1]))
        for a, b in zip(full, rows):
            np.testing.assert_allclose(b, part[-1] * np.asarray(a), atol=1e-12)
    np.testing.assert_allclose(part, [0, 5 / 32, 0.5, 27 / 32, 1, 1], atol=1e-12)


def test_velocity_goals_name_the_velocity_that_they_measure(obs):
    """J v is the rate at which the centre of mass moves; the error is minus the target."""
    conf, target = obs.conf, jnp.array([0.3, 0.0, 0.1])
    error, J = goals.com_velocity("com", lambda s, _: target).rows(obs, None)

    def com(dt):
        q = integrate(conf.model, conf.q, conf.v, dt)
        return configuration_at(conf.model, conf.effectors, q, conf.v).com

    rate = quick_jit(jax.jacfwd(com))(jnp.zeros(()))
    np.testing.assert_allclose(J @ conf.v, rate, atol=1e-12)
    np.testing.assert_array_equal(error, -target)


@quick_jit
def upright_and_slopes(obs):
    """error (2,), J (2, nv), and the error's central differences (2, nv)."""
    goal, conf, step = goals.upright("trunk"), obs.conf, 1e-5

    def error(direction, by):
        q = integrate(conf.model, conf.q, direction, by)
        there = obs.with_conf(configuration_at(conf.model, conf.effectors, q, conf.v))
        return goal.rows(there, None)[0]

    def slope(direction):
        return (error(direction, step) - error(direction, -step)) / (2 * step)

    return *goal.rows(obs, None), jax.vmap(slope, out_axes=1)(jnp.eye(conf.v.shape[0]))


@pytest.mark.parametrize("degrees", [0.0, 1.0, 1.8, 1.9, 45.0, 90.0, 150.0, 170.0])
def test_the_tilt_is_as_long_as_its_angle_and_its_jacobian_is_its_slope(obs, degrees):
    """In any case of the formula: by its series, by the arc, and far down."""
    error, J, slopes = upright_and_slopes(leaning(obs, degrees))
    back_up = np.array([np.sin(0.7), -np.cos(0.7)])
    np.testing.assert_allclose(error, np.deg2rad(degrees) * back_up, atol=1e-9)
    np.testing.assert_allclose(J, slopes, atol=1e-7)


@quick_jit
def tilt_and_slopes(spine):
    """Its value, its slope forward and in reverse, and the slope's slope, which a tuner needs."""
    forward = jax.jacfwd(goals.tilt)
    return (
        goals.tilt(spine),
        forward(spine),
        jax.jacrev(goals.tilt)(spine),
        jax.jacrev(forward)(spine),
    )


def test_the_tilt_is_finite_where_there_is_no_angle_and_where_no_way_is_the_shorter():
    for dtype in (jnp.float32, jnp.float64):
        for z in (1.0, -1.0):
            error, slope, reverse, curvature = tilt_and_slopes(jnp.array([0.0, 0.0, z], dtype))
            np.testing.assert_array_equal(error, 0.0)
            np.testing.assert_allclose(slope, reverse, rtol=1e-6)
            assert np.isfinite(slope).all() and np.isfinite(curvature).all()
    almost = jnp.array([np.sin(0.02), 0.0, -np.cos(0.02)])  # upside down
    error, slope, *_ = tilt_and_slopes(almost)
    assert np.abs(error).max() < np.pi
    assert np.abs(slope).max() < 40


def test_a_gaze_has_its_angle_as_error_and_is_finite_everywhere(obs):
    """From straight ahead to straight behind."""
    index = obs.conf.link("trunk")
    rot, eye = np.asarray(obs.conf.kin.link_rot[index]), np.asarray(obs.conf.kin.com[index])

    @quick_jit
    def seen(place):
        return look_at(lambda *_: place, "trunk").rows(obs, None)

    for degrees in (0.0, 1.0, 1.9, 45.0, 90.0, 150.0, 180.0):
        angle = np.deg2rad(degrees)
        place = eye + 3 * rot @ np.array([np.cos(angle), np.sin(angle), 0.0])
        error, J = map(np.asarray, seen(place))
        assert np.isfinite(error).all() and np.isfinite(J).all()
        if degrees < 180:
            np.testing.assert_allclose(error, -angle * rot[:, 2], atol=1e-9)


def test_mistakes_of_everyday_goals_are_told():
    with pytest.raises(ValueError, match="hand is 'leftFoot'; choose from leftHand, rightHand"):
        wave("leftFoot")
    with pytest.raises(ValueError, match="frequency is 0"):
        wave(frequency=0)
    for place in ((1.0, 2.0), (1.0, np.nan, 0.0)):
        with pytest.raises(ValueError, match="three finite numbers"):
            look_at(place)
    for place in ((1.0, 2.0, 0.0), (np.inf, 0.0)):
        with pytest.raises(ValueError, match="two finite numbers on the ground"):
            step_to("leftFoot", place)
    with pytest.raises(ValueError, match="foot is 'left'; choose from leftFoot, rightFoot"):
        step_to("left", (0.2, 0.1))
    with pytest.raises(ValueError, match="three finite numbers"):
        sit((0.2, 0.1))
