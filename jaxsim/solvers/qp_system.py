"""Linear system of one step of ``interior_point``: factorisation and solution.

The unknowns that have no bounds come first. A step adds nothing to their block of the matrix, so
they are eliminated once, and a step factorises a matrix of the others alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import DTypeLike

from jaxsim.math.products import matmul
from jaxsim.math.safe import safe_divide, safe_sqrt
from jaxsim.math.triangular import backward, cholesky, forward
from jaxsim.solvers.joint import JointEquations

RIDGE = 10.0  # proximal regularisation, in roundings of the scaled diagonal
MOST = 1e6  # largest factor on it
Factor = TypeVar("Factor")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ScaledProgram:
    """Quadratic program whose columns, rows and solution have the size 1.

    It has n unknowns, nb of them, the last ones, with bounds, e equations, k rows of G, kc of them,
    the last ones, with a ceiling, and c = 2 nb + k + kc inequalities. J alone is not scaled, so
    that none of its many numbers is recomputed: ``apply_tasks`` and its transpose scale the factors
    and the results of its products.
    """

    J: Array  # (m, n)
    columns: Array  # (n,) factors that scale the columns of J to length 1
    finite: Array  # () bool: the problem is finite; else J counts as zero
    r: Array  # (m,)
    A: Array  # (e, n)
    b: Array  # (e,)
    G: Array  # (k, n)
    d: Array  # (c,) of C x >= d, C from lower and upper bounds, G and -Gc; 0 where there is none
    real: Array  # (c,) bool: the inequality exists
    fixed: Array  # (n,) bool: the unknown has only one value
    at: Array  # (n,) value nearest to 0 within the bounds: that of a fixed unknown
    H: Array  # (n, n) J^T J + A^T A
    joint: JointEquations | None  # mj equations with other problems
    free: int = field(metadata={"static": True})  # n - nb

    @property
    def bounded(self) -> int:
        """Number nb of unknowns with bounds."""
        return self.H.shape[0] - self.free

    @property
    def of_sides(self) -> tuple[slice, slice, slice, slice]:
        """Slices of lower bounds, upper bounds, rows and ceilings in an array (c,)."""
        nb, k = self.bounded, self.G.shape[0]
        return slice(nb), slice(nb, 2 * nb), slice(2 * nb, 2 * nb + k), slice(2 * nb + k, None)


def both_sides(
    problem: ScaledProgram, x: Array, combined: Callable[[Array, Array], Array]
) -> tuple[Array, Array]:
    """Combine x (c,) of both sides of each inequality: (nb,) of bounds and (k,) of rows of G.

    The missing side of a row without a ceiling is 0.
    """
    lower, upper, rows, ceilings = (x[at] for at in problem.of_sides)
    none = jnp.zeros_like(rows[: len(rows) - len(ceilings)])
    above = jnp.concatenate([none, ceilings])
    return combined(lower, upper), combined(rows, above)


def inequalities(problem: ScaledProgram, x: Array, of_G: Array) -> Array:
    """(c,) C x, from x (n,) and of_G = G x (k,)."""
    bounded, ceilings = x[problem.free :], problem.of_sides[-1]
    last = of_G[len(of_G) - (problem.d.shape[0] - ceilings.start) :]
    return jnp.concatenate([bounded, -bounded, of_G, -last])


def apply_tasks(problem: ScaledProgram, x: Array) -> Array:
    """(m,) J x, of the scaled problem."""
    return jnp.where(problem.finite, matmul(problem.J, problem.columns * x), 0.0)


def apply_tasks_transposed(problem: ScaledProgram, y: Array) -> Array:
    """(n,) J^T y, of the scaled problem."""
    return jnp.where(problem.finite, problem.columns * matmul(y, problem.J), 0.0)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Reduced:
    """Step matrix after elimination of the f free unknowns, before a step adds to it.

    With L the lower factor of their block of H, and rows (k + e + mj of them) those of G, of A,
    then of joint equations.
    """

    inverse: Array  # (f, f) L^-1
    across: Array  # (f, nb + k + e + mj) L^-1 (H, rows^T), of the unknowns that stay and the rows
    H: Array  # (nb, nb) of the unknowns that stay
    rows: Array  # (k + e + mj, nb) in the unknowns that stay
    among: Array  # (k + e + mj, k + e + mj) coupling of the rows through the free unknowns
    fixed: Array  # (nb,) bool


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class StepFactor:
    """Factorised matrix of a step. E: the rows of A, then those of joint equations."""

    reduced: Reduced
    weight: Array  # (k,) of the rows of G
    rows: Array  # (k, nb + e + mj + k) factored weighted rows of G; k = 0 if f = 0
    lower: Array  # (nb, nb) of the matrix of the unknowns that stay
    through: Array  # (e + mj, nb) E lower^-T, with E as the elimination leaves it
    small: Array  # (e, e) lower factor of the equations' system
    joint: "JointFactor | None" = None


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class JointFactor:
    """Factorised blocks of the mj joint equations in a step."""

    across: Array  # (e, mj) small^-1 times the coupling of A with the joint equations
    lower: Array  # (mj, mj) lower factor of the sum of all problems' Schur complements


def eliminate_free(problem: ScaledProgram) -> Reduced:
    """Eliminate the free unknowns, with the least regularisation for which their factor exists."""
    f = problem.free
    joint = [] if problem.joint is None else [problem.joint.C]
    rows, fixed = jnp.concatenate([problem.G, problem.A, *joint]), problem.fixed[f:]
    if not f:
        none = jnp.zeros((len(rows), len(rows)), rows.dtype)
        return Reduced(problem.H[:0, :0], problem.H[:0], problem.H, rows, none, fixed)
    eps = float(jnp.finfo(problem.H.dtype).eps)
    huge = jnp.where(problem.fixed[:f], 1 / eps**2, 0.0).astype(problem.H.dtype)
    lower = least_regularised(
        lambda ridge: cholesky(problem.H[:f, :f] + jnp.diag(huge + ridge)), problem.H.dtype
    )
    sides = jnp.concatenate([problem.H[:f, f:], rows[:, :f].T, jnp.eye(f, dtype=lower.dtype)], 1)
    sides = lax.linalg.triangular_solve(lower, sides, left_side=True, lower=True)
    across, inverse = sides[:, :-f], sides[:, -f:]
    nb = problem.bounded
    stay, common = across[:, :nb], across[:, nb:]
    return Reduced(
        inverse,
        across,
        problem.H[f:, f:] - matmul(stay.T, stay),
        rows[:, f:] - matmul(common.T, stay),
        matmul(common.T, common),
        fixed,
    )


def least_regularised(factored: Callable[[Array], Factor], dtype: DTypeLike) -> Factor:
    """Factor with the least ridge () for which it is finite: ``RIDGE`` roundings, or 100^k times.

    The factor has NaN where it exists for none up to ``MOST`` times ``RIDGE``.
    """
    least = RIDGE * float(jnp.finfo(dtype).eps)

    def again(state: tuple[Factor, Array]) -> tuple[Factor, Array]:
        ridge = 100 * state[1]
        return factored(ridge), ridge

    def failed(state: tuple[Factor, Array]) -> Array:
        factor, ridge = state
        size = sum(jnp.sum(leaf) for leaf in jax.tree.leaves(factor))
        return ~jnp.isfinite(size) & (ridge < MOST * least)

    ridge = jnp.full((), least / 100, dtype)
    shapes = jax.eval_shape(factored, ridge)
    none_yet = jax.tree.map(lambda x: jnp.full(x.shape, jnp.nan, x.dtype), shapes)
    return lax.while_loop(failed, again, (none_yet, ridge))[0]


def factor(
    problem: ScaledProgram,
    system: Reduced,
    weight: Array,
    ridge: Array | float,
    delta: Array | float,
) -> StepFactor:
    """Factorise K = H + A^T A + C^T weight C + ridge, weight (c,), and the equations' system.

    The two sides of a row are one row of K, with the sum of their weights.

    A^T A changes no solution, and A K^-1 A^T is then at most 1: rows A below K with 2 on the
    diagonal give ``through`` in the same factorisation; those of joint equations have a diagonal
    larger than theirs can be. A fixed unknown gets one so large that it does not move.
    """
    nb, k, e = problem.bounded, problem.G.shape[0], problem.A.shape[0]
    weight_x, weight_G = both_sides(problem, weight, jnp.add)
    G, E = system.rows[:k], system.rows[k:]
    huge = 1 / jnp.finfo(weight.dtype).eps ** 2
    on_diagonal = jnp.where(system.fixed, huge, weight_x + ridge)
    if system.across.shape[0]:
        # G dx = slack / weight, where dx of the free unknowns follows the others and the slack
        root = safe_sqrt(weight_G)
        N, N_E = system.among[:k, :k], system.among[:k, k:]
        B = cholesky(jnp.eye(k, dtype=N.dtype) + root[:, None] * N * root)
        sides = root[:, None] * jnp.concatenate([G, N_E, jnp.eye(k, dtype=N.dtype)], axis=1)
        rows = lax.linalg.triangular_solve(B, sides, left_side=True, lower=True)
        P, P_E = rows[:, :nb], rows[:, nb : nb + E.shape[0]]
        K = system.H + matmul(P.T, P)
        E = E - matmul(P_E.T, P)
        S = system.among[k:, k:] - matmul(P_E.T, P_E)
    else:
        rows = system.rows[:0]
        K = system.H + matmul(G.T * weight_G, G)
        S = jnp.zeros((E.shape[0], E.shape[0]), weight.dtype)
    K = K + jnp.diag(on_diagonal)
    corner = 2 * jnp.eye(E.shape[0], dtype=K.dtype)
    if problem.joint is not None:
        corner = jnp.where(jnp.arange(E.shape[0]) < e, corner, huge * corner)
    below = jnp.concatenate([E, corner], axis=1)
    K = jnp.concatenate([jnp.concatenate([K, E.T], axis=1), below])
    lower = cholesky(K)
    lower, through = lower[:nb, :nb], lower[nb:, :nb]
    S = S + matmul(through, through.T)
    small = cholesky(_damped(S[:e, :e], delta))
    joint = None if problem.joint is None else _joint_factor(problem.joint, S, small, delta)
    return StepFactor(system, weight_G, rows, lower, through, small, joint)


def _damped(S: Array, delta: Array | float) -> Array:
    return S + jnp.diag(delta * (1 + jnp.diagonal(S)))


def _joint_factor(
    joint: JointEquations, S: Array, small: Array, delta: Array | float
) -> JointFactor:
    """Factorise the joint equations; S (e + mj, e + mj): coupling of all equations."""
    e = small.shape[0]
    across = lax.linalg.triangular_solve(small, S[:e, e:], left_side=True, lower=True)
    alone = S[e:, e:] - matmul(across.T, across)
    lower = cholesky(_damped(joint.total(alone), delta))
    return JointFactor(across, lower)


def solve_factored(
    f: StepFactor,
    problem: ScaledProgram,
    g: Array,
    base: Array,
    e: Array,
    joint: Array | None = None,
) -> tuple[Array, Array, Array, Array | None]:
    """Solve the system of a step: dx (n,), dy (e,), C dx (c,) and dw (mj,).

    K dx - A^T dy - C_j^T dw = g + C^T base, A dx + delta dy = e, and the sum of all problems'
    C_j dx + delta dw = ``joint``, with g (n,), base (c,), e (e,) and K before A^T A was added. A
    row of G with a large weight has a large base, too: their difference, the row's C dx, has digits
    that dx would lose.
    """
    free, nb, k, count = problem.free, problem.bounded, problem.G.shape[0], e.shape[0]
    of_x, of_G = both_sides(problem, base, jnp.subtract)
    g = g + matmul(e, problem.A) + jnp.pad(of_x, (free, 0))
    if problem.joint is not None:
        e = jnp.pad(e, (0, problem.joint.c.shape[0]))
    if not free:
        pulled = jnp.where(problem.fixed, 0.0, matmul(of_G, problem.G))
        dx, pulls = _solve_reduced(f, problem, g + pulled, e, joint)
        moved = matmul(problem.G, dx)
    else:
        P, P_E, root = jnp.split(f.rows, [nb, nb + e.shape[0]], axis=1)
        inverse, across = f.reduced.inverse, f.reduced.across
        shift = safe_divide(of_G, f.weight)
        a = matmul(inverse, g[:free])
        c, c_G, c_E = jnp.split(matmul(a, across), [nb, nb + k])
        q = matmul(root, c_G - shift)
        stay, left = g[free:] - c - matmul(q, P), e - c_E + matmul(q, P_E)
        dx, pulls = _solve_reduced(f, problem, stay, left, joint)
        pull = matmul(q + matmul(P, dx) + matmul(P_E, pulls), root)
        a = a - matmul(across, jnp.concatenate([dx, pull, -pulls]))
        dx = jnp.concatenate([matmul(a, inverse), dx])
        by_pull = shift + safe_divide(pull, f.weight)
        moved = jnp.where(f.weight > 1, by_pull, matmul(problem.G, dx))
    dw = None if problem.joint is None else pulls[count:]
    return dx, pulls[:count], inequalities(problem, dx, moved), dw


def _solve_reduced(
    f: StepFactor, problem: ScaledProgram, g: Array, e: Array, joint: Array | None
) -> tuple[Array, Array]:
    """Solve for the unknowns that stay (nb,), and the multipliers of all equations (e + mj,)."""
    u = forward(f.lower, g)
    w = e - matmul(f.through, u)
    if problem.joint is None or f.joint is None:
        pulls = backward(f.small, forward(f.small, w))
    else:
        of, count = f.joint, f.small.shape[0]
        assert joint is not None
        own = forward(f.small, w[:count])
        left = joint + problem.joint.total(w[count:] - matmul(own, of.across))
        dw = backward(of.lower, forward(of.lower, left))
        dy = backward(f.small, own - matmul(of.across, dw))
        pulls = jnp.concatenate([dy, dw])
    return backward(f.lower, u + matmul(pulls, f.through)), pulls
