"""Forward and reverse derivatives of constraints and of what they enforce, by everything.

As in test_dynamics_gradients, of which these are the functions that solve for forces. The solver
ends early: its derivative is that of the solution, not of the loop.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.constraints.acceleration import (
    joint_rows,
    net_effects,
    point_rows,
    row_jacobian,
    stack_rows,
)
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.simulation.constrained import enforce, resolve_impact
from jaxsim.simulation.pushes import push, push_torque
from jaxsim.solvers import lcp
from tests.compiling import quick_jit
from tests.gradients.per_step import NUMBERS, generic_inputs, mixed_tree, special_inputs
from tests.gradients.test_dynamics_gradients import STENCIL, STEP, one_at_a_time, rows

pytestmark = pytest.mark.usefixtures("x64_module")

POINTS = {"generic": generic_inputs, "special": special_inputs}
exact = partial(lcp.gauss_seidel, iterations=5000, tolerance=1e-14, early=True)


def evaluate(model, inputs: dict) -> dict:
    """Results by the name of the function, with the model's numbers of ``inputs``."""
    model = model.replace(**{name: inputs[name] for name in NUMBERS})
    q, qd, tau = inputs["q"], inputs["qd"], inputs["tau"]
    kin = forward_kinematics(model, q, qd)
    last = model.topology.n_links - 1
    directions = jnp.array([[0.0, 0.0, 1.0], [0.8, 0.6, 0.0]])
    at = kin.link_pos[last] + kin.link_rot[last] @ jnp.array([0.1, 0.2, -0.3])
    wanted = jnp.array([2.0, -1.0])
    along = partial(point_rows, model, kin, [last, last], jnp.stack([at, at]), directions)
    both = stack_rows(joint_rows(model, [model.topology.nv - 1], tau[:1]), along(wanted, [0, 0]))
    # pressed down much harder than pushed aside, and the other way round
    sticks, slides = (along(-f * jnp.array([1.0, 0.1]), [-1, -1]) for f in (-30.0, 1.0))
    friction = lcp.with_friction(jnp.array([0.5]))
    effects = {
        method: net_effects(model, kin, both, method) for method in ("deltas", "abm", "mass")
    }
    pushed = push(model, model.topology.link_names[last], (1.0, 2.0, 3.0), point=(0.1, 0.0, 0.2))
    return {
        "row_jacobian": row_jacobian(model, kin, both),
        "drift": both.drift,
        "net_effects": effects,
        "push_torque": push_torque(model, kin, pushed, jnp.zeros(())),
        "enforce": enforce(model, kin, tau, both, solver=exact).qdd,
        "enforce, contact": enforce(model, kin, tau, sticks, friction, solver=exact).qdd,
        "resolve_impact": resolve_impact(model, kin, qd, both, solver=exact).qdd,
        "resolve_impact, contact": resolve_impact(
            model, kin, qd, slides, friction, solver=exact
        ).qdd,
    }


@pytest.fixture(scope="module")
def programs(x64_module):
    model = mixed_tree().model

    def values(inputs):
        return evaluate(model, inputs)

    def both_ways(inputs, direction, weights):
        tangent = jax.jvp(values, (inputs,), (direction,))[1]
        return tangent, jax.vjp(values, inputs)[1](weights)[0]

    return quick_jit(jax.vmap(values)), quick_jit(jax.vmap(both_ways, (None, 0, 0)))


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_both_modes_agree_with_differences(programs, point):
    values, both_ways = programs
    inputs = POINTS[point](mixed_tree())
    direction = one_at_a_time(inputs, seed=31)
    moved = {
        name: np.concatenate([inputs[name] + k * STEP * direction[name] for k in STENCIL])
        for name in inputs
    }
    found = values(moved)
    n = len(inputs)
    rng = np.random.default_rng(32)
    weights = {
        name: jax.tree.map(
            lambda x: np.broadcast_to(rng.normal(size=x.shape[1:]), (n, *x.shape[1:])), value
        )
        for name, value in found.items()
    }
    tangents, gradients = both_ways(inputs, direction, weights)
    total = np.zeros(n)
    for output, value in found.items():
        samples = rows(value).reshape(len(STENCIL), n, -1)
        differences = np.tensordot(list(STENCIL.values()), samples, 1) / STEP
        slopes = rows(tangents[output])
        total += np.sum(slopes * rows(weights[output]), axis=1)
        for name, slope, difference in zip(inputs, slopes, differences, strict=True):
            size = max(np.abs(difference).max(), 1.0)
            error = np.abs(slope - difference).max()  # NaN fails
            assert error <= 1e-6 * size, f"d {output} / d {name}: {error:.3g} of {size:.3g}"
    for k, name in enumerate(inputs):
        reverse = np.sum(np.asarray(gradients[name])[k] * direction[name][k])
        np.testing.assert_allclose(reverse, total[k], rtol=1e-7, atol=1e-9, err_msg=name)
