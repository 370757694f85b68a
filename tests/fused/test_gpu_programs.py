"""Programs lowered for CUDA on a machine that may have none: nothing in them is for the host."""

import re
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from controllers.pose.pd import PoseController
from jaxsim.fused import fuse
from jaxsim.model import neutral_state
from jaxsim.simulation.contact_scheme import observe
from jaxsim.simulation.events import EventDriven
from jaxsim.simulation.measures import largest
from jaxsim.simulation.records import no_control
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping, step
from jaxsim.simulation.step_options import DERIVATIVES
from jaxsim.solvers import lcp, qp
from jaxsim.solvers.qp_levels import solve_levels
from jaxsim.synthesis.config import SynthesisConfig
from tests.gradients.test_step_gradients import build_hopper
from tests.synthesis import hopper

FUSED = "jaxsim_fused_cuda"
OF_THE_GPU = re.compile(r"cu(solver|blas|dnn|_)\w+|Sharding|(annotate|xla)\.\w+")

BODY = build_hopper()
STATE = TimeStepping().init(BODY, neutral_state(BODY))
CONTROL = no_control(BODY)


def stepped(state):
    config = TimeStepping(dt=0.001)
    return step(BODY, state, observe(BODY, state, config), CONTROL, config)[0]


def rolled(state, config=None, backend="xla"):
    measures = {"height": largest(lambda sample: sample.obs.kin.com[0, 2])}
    controller, config = PoseController(STATE.q), config or TimeStepping(dt=0.001)
    return rollout(BODY, controller, state, config, 3, measures, backend=backend)


def rolled_by_events(state):
    return rolled(state, EventDriven(dt=0.001))


def gradient_of_rollout(derivative: str) -> Callable:
    def number(q):
        config = TimeStepping(dt=0.001, derivative=derivative)
        return jnp.sum(rolled(STATE.replace(q=q), config).state.q ** 2)

    return lambda state: jax.grad(number)(state.q)


def _problem(x) -> qp.QuadraticProgram:
    """Of four unknowns, two of them in bounds."""
    return qp.QuadraticProgram(
        J=jnp.eye(4) + 0.1 * x * jnp.ones((4, 4)),
        r=x * jnp.arange(4.0),
        A=jnp.ones((1, 4)),
        b=jnp.ones(1),
        G=jnp.eye(4)[:2],
        h=jnp.ones(2),
        lower=-jnp.ones(2),
        upper=jnp.ones(2),
    )


def solved(x):
    return qp.solve(_problem(x))


def gradient_of_qp(x):
    return jax.grad(lambda x: jnp.sum(qp.solve(_problem(x)).x))(x)


def solved_by_levels(x):
    p = _problem(x)
    levels = ((p.J, p.r), (p.G, p.h))
    return solve_levels(levels, p.A, p.b, p.G, p.h, p.lower, p.upper)


def forces(x, solver=lcp.gauss_seidel):
    bounds = lcp.with_friction(jnp.full(2, 0.5))
    return solver(jnp.eye(4) + x * 0.1, jnp.arange(4.0) - 2, bounds, iterations=5)


def gradient_of_forces(x):
    return jax.grad(lambda x: jnp.sum(forces(x).force))(x)


def frames(weight):
    """Of the synthesizer."""
    model = hopper.hopper()
    state = hopper.crouched(model)
    wishes = hopper.repeated(hopper.wish(model, state, com_weight=weight), 2)
    return hopper.runner(SynthesisConfig())(model, hopper.DT, state, wishes, None)


ENTRIES = {
    "step": (stepped, STATE),
    "rollout": (rolled, STATE),
    "rollout by events": (rolled_by_events, STATE),
    **{f"gradient, {d}": (gradient_of_rollout(d), STATE) for d in DERIVATIVES},
    "QP": (solved, jnp.float32(0.3)),
    "gradient of a QP": (gradient_of_qp, jnp.float32(0.3)),
    "QP by levels": (solved_by_levels, jnp.float32(0.3)),
    "LCP": (forces, jnp.float32(0.3)),
    "LCP by gradients": (lambda x: forces(x, lcp.accelerated_gradient), jnp.float32(0.3)),
    "gradient of an LCP": (gradient_of_forces, jnp.float32(0.3)),
    "synthesis": (frames, jnp.float32(5.0)),
}


def calls(text: str) -> set[str]:
    """The names of what a program calls outside of it."""
    return set(re.findall(r"custom_call @([\w.$]+)", text))


def batch(x):
    return jax.tree.map(lambda x: jnp.broadcast_to(jnp.asarray(x), (2, *jnp.shape(x))), x)


def lowered(function: Callable, x, platform: str) -> str:
    return jax.jit(function).trace(x).lower(lowering_platforms=(platform,)).as_text()


# The derivative of the iteration has the operations of "rollout" and "gradient of an LCP".
SLOW = ("gradient, iteration",)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in ENTRIES],
)
def test_a_program_for_cuda_calls_nothing_of_the_host(name):
    function, x = ENTRIES[name]
    exported = export.export(jax.jit(jax.vmap(function)), platforms=("cuda",))(batch(x))
    assert not [c for c in calls(exported.mlir_module()) if not OF_THE_GPU.fullmatch(c)]


@pytest.mark.parametrize(
    "function",
    [lambda x: jnp.linalg.eigh(x)[0], lambda x: jax.pure_callback(np.sin, x, x)],
    ids=["LAPACK", "callback"],
)
def test_what_the_host_has_to_do_is_seen(function):
    """On the CPU; the test above would name it."""
    names = calls(lowered(function, jnp.eye(3), "cpu"))
    assert names and not any(map(OF_THE_GPU.fullmatch, names))


def test_a_fused_function_is_a_call_with_the_gpus_memory():
    def gradient(state):
        return jax.grad(lambda q: jnp.sum(fuse(lambda q: jnp.sin(q) @ q)(q[None])))(state.q)

    def fused_rollout(state):
        return rolled(state, backend="fused")

    for function in (fused_rollout, gradient):
        assert calls(lowered(jax.vmap(function), batch(STATE), "cuda")) == {FUSED}


def test_a_fused_function_cannot_be_exported_without_its_kernel():
    """Another process has not got it."""
    allowed = [export.DisabledSafetyCheck.custom_call("jaxsim_fused_cpu")]
    with pytest.raises(NotImplementedError):
        export.export(jax.jit(fuse(jnp.sin)), disabled_checks=allowed)(jnp.ones(3))


def test_where_there_are_no_kernels_xla_computes():
    text = lowered(fuse(lambda x: jnp.sin(x) + 1), jnp.ones((2, 3)), "tpu")
    assert "sine" in text and not calls(text)
