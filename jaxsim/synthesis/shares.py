"""Shares of the goals in a step's objective, and conflicts between goals."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.math.products import matmul
from jaxsim.synthesis.tasks import Tasks


def shares(tasks: Tasks, v: Array) -> tuple[Array, Array]:
    """Objective by goal (ng,) at a velocity v (nv,), and the conflict of each two goals (ng, ng).

    Rows belong to goals by ``Tasks.of_goal``. Goal k pulls the velocity along minus its gradient,
    p_k (nv,). Two goals that agree have p_k p_l > 0 and a conflict of 0; the conflict of two others
    is -p_k p_l. Its unit is that of the objective, squared, over that of a velocity, squared; only
    the ratio of two is of use.
    """
    rows = tasks.goals
    of_goal = np.zeros(len(rows.r), int) if tasks.of_goal is None else tasks.of_goal
    one = (np.arange(tasks.n_goals)[:, None] == of_goal).astype(v.dtype)
    rest = matmul(rows.J, v) - rows.r
    pull = matmul(one * rest, rows.J)
    return matmul(one, rest**2), jnp.maximum(-matmul(pull, pull.T), 0.0)
