"""Random starts of a batch: the joints of a state deviate slightly."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.random import Generator

from jaxsim.collision.contacts import lowest_point
from jaxsim.dynamics.kinematics import forward_kinematics, integrate
from jaxsim.model import Model, State
from jaxsim.simulation.scheme import Scheme

# deviations of a start's joints [rad], [rad/s]: of tuning, sweeps, verdicts and maps alike
ANGLE, RATE = 0.02, 0.1


def spread_text(angle: float = ANGLE, rate: float = RATE) -> str:
    """Describe the spread of starts in words, to stand beside a success rate."""
    return f"the first as it is, joints of the others off by {angle:g} rad and {rate:g} rad/s"


def start_states(
    model: Model,
    standing: State,
    count: int,
    seed: int,
    spread: tuple[float, float] = (ANGLE, RATE),
    scheme: Scheme | None = None,
) -> State:
    """Starts (``count``) with a leading axis: ``standing`` first, then with normal deviations.

    The joints of the character deviate within their limits, and so do their velocities. Its root
    moves so that the middle of the points that grip a hold stays in place; without a ``scheme`` in
    which points grip, so that the lowest point stays as high as it was. spread: standard deviations
    of the two [rad], [rad/s].
    """
    return start_maker(model, standing, count, spread, scheme)(jax.random.key(seed))


def start_maker(
    model: Model,
    standing: State,
    count: int,
    spread: tuple[float, float] = (ANGLE, RATE),
    scheme: Scheme | None = None,
) -> Callable[[Array], State]:
    """Compiled function from a random key to ``start_states``."""
    grips = None if scheme is None else scheme.grip_points(model, standing)
    top = model.topology
    links = top.main_links
    root = np.isin(np.asarray(top.dof_joint), top.root_joints) | ~links[np.asarray(top.dof_link)]
    root[top.driven_dofs] = True
    shape, dtype = (count, top.nv), model.mass.dtype
    some = jnp.where((jnp.arange(count) > 0)[:, None] & ~root, 1.0, 0.0).astype(dtype)
    hinges = np.array(
        [j for j in top.limited_joints if top.joint_kinds[j] in ("hinge", "slide")], int
    )
    at = np.array(top.q_start)[hinges]

    def low(q):
        return lowest_point(model, forward_kinematics(model, q, standing.qd), links)

    def one(turn, rate):
        q = integrate(model, standing.q, turn, jnp.ones((), dtype))
        bounds = model.joint_lower[hinges], model.joint_upper[hinges]
        q = q.at[at].set(jnp.clip(q[at], *bounds))
        if grips is not None and top.joint_kinds[top.root_joints[0]] == "free":
            place = top.q_start[top.root_joints[0]] + np.arange(3)
            q = q.at[place].add(jnp.mean(grips(standing.q) - grips(q), axis=0))
        elif top.root_height is not None:
            q = q.at[top.root_height].add(low(standing.q) - low(q))
        return standing.replace(q=q, qd=standing.qd + rate)

    @jax.jit
    def made(key):
        keys = jax.random.split(key, 2)
        turn = spread[0] * some * jax.random.normal(keys[0], shape, dtype)
        rate = spread[1] * some * jax.random.normal(keys[1], shape, dtype)
        return jax.vmap(one)(turn, rate)

    return made


def sample_values(
    bounds: tuple[float, float], count: int, shape: tuple[int, ...], random: Generator
) -> np.ndarray:
    """Uniform samples (count, *shape) between bounds, one for each of ``count``.

    All elements of one array have the same value. Raises ValueError for invalid bounds.
    """
    lower, upper = bounds
    if not lower <= upper or not np.isfinite([lower, upper]).all():
        raise ValueError(f"a number that is drawn has no range from {lower} to {upper}")
    one = random.uniform(lower, upper, count)
    return np.broadcast_to(one.reshape(-1, *(1 for _ in shape)), (count, *shape)).copy()
