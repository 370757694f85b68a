"""Gradients through time steps with contact: finite at the hard points, exact between switches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.pose.pd import PoseController
from jaxsim.model import (
    ModelBuilder,
    capsule,
    free,
    hinge,
    neutral_state,
    plane,
    slide,
    sphere,
)
from jaxsim.simulation.contact_scheme import observe
from jaxsim.simulation.records import no_control
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping, step
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64_module")

STEPS, DT = 8, 0.002
FOOT = 0.05  # radius [m]


def build_hopper():
    """A weight on a leg in the x-z plane; its knee has limits and an actuator."""
    b = ModelBuilder()
    root = [slide("x", (1, 0, 0)), slide("z", (0, 0, 1)), hinge("tilt", (0, -1, 0))]
    b.add_link("body", "world", mass=3.0, inertia=[0.03] * 3, joints=root)
    knee = hinge("knee", (0, -1, 0), limits=(-1, 0.5), kp=40, kd=2, max_torque=100)
    b.add_link("leg", "body", mass=1.0, com=(0, 0, -0.2), inertia=(0.02, 0.02, 0.01), joints=[knee])
    upright = (np.sqrt(0.5), 0, -np.sqrt(0.5), 0)  # the capsule's x axis along z
    b.add_shape("leg", capsule(FOOT, 0.2, pos=(0, 0, -0.2), quat=upright, name="leg"))
    b.add_shape("world", plane(name="ground", friction=0.8, restitution=0.3))
    return b.build()


def build_ball():
    """A ball in space, on a plane: a cone of friction with two tangents, a quaternion."""
    b = ModelBuilder()
    b.add_link("ball", "world", mass=2.0, inertia=(0.02, 0.03, 0.025), joints=[free("float")])
    b.add_shape("ball", sphere(0.2, name="ball"))
    b.add_shape("world", plane(name="ground"))
    return b.build()


TUNED = ("mass", "gain_p", "friction", "restitution", "shape_size", "joint_upper", "gravity")


@pytest.fixture(scope="module")
def hopper(x64_module):
    return build_hopper()


# How the impulses are differentiated: options of TimeStepping, agreement with differences.
WAYS = {"iteration": ({}, 1e-4), "implicit": (dict(derivative="implicit", sweeps=200), 1e-6)}


@pytest.fixture(scope="module", params=WAYS)
def way(request):
    return WAYS[request.param]


@pytest.fixture(scope="module")
def hop(hopper, way):
    """``hop(inputs, direction)``: a scalar of the last state, its gradient, its derivative.

    inputs: q, qd, the knee's target, the time step, and the numbers of the model in TUNED.
    """
    options, _ = way
    zero = neutral_state(hopper)

    def scalar(inputs):
        model = hopper.replace(**{name: inputs[name] for name in TUNED})
        state = zero.replace(q=inputs["q"], qd=inputs["qd"])
        config = TimeStepping(dt=inputs["dt"], **options)
        result = rollout(
            model, PoseController(inputs["target"]), state, config, STEPS, backend="xla"
        )  # the fused back end knows reverse mode only; see tests/simulation/test_backends.py
        return jnp.sum(jnp.sin(result.state.q)) + 0.1 * jnp.sum(result.state.qd)

    def one(inputs, direction):
        value, reverse = jax.value_and_grad(scalar)(inputs)
        return value, reverse, jax.jvp(scalar, (inputs,), (direction,))[1]

    return quick_jit(one)


def inputs_of(model, q, qd) -> dict:
    numbers = {name: getattr(model, name) for name in TUNED}
    target = jnp.array([0.0, 0, 0, 0.1])
    state = dict(q=jnp.asarray(q, float), qd=jnp.asarray(qd, float))
    return state | dict(target=target, dt=np.float64(DT)) | numbers


GROUND = 0.4 + FOOT  # height of the body when the straight leg touches [m]
SMOOTH = {
    "in flight": ([0, GROUND + 0.5, 0.1, 0.2], [0.5, 0.3, 0.4, -0.2]),
    "sliding": ([0, GROUND - 0.001, 0.05, 0.02], [1.5, -0.1, 0.1, 0.2]),
    "sticking": ([0, GROUND - 0.001, 0.01, 0.02], [0, 0, 0.01, 0.01]),
    "landing and bouncing": ([0, GROUND + 0.007, 0.02, 0.05], [0.2, -1.0, 0.3, -0.2]),
    "beyond a limit": ([0, GROUND + 0.5, 0, 0.51], [0, 0, 0.2, 0.3]),
    "torque limit": ([0, GROUND + 0.5, 0, -2.6], [0, 0, 0.2, 0.3]),
}
HARD = {
    "touchdown": ([0, GROUND, 0, 0], [0, -1, 0, 0]),
    "touching at rest": ([0, GROUND, 0, 0], [0, 0, 0, 0]),
    "sunk in at rest": ([0, GROUND - 0.002, 0, 0], [0, 0, 0, 0]),
    "at a limit": ([0, GROUND + 0.5, 0, 0.5], [0, 0, 0, 0]),
    "between its limits": ([0, GROUND + 0.5, 0, -0.25], [0, 0, 0, 0]),
    "lying flat": ([0, FOOT, np.pi / 2, 0], [0, 0, 0, 0]),
}


def random_like(tree, seed: int):
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda x: jnp.asarray(rng.normal(size=np.shape(x))), tree)


def inner(a, b) -> float:
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return sum(float(np.sum(np.asarray(x) * np.asarray(y))) for x, y in pairs)


def scaled(inputs, seed: int) -> dict:
    """A random direction in proportion to what it changes."""
    size = {"q": 1.0, "qd": 1.0, "dt": 1e-3, "target": 1.0, "shape_size": 0.05}
    size |= {"restitution": 0.3, "joint_upper": 1.0}
    direction = random_like(inputs, seed)
    return {
        name: direction[name] * size.get(name, np.abs(np.asarray(inputs[name])).max())
        for name in inputs
    }


def differences(function, inputs, direction, h: float = 1e-6) -> float:
    """The derivative of function(inputs, direction)[0] along a direction."""
    ends = [
        function(jax.tree.map(lambda x, d, s=s: x + s * h * d, inputs, direction), direction)[0]
        for s in (1, -1)
    ]
    return float(ends[0] - ends[1]) / (2 * h)


@pytest.mark.parametrize("case", SMOOTH)
def test_gradient_is_that_of_finite_differences(hopper, hop, way, case):
    inputs = inputs_of(hopper, *SMOOTH[case])
    for seed in (1, 2):
        direction = scaled(inputs, seed)
        value, reverse, forward = hop(inputs, direction)
        assert np.isfinite(value)
        np.testing.assert_allclose(inner(reverse, direction), forward, rtol=1e-8)
        np.testing.assert_allclose(differences(hop, inputs, direction), forward, rtol=way[1])


@pytest.mark.parametrize("case", HARD)
def test_gradient_is_finite_at_switches(hopper, hop, case):
    inputs = inputs_of(hopper, *HARD[case])
    direction = scaled(inputs, 3)
    value, reverse, forward = hop(inputs, direction)
    for name in inputs:
        assert np.isfinite(reverse[name]).all(), name
    assert np.isfinite(forward) and np.isfinite(value)
    np.testing.assert_allclose(inner(reverse, direction), forward, rtol=1e-8, atol=1e-10)


def test_each_number_has_an_effect_where_it_should(hopper, hop):
    """Friction matters when sliding, not in flight; the time step always."""
    gradients = {}
    for case in ("in flight", "sliding"):
        inputs = inputs_of(hopper, *SMOOTH[case])
        gradients[case] = hop(inputs, scaled(inputs, 4))[1]
    assert np.abs(gradients["sliding"]["friction"]).max() > 1e-4
    np.testing.assert_array_equal(gradients["in flight"]["friction"], 0)
    for case in gradients:
        assert np.abs(gradients[case]["dt"]) > 1e-3
        assert np.abs(gradients[case]["target"][3]) > 1e-6
        for name in ("target", "gain_p"):  # nothing drives the root
            np.testing.assert_array_equal(gradients[case][name][:3], 0)


# ---- in space --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def roll_ball(way):
    """``roll_ball((q, qd, friction), direction)`` of five steps: a scalar and its gradient."""
    model, (options, _) = build_ball(), way
    zero = neutral_state(model)

    def scalar(inputs):
        q, qd, friction = inputs
        at = model.replace(friction=jnp.full_like(model.friction, friction))
        config = TimeStepping(dt=DT, **options)

        def one(state, _):
            obs = observe(at, state, config)
            return step(at, state, obs, no_control(at), config)[0], None

        begun = config.init(at, zero.replace(q=q, qd=qd))
        state, _ = jax.lax.scan(one, begun, length=5)
        return jnp.sum(jnp.sin(3 * state.q)) + 0.1 * jnp.sum(state.qd)

    compiled = quick_jit(jax.value_and_grad(scalar))
    return lambda inputs, direction: compiled(inputs)


IN_SPACE = {
    "sliding": ([0, 0, 0.199, 1, 0, 0, 0], [1, 0.5, -0.05, 0.1, 0.2, 0.3], True),
    "in flight": ([0, 0, 1.0, 0.5, 0.5, 0.5, 0.5], [1, 0.5, -0.1, 2, 3, 1], True),
    "touching at rest": ([0, 0, 0.2, 1, 0, 0, 0], [0] * 6, False),
    "touchdown": ([0, 0, 0.2, 1, 0, 0, 0], [0, 0, -1, 0, 0, 0], False),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", IN_SPACE)
def test_ball_in_space(roll_ball, way, case):
    q, qd, smooth = IN_SPACE[case]
    inputs = (jnp.array(q, float), jnp.array(qd, float), np.float64(0.4))
    direction = random_like(inputs, 5)
    _, reverse = roll_ball(inputs, direction)
    for part in reverse:
        assert np.isfinite(part).all()
    if smooth:
        slope = inner(reverse, direction)
        np.testing.assert_allclose(differences(roll_ball, inputs, direction), slope, rtol=way[1])
