"""Whole rollouts as one kernel: as under XLA, the same bits everywhere, and differentiable."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.pose.pd import PoseController
from controllers.scl.load import load_script, script_controller
from jaxsim.fused import fuse
from jaxsim.model import neutral_state
from jaxsim.simulation.measures import largest, total
from jaxsim.simulation.rollout import failed_members, rollout
from jaxsim.simulation.step import TimeStepping
from optimize.scenarios.find import scenario
from tests.compiling import quick_jit, quick_map
from tests.gradients.test_step_gradients import build_hopper

STEPS, BATCH = 100, 21  # members that do not fill the last vector
MEASURES = {
    "effort": total(lambda sample: jnp.sum(sample.control.torque**2)),
    "head": largest(lambda sample: sample.obs.kin.com[0, 2]),
}


def make_human(lift=0.0):
    """``run(values, qd, backend)`` of a kip-up, and a batch of arguments.

    lift: how high it begins above the ground [m]; in the air the motion is smooth.
    """
    scene = scenario("kip_up")
    begin = scene.state.replace(q=scene.state.q.at[1].add(lift))
    controller = script_controller(load_script("kip_up", scene.model), scene.model)

    def run(values, qd, backend):
        state, config = begin.replace(qd=qd), TimeStepping(dt=0.00025)
        at_work = controller.replace(values=values)
        return rollout(scene.model, at_work, state, config, STEPS, MEASURES, backend=backend)

    rng = np.random.default_rng(0)
    values = np.asarray(controller.values) * (1 + 0.01 * rng.normal(size=(BATCH, 1)))
    qd = 0.1 * rng.normal(size=(BATCH, scene.model.topology.nv))
    dtype = scene.model.mass.dtype
    return run, jnp.asarray(values, dtype), jnp.asarray(qd, dtype)


def agree(ours, reference, tolerance: float):
    """Each array within a part of its largest number."""
    for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(reference), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        if x.dtype.kind == "f":
            assert np.abs(x - y).max() <= tolerance * max(np.abs(y).max(), 1e-3)
        else:
            np.testing.assert_array_equal(x, y)


# In 100 steps of contact a rounding grows ten thousandfold, and each XLA rounds in its own way.
@pytest.mark.parametrize("bits, lift, tolerance", [(32, 1.0, 1e-5), (64, 0.0, 1e-11)])
def test_the_planar_human_moves_as_under_xla(bits, lift, tolerance):
    with jax.enable_x64(bits == 64):
        run, values, qd = make_human(lift)
        reference = quick_map(lambda v, w: run(v, w, "xla"))(values[:4], qd[:4])
        ours = jax.jit(jax.vmap(lambda v, w: run(v, w, "fused")))(values[:4], qd[:4])
        assert ours.state.q.dtype == np.dtype(f"float{bits}")
        assert not failed_members(ours)
        assert float(jnp.max(jnp.abs(ours.state.qd))) > 0.1
        # Impulses are sums of many that nearly cancel; they are compared with the weight's.
        agree(ours.state.q, reference.state.q, tolerance)
        agree(ours.state.qd, reference.state.qd, tolerance)
        agree(ours.measures, reference.measures, tolerance)
        agree(ours.memory, reference.memory, tolerance)
        agree(ours.state.solver.impulse, reference.state.solver.impulse, 100 * tolerance)


@pytest.fixture(scope="module")
def human():
    run, values, qd = make_human()
    return fuse(lambda v, w: run(v, w, "xla")), values, qd


def same_bits(x, y):
    for a, b in zip(jax.tree.leaves(x), jax.tree.leaves(y), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_bits_do_not_depend_on_the_batch_the_run_or_the_threads(human):
    import drjit

    fused, values, qd = human
    whole = jax.tree.map(np.asarray, fused(values, qd))
    same_bits(fused(values, qd), whole)
    for member in (0, 17, 20):
        only = slice(member, member + 1)
        alone = fused(values[only], qd[only])
        same_bits(alone, jax.tree.map(lambda x, only=only: x[only], whole))
    threads = drjit.thread_count()
    try:
        drjit.set_thread_count(1)
        same_bits(fused(values, qd), whole)
    finally:
        drjit.set_thread_count(threads)


def test_a_member_that_breaks_down_is_told_and_leaves_the_others_alone(human):
    fused, values, qd = human
    whole = jax.tree.map(np.asarray, fused(values, qd))
    broken = fused(values, qd.at[5, 3].set(jnp.nan))
    assert failed_members(broken) == [5]
    keep = np.arange(BATCH) != 5
    same_bits(jax.tree.map(lambda x: x[keep], broken), jax.tree.map(lambda x: x[keep], whole))


@pytest.fixture(scope="module")
def hop(x64_module):
    """``hop(backend)``: a number of a landing, of target, velocity, masses and friction."""
    hopper = build_hopper()
    hopper = hopper.replace(friction=jnp.full_like(hopper.friction, 0.1))  # so that it slides
    zero = neutral_state(hopper)
    start = zero.replace(q=jnp.array([0.0, 0.46, 0.1, 0.2]))

    def scalar(backend, target, qd, mass, friction, **options):
        model = hopper.replace(mass=mass, friction=friction)
        state, config = start.replace(qd=qd), TimeStepping(dt=0.002, **options)
        effort = {"effort": MEASURES["effort"]}
        result = rollout(
            model, PoseController(target), state, config, STEPS, effort, backend=backend
        )
        end = jnp.sum(jnp.sin(result.state.q)) + 0.1 * jnp.sum(result.state.qd)
        return end + 1e-3 * result.measures["effort"]

    rng = np.random.default_rng(1)
    target = jnp.asarray(np.tile(start.q, (3, 1)) + 0.1 * rng.normal(size=(3, 4)))
    qd = jnp.asarray(0.3 * rng.normal(size=(3, 4)) + np.array([1.5, -1.0, 0, 0]))
    return scalar, (target, qd, hopper.mass, hopper.friction)


def gradient(scalar, backend, arguments, **options):
    def mean(target, qd, mass, friction):
        def one(target, qd):
            return scalar(backend, target, qd, mass, friction, **options)

        if backend == "xla":  # one after the other, which compiles sooner
            return jnp.mean(jax.lax.map(lambda member: one(*member), (target, qd)))
        return jnp.mean(jax.vmap(one)(target, qd))

    return jax.value_and_grad(mean, argnums=(0, 1, 2, 3))(*arguments)


IMPLICIT = dict(derivative="implicit", smoothing=1e-4, sweeps=50)


@pytest.mark.usefixtures("x64_module")
def test_the_gradient_through_a_landing_is_that_of_differences(hop):
    scalar, arguments = hop
    h, rng = 1e-6, np.random.default_rng(3)
    _, ours = gradient(scalar, "fused", arguments)

    @jax.jit
    def mean(target, qd, mass, friction):
        return jnp.mean(jax.vmap(lambda t, v: scalar("fused", t, v, mass, friction))(target, qd))

    for k, argument in enumerate(arguments):
        way = rng.normal(size=argument.shape)
        there, back = (
            mean(*arguments[:k], argument + sign * h * way, *arguments[k + 1 :]) for sign in (1, -1)
        )
        slope = float(jnp.sum(ours[k] * way))
        assert abs(slope) > 1e-3, "a gradient that is nothing proves nothing"
        np.testing.assert_allclose((there - back) / (2 * h), slope, rtol=1e-5)


@pytest.mark.slow  # two gradients of a rollout are traced
@pytest.mark.usefixtures("x64_module")
@pytest.mark.parametrize(
    ("options", "tolerance"), [({}, 1e-9), (IMPLICIT, 1e-8)], ids=["iteration", "implicit"]
)
def test_the_gradient_through_a_landing_is_that_of_xla(hop, options, tolerance):
    scalar, arguments = hop
    value, ours = gradient(scalar, "fused", arguments, **options)
    expected, reference = quick_jit(lambda *a: gradient(scalar, "xla", a, **options))(*arguments)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for x, y in zip(ours, reference, strict=True):
        scale = float(jnp.abs(y).max())
        assert scale > 1e-3, "a gradient that is nothing proves nothing"
        np.testing.assert_allclose(x, y, rtol=0, atol=tolerance * scale)


@pytest.mark.slow  # tests/fused/test_gradient.py::test_forward_mode_is_refused is by default
@pytest.mark.usefixtures("x64_module")
def test_forward_mode_is_refused_with_the_remedy_at_hand(hop):
    scalar, arguments = hop
    target = arguments[0][0]
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(lambda t: scalar("fused", t, arguments[1][0], *arguments[2:]), (target,), (target,))


@pytest.mark.slow
@pytest.mark.usefixtures("x64_module")
def test_the_gradient_of_the_planar_human_is_that_of_xla():
    run, values, qd = make_human()

    def scalar(values, qd, backend):
        result = jax.vmap(lambda v, w: run(v, w, backend))(values, qd)
        return jnp.sum(result.state.q) + 1e-6 * jnp.sum(result.measures["effort"])

    ours = jax.grad(scalar, (0, 1))(values[:2], qd[:2], "fused")
    reference = jax.jit(jax.grad(scalar, (0, 1)), static_argnums=2)(values[:2], qd[:2], "xla")
    agree(ours, reference, 1e-9)


def test_xla_gives_batches_of_any_size_the_same_to_rounding():
    """Not the same bits, as the fused back end does; the same batch twice has the same bits."""
    with jax.enable_x64(True):
        model = build_hopper()
        zero = neutral_state(model)
        heights = 0.3 + 0.3 * np.random.default_rng(0).uniform(size=64)

        def end(height):
            state = zero.replace(q=zero.q.at[1].add(height))
            pose = PoseController(zero.q)
            return rollout(model, pose, state, TimeStepping(dt=0.002), 25, backend="xla").state

        run = quick_jit(jax.vmap(end))
        whole = run(heights)
        again = run(heights)
        for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(again), strict=True):
            np.testing.assert_array_equal(a, b)
        part = run(heights[:7])
        np.testing.assert_allclose(part.q, whole.q[:7], rtol=0, atol=1e-12)
        np.testing.assert_allclose(part.qd, whole.qd[:7], rtol=0, atol=1e-10)
