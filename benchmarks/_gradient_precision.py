"""Gradients of standing bodies in float32 beside float64, and whether those that fail are named."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from controllers.pose.pd import PoseController
from jaxsim import ball_joint_human, planar_human, rollout, start
from jaxsim.checked_gradient import checked_gradient
from jaxsim.dynamics.kinematics import integrate
from jaxsim.model import Model, State
from jaxsim.simulation.step import TimeStepping
from optimize.session import session

BODIES = {"planar human": planar_human, "ball-joint human": ball_joint_human}
DT = 0.001  # [s]
ANGLE, RATE = 0.05, 0.1  # of the targets and the first velocities [rad], [rad/s]
PASSES = 1e-3  # relative error
HEADER = ["body", "gradient by", "members", "above 1e-3", "named", "the others: within 1e-3"]
HEADER += ["median error", "median cosine, less than 1 by"]


@dataclass(frozen=True)
class Precision:
    """Gradients of n members, each by some of the numbers that it goes by."""

    error: dict[str, np.ndarray]  # (n,) of float32, relative to the norm in float64
    cosine: dict[str, np.ndarray]  # (n,) between the two, less than 1 by
    named: np.ndarray  # (n,) bool

    @property
    def passing(self) -> dict[str, float]:
        """Parts of the members that are not named."""
        return {by: float(np.mean(e[~self.named] < PASSES)) for by, e in self.error.items()}


def measure(body: str, members: int, seed: int, steps: int, device: str | None) -> Precision:
    """Members that begin at ``start(model, "standing")`` with drawn velocities under a pose
    controller with drawn targets; the gradient is that of a number of the last state."""
    slopes, named = {}, np.zeros(0, bool)
    for precision in ("float64", "float32"):
        with session(device, precision):
            model = BODIES[body]()
            checked = checked_gradient(*_problem(model, members, seed, steps))
            slopes[precision] = {k: np.asarray(x, float) for k, x in checked.gradient.items()}
            named = np.asarray(checked.named)
    error, cosine = {}, {}
    for by, exact in slopes["float64"].items():
        single = slopes["float32"][by]
        a, b = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (single, exact))
        error[by] = np.linalg.norm(single - exact, axis=1) / np.linalg.norm(exact, axis=1)
        cosine[by] = 0.5 * np.sum((a - b) ** 2, axis=1)
    return Precision(error, cosine, named)


def rows(body: str, of: Precision) -> list[list[str]]:
    """Lines of the table; the medians are of the members that are not named."""
    free = ~of.named
    return [
        [
            body,
            by,
            str(error.size),
            str(int(np.sum(~(error < PASSES)))),
            str(int(of.named.sum())),
            f"{int(np.sum(error[free] < PASSES))} of {int(free.sum())}",
            f"{np.median(error[free]):.1e}",
            f"{np.median(of.cosine[by][free]):.0e}",
        ]
        for by, error in of.error.items()
    ]


def _problem(model: Model, members: int, seed: int, steps: int) -> tuple[Any, State, Any]:
    """The gradients as a function of states and targets, and these."""
    rng = np.random.default_rng(seed)
    standing, shape = start(model, "standing"), (members, model.topology.nv)
    turn, rate = (size * rng.standard_normal(shape) for size in (ANGLE, RATE))
    turn, rate = (jnp.asarray(x.astype(np.float32), model.mass.dtype) for x in (turn, rate))
    config = TimeStepping(dt=DT, most_sweeps=0)

    def last(target, qd, begun: State):
        begun = begun.replace(qd=qd)
        end = rollout(model, PoseController(target), begun, config, steps).state
        return jnp.sum(end.q**2) + 0.01 * jnp.sum(end.qd**2)

    slopes = jax.vmap(jax.grad(last, argnums=(0, 1)))

    def gradient(states: State, targets):
        return dict(zip(("targets", "velocities"), slopes(targets, states.qd, states)))

    targets = jax.vmap(lambda turn: integrate(model, standing.q, turn, 1.0))(turn)
    many = jax.tree.map(lambda x: jnp.broadcast_to(x, (members, *jnp.shape(x))), standing)
    return gradient, many.replace(qd=rate), targets
