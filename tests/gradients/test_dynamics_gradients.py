"""Forward and reverse derivatives of the dynamics against central differences.

With respect to the state, the torques and every number of the model; at a generic point and at
rest in the zero pose with all offsets zero, where lengths and angles vanish.
"""

from functools import partial

import jax
import numpy as np
import pytest

from tests.compiling import quick_jit, quick_map
from tests.gradients.per_step import evaluate, generic_inputs, mixed_tree, special_inputs

pytestmark = pytest.mark.usefixtures("x64_module")

STEP = 3e-4  # fourth-order differences: truncation and rounding both stay below 1e-9
STENCIL = {-2: 1 / 12, -1: -8 / 12, 1: 8 / 12, 2: -1 / 12}
POINTS = {"generic": generic_inputs, "special": special_inputs}


@pytest.fixture(scope="module")
def tree(x64_module):
    return mixed_tree()


@pytest.fixture(scope="module")
def programs(tree):
    """Batches of values, tangents and gradients, each compiled once for all points."""

    def values(inputs):
        return evaluate(tree.model, inputs)

    def tangents(inputs, direction):
        return jax.jvp(values, (inputs,), (direction,))[1]

    def gradients(inputs, cotangent):
        return jax.vjp(values, inputs)[1](cotangent)[0]

    return (
        quick_map(values),
        quick_jit(lambda inputs, batch: jax.lax.map(partial(tangents, inputs), batch)),
        quick_jit(lambda inputs, batch: jax.lax.map(partial(gradients, inputs), batch)),
    )


def one_at_a_time(shapes: dict, seed: int) -> dict:
    """A batch of random trees of arrays, row by row nonzero under one key only."""
    rng = np.random.default_rng(seed)

    def fill(row, leaf):
        batch = np.zeros((len(shapes), *np.shape(leaf)), leaf.dtype)
        batch[row] = rng.normal(size=np.shape(leaf))
        return batch

    return {
        key: jax.tree.map(lambda leaf, row=row: fill(row, leaf), value)
        for row, (key, value) in enumerate(shapes.items())
    }


def rows(tree) -> np.ndarray:
    """(batch, all numbers) of a batched tree of arrays."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)


@pytest.mark.parametrize("point", POINTS)
def test_forward_mode_agrees_with_differences(programs, tree, point):
    values, tangents, _ = programs
    inputs = POINTS[point](tree)
    direction = one_at_a_time(inputs, seed=21)
    n = len(inputs)
    moved = {
        name: np.concatenate([inputs[name] + k * STEP * direction[name] for k in STENCIL])
        for name in inputs
    }
    slopes = tangents(inputs, direction)
    for output, value in values(moved).items():
        samples = rows(value).reshape(len(STENCIL), n, -1)
        differences = np.tensordot(list(STENCIL.values()), samples, 1) / STEP
        for name, slope, difference in zip(inputs, rows(slopes[output]), differences):
            size = max(np.abs(difference).max(), 1.0)
            error = np.abs(slope - difference).max()  # NaN fails
            assert error <= 1e-8 * size, f"d {output} / d {name}: {error:.3g} of {size:.3g}"


@pytest.mark.parametrize("point", POINTS)
def test_reverse_mode_is_the_transpose_of_forward_mode(programs, tree, point):
    _, tangents, gradients = programs
    inputs = POINTS[point](tree)
    direction = one_at_a_time(inputs, seed=22)
    slopes = tangents(inputs, direction)
    weights = one_at_a_time(jax.tree.map(lambda x: x[0], slopes), seed=23)
    gradient = gradients(inputs, weights)
    for row, output in enumerate(slopes):
        forward = rows(slopes[output]) @ rows(weights[output])[row]
        size = np.abs(rows(slopes[output])) @ np.abs(rows(weights[output])[row])
        for k, name in enumerate(inputs):
            reverse = np.sum(np.asarray(gradient[name])[row] * direction[name][k])
            error = abs(reverse - forward[k])
            assert error <= 1e-10 * max(size[k], 1.0), f"d {output} / d {name}: {error:.3g}"


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_float32_values_and_gradients_agree_with_float64(programs, tree, point):
    values, tangents, gradients = programs
    inputs = POINTS[point](tree)
    slopes = tangents(inputs, one_at_a_time(inputs, seed=24))
    weights = one_at_a_time(jax.tree.map(lambda x: x[0], slopes), seed=25)
    batch = {name: x[None] for name, x in inputs.items()}
    wanted = {"value of": values(batch), "gradient by": gradients(inputs, weights)}
    single = jax.tree.map(np.float32, (inputs, batch, weights))
    with jax.enable_x64(False):
        got = {"value of": values(single[1]), "gradient by": gradients(single[0], single[2])}
    for what, results in got.items():
        for name in results:
            value, exact = rows(results[name]), rows(wanted[what][name])
            assert value.dtype == np.float32, f"{what} {name}"
            error = np.abs(value - exact).max(1) / np.maximum(np.abs(exact).max(1), 1.0)
            assert error.max() <= 1e-4, f"{what} {name}: relative error {error.max():.3g}"
