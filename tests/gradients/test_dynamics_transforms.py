"""The dynamics under jit and vmap: batches equal loops, and numbers never cause a new trace."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.dynamics.rigid import gravity_force
from tests.compiling import quick_jit
from tests.gradients.per_step import generic_inputs, mixed_tree, per_step

BATCH = 3


@pytest.fixture(scope="module")
def scenes():
    """BATCH models of one topology, built apart, each with a state."""
    trees = [mixed_tree(seed) for seed in range(BATCH)]
    inputs = [generic_inputs(tree, seed) for seed, tree in enumerate(trees)]
    states = [tuple(np.float32(x[name]) for name in ("q", "qd", "tau")) for x in inputs]
    return [tree.model for tree in trees], states


single = quick_jit(per_step)


def stack(trees):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def assert_same(got, wanted) -> None:
    """To a few units in the last place of the largest float32 that entered."""
    assert got.keys() == wanted.keys()
    for name in got:
        for value, exact in zip(jax.tree.leaves(got[name]), jax.tree.leaves(wanted[name])):
            assert value.dtype == jnp.float32, name
            size = np.abs(exact).max()
            np.testing.assert_allclose(value, exact, rtol=0, atol=1e-5 * size, err_msg=name)


@pytest.mark.slow
def test_vmap_over_models_and_states_equals_a_loop(scenes):
    models, states = scenes
    batched = quick_jit(jax.vmap(per_step))
    got = batched(stack(models), *stack(states))
    assert_same(got, stack([single(m, *x) for m, x in zip(models, states)]))


@pytest.mark.slow
def test_vmap_over_one_field_and_over_states_equals_a_loop(scenes):
    models, states = scenes
    masses = jnp.stack([model.mass for model in models])

    @quick_jit
    def over_masses_and_states(model, masses, states):
        def of(mass, state):
            return per_step(model.replace(mass=mass), *state)

        return jax.vmap(jax.vmap(of, (None, 0)), (0, None))(masses, states)

    got = over_masses_and_states(models[0], masses, stack(states))
    for i, mass in enumerate(masses):
        row = [single(models[0].replace(mass=mass), *state) for state in states]
        assert_same(jax.tree.map(lambda x, i=i: x[i], got), stack(row))


def test_a_model_of_the_same_topology_does_not_trace_again(scenes):
    """New numbers, from another builder or from ``replace``."""
    models, states = scenes
    traces = []

    @quick_jit
    def holding(model, q, qd):
        traces.append(model.topology)
        return gravity_force(model, forward_kinematics(model, q, qd))

    (q, qd, _), *_ = states
    results = [np.asarray(holding(model, q, qd)) for model in models]
    doubled = {name: 2 * getattr(models[0], name) for name in ("gravity", "com", "joint_anchor")}
    results.append(np.asarray(holding(models[0].replace(**doubled), 0.5 * q, qd)))
    assert len(traces) == 1, f"traced {len(traces)} times"
    assert not np.allclose(results[0], results[1])
    assert len({hash(model.topology) for model in models}) == 1


def test_one_jitted_function_serves_both_precisions(scenes):
    """float32, float64 and float32 again, with the same topology and so the same index arrays."""
    models, states = scenes
    holding = quick_jit(lambda model, q, qd: gravity_force(model, forward_kinematics(model, q, qd)))
    results = []
    for x64 in (False, True, False):
        with jax.enable_x64(x64):
            dtype = np.float64 if x64 else np.float32
            model, (q, qd, _) = jax.tree.map(lambda x, t=dtype: t(x), (models[0], states[0]))
            results.append(np.asarray(holding(model, q, qd)))
    assert [r.dtype for r in results] == [np.float32, np.float64, np.float32]
    size = np.abs(results[1]).max()
    np.testing.assert_allclose(results[0], results[1], rtol=0, atol=1e-5 * size)
    np.testing.assert_array_equal(results[0], results[2])
