"""What lies on bars, on one another and on height fields comes to rest, under both back ends."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.model import (
    ModelBuilder,
    box,
    capsule,
    free,
    height_field,
    neutral_state,
    sphere,
    tapered_capsule,
)
from jaxsim.simulation.measures import largest
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping
from tests.laws.bodies import Limp

pytestmark = [pytest.mark.usefixtures("x64_module"), pytest.mark.slow]

DT = 0.002
X, Y = np.meshgrid(np.linspace(-1.5, 1.5, 13), np.linspace(-1, 1, 9), indexing="ij")
ROUGH = 0.04 * np.random.default_rng(0).normal(size=X.shape)


def scene(shapes, *world):
    b = ModelBuilder()
    for k, shape in enumerate(shapes):
        name = f"link{k}"
        b.add_link(name, "world", mass=1.0, inertia=(0.01, 0.02, 0.02), joints=[free(name + "_f")])
        b.add_shape(name, shape)
    for shape in world:
        b.add_shape("world", shape)
    b.add_self_collision()
    return b.build()


def run(model, q, seconds, backend, qd=None):
    """The last state, and the deepest overlap of the second half of the time."""
    start = neutral_state(model)
    qd = start.qd if qd is None else jnp.asarray(qd)
    steps = int(seconds / DT)
    deep = {"deep": largest(lambda sample: jnp.where(
        sample.state.time > seconds / 2, sample.info.penetration, 0.0
    ))}  # fmt: skip

    def one(q):
        state = start.replace(q=q, qd=qd)
        result = rollout(model, Limp(), state, TimeStepping(dt=DT), steps, deep, backend=backend)
        return result.state, result.measures["deep"]

    return jax.jit(jax.vmap(one))(jnp.asarray(q, float))


SCENES = {
    "capsules along a capsule": (
        (capsule(0.1, 0.3), tapered_capsule(0.1, 0.1001, 0.2)),
        (box((1, 0.11, 0.1), pos=(0, 0, -0.1)), capsule(0.1, 1, pos=(0, 0.2, 0.1)),
         capsule(0.1, 1, pos=(0, -0.2, 0.1))),
        [[0, 0, 0.12, 1, 0, 0, 0, 0.05, 0, 0.33, 1, 0, 0, 0]],
        0.3,
    ),
    "everything on rubble": (
        (sphere(0.1), capsule(0.1, 0.2), box((0.15, 0.1, 0.1)), tapered_capsule(0.1, 0.06, 0.2)),
        (height_field(ROUGH, (1.5, 1.0), friction=1.0),
         capsule(0.05, 0.9, pos=(0, 0, 0.1), quat=(np.sqrt(0.5), 0, 0, np.sqrt(0.5)))),
        [[x, y, 0.3, *turn] for x, y, turn in zip(
            (-1, -0.4, 0.35, 0.9), (0.3, -0.3, 0.2, 0),
            ((1, 0, 0, 0), (0.8, 0, 0, 0.6), (0.8, 0, 0.6, 0), (1, 0, 0, 0)), strict=True
        )],
        4.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SCENES)
def test_what_is_dropped_comes_to_rest(name):
    shapes, world, q, seconds = SCENES[name]
    model = scene(shapes, *world)
    q = np.reshape(q, (1, -1))
    state, deep = run(model, q, seconds, "fused")
    assert np.isfinite(state.q).all()
    z = np.asarray(state.q).reshape(-1, 7)[:, 2]
    assert (z > 0.02).all() and deep[0] < 0.003
    ours, reference = (run(model, q, 0.3, backend)[0] for backend in ("fused", "xla"))
    np.testing.assert_allclose(ours.q, reference.q, atol=1e-8)
    np.testing.assert_allclose(ours.qd, reference.qd, atol=1e-6)


def test_nothing_is_caught_on_level_ground():
    """A box slides, a ball rolls over the borders of cells as on a plane."""
    level = height_field(np.zeros((13, 9)), (3, 1), friction=0.0)
    model = scene((sphere(0.1), box((0.15, 0.1, 0.1)), capsule(0.1, 0.2)), level)
    q = [[-2, -0.5, 0.1, 1, 0, 0, 0, -2, 0.03, 0.1, 1, 0, 0, 0, -2, 0.5, 0.1, 0.8, 0, 0, 0.6]]
    qd = np.tile([1.5, 0.1, 0, 0, 0, 0], 3)
    state, deep = run(model, q, 2.0, "fused", qd)
    qd_end = np.asarray(state.qd[0]).reshape(3, 6)
    np.testing.assert_allclose(qd_end, np.reshape(qd, (3, 6)), atol=1e-6)
    np.testing.assert_allclose(np.asarray(state.q[0]).reshape(3, 7)[:, 0], 1.0, atol=1e-5)
    assert deep[0] < 1e-4
