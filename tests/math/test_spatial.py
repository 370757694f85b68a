"""Spatial vectors: identities of the cross products and of the inertia; float64."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxsim.math import rotation
from jaxsim.math import spatial as sp
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64")

batches = st.sampled_from([(), (1,), (4,), (2, 3)])
skew = quick_jit(rotation.skew)
spatial = quick_jit(sp.spatial)
motion_cross = quick_jit(sp.motion_cross)
force_cross = quick_jit(sp.force_cross)
inertia_apply = quick_jit(sp.inertia_apply)
inertia_matrix = quick_jit(sp.inertia_matrix)
wrench_at = quick_jit(sp.wrench_at)

seeds = st.integers(0, 2**32 - 1)


def close(got, wanted):
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-12)


def dot(a, b):
    return np.sum(np.asarray(a) * np.asarray(b), axis=-1)


@settings(max_examples=40)
@given(batches, seeds)
def test_cross_products_keep_the_power(batch, seed):
    """(v x m) . f + m . (v x* f) = 0, v x v = 0, and the Jacobi identity."""
    v, m, n, f = np.random.default_rng(seed).normal(size=(4, *batch, 6))
    close(dot(motion_cross(v, m), f) + dot(m, force_cross(v, f)), 0)
    close(motion_cross(v, v), np.zeros((*batch, 6)))
    close(motion_cross(v, m), -motion_cross(m, v))
    jacobi = (
        motion_cross(v, motion_cross(m, n))
        + motion_cross(m, motion_cross(n, v))
        + motion_cross(n, motion_cross(v, m))
    )
    close(jacobi, np.zeros((*batch, 6)))


@settings(max_examples=40)
@given(batches, seeds)
def test_inertia_is_that_of_the_particles(batch, seed):
    """A cloud of particles: momentum and energy of the rigid motion, summed one by one."""
    rng = np.random.default_rng(seed)
    masses = rng.uniform(0.1, 1, size=(5, *batch))
    points = rng.normal(size=(5, *batch, 3))
    v = rng.normal(size=(*batch, 6))
    mass, first = masses.sum(0), (masses[..., None] * points).sum(0)
    arms = np.asarray(skew(points))
    second = -(masses[..., None, None] * arms @ arms).sum(0)

    speeds = v[..., 3:] + np.cross(np.broadcast_to(v[..., :3], points.shape), points)
    pushes = masses[..., None] * speeds
    momentum = spatial(np.cross(points, pushes).sum(0), pushes.sum(0))
    close(inertia_apply(mass, first, second, v), momentum)
    matrix = np.asarray(inertia_matrix(mass, first, second))
    assert matrix.shape == (*batch, 6, 6)
    close((matrix @ v[..., None])[..., 0], momentum)
    close(matrix, np.swapaxes(matrix, -1, -2))
    close(dot(v, momentum), (masses * dot(speeds, speeds)).sum(0))


@settings(max_examples=40)
@given(batches, seeds)
def test_wrench_of_a_force_has_its_power(batch, seed):
    point, reference, force, w, u = np.random.default_rng(seed).normal(size=(5, *batch, 3))
    speed = u + np.cross(w, point - reference)
    close(dot(wrench_at(point, reference, force), spatial(w, u)), dot(force, speed))


def test_functions_map_over_batches():
    """vmap equals the functions' own leading dimensions."""
    v, m = np.random.default_rng(0).normal(size=(2, 4, 6))
    close(jax.vmap(motion_cross)(v, m), motion_cross(v, m))
    close(jax.vmap(force_cross)(v, m), force_cross(v, m))
