"""Bodies that move freely, the ground under them, and nothing that drives them."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim.model import Model, ModelBuilder, State, box, free, neutral_state, sphere
from jaxsim.simulation.records import no_control

G = 9.81  # [m/s^2]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Limp:
    """No torque at all."""

    def init(self, model, state, obs):
        return ()

    def update(self, memory, model, state, obs, dt):
        return memory, no_control(model)


def add_ball(b: ModelBuilder, name: str, radius: float, mass: float = 1.0, **options) -> None:
    """A solid ball that moves freely; options of its shape."""
    b.add_link(name, "world", mass=mass, inertia=[0.4 * mass * radius**2] * 3, joints=[free(name)])
    b.add_shape(name, sphere(radius, name=name, **options))


def add_crate(b: ModelBuilder, name: str, half, mass: float = 1.0, **options) -> None:
    """A solid box that moves freely, of half extents (3,); options of its shape."""
    squares = np.square(half)
    inertia = mass / 3 * (squares.sum() - squares)
    b.add_link(name, "world", mass=mass, inertia=inertia, joints=[free(name)])
    b.add_shape(name, box(half, name=name, **options))


def surface(model: Model, friction: float = 0.4, restitution: float = 0.0, tilt: float = 0.0):
    """One friction and restitution for all; level ground turned down towards +x by tilt [rad]."""
    return model.replace(
        friction=jnp.full_like(model.friction, friction),
        restitution=jnp.full_like(model.restitution, restitution),
        gravity=G * jnp.array([np.sin(tilt), 0.0, -np.cos(tilt)], model.gravity.dtype),
    )


def begin(model: Model, q=None, qd=None) -> State:
    """A state with room for the impulses; of free bodies q is (bodies, 7), qd (bodies, 6)."""
    state = neutral_state(model)
    q = state.q if q is None else jnp.asarray(np.reshape(q, -1), state.q.dtype)
    qd = state.qd if qd is None else jnp.asarray(np.reshape(qd, -1), state.qd.dtype)
    return state.replace(q=q, qd=qd)
