"""What each goal comes to in a step's objective, and which goals pull against each other."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.math.products import matmul
from jaxsim.synthesis.tasks import Tasks


def shares(tasks: Tasks, v: Array) -> tuple[Array, Array]:
    """(ng,) the objective by goal at a velocity v (nv,), and (ng, ng) how much each two goals pull
    against each other there; of ``Tasks.of_goal``.

    Goal k pulls the velocity along minus its slope, p_k (nv,). Two that want the same have
    p_k p_l > 0; of two that do not, -p_k p_l is what is told, and 0 of the others. Its unit is that
    of the objective, squared, over that of a velocity, squared; only the ratio of two is of use.
    """
    rows = tasks.goals
    of_goal = np.zeros(len(rows.r), int) if tasks.of_goal is None else tasks.of_goal
    one = (np.arange(tasks.n_goals)[:, None] == of_goal).astype(v.dtype)
    rest = matmul(rows.J, v) - rows.r
    pull = matmul(one * rest, rows.J)
    return matmul(one, rest**2), jnp.maximum(-matmul(pull, pull.T), 0.0)
