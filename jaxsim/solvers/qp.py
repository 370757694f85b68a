"""Small convex quadratic programs in batches: least squares under equations and inequalities.

Solved by ``interior_point`` in scaled units, with a status instead of an error; ``qp_derivative``
gives the derivative of the solution. See docs/explanation/qp.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxsim.math.products import matmul
from jaxsim.math.safe import safe_norm, safe_sqrt
from jaxsim.solvers import interior_point as ip
from jaxsim.solvers.joint import JointEquations, every, most
from jaxsim.solvers.lcp import NOT_FINITE, SOLVED, UNFINISHED
from jaxsim.solvers.qp_derivative import solution_change
from jaxsim.solvers.qp_system import ScaledProgram, both_sides, eliminate_free
from jaxsim.solvers.status import Status

NOISE = 10.0  # a column of J below so many roundings of the largest one counts as zero
INFEASIBLE = int(Status.INFEASIBLE)  # no x fits all constraints


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class QuadraticProgram:
    """Minimise |J x - r|^2 / 2 subject to A x = b, h <= G x <= ceiling and lower <= x <= upper.

    An idle row is one of zeros, with b = 0 or h <= 0; a bound that does not exist is infinite. An
    unknown with a column of zeros gets the value 0, or the bound nearest to 0. Bounds are of the
    last unknowns, and ceilings of the last rows of G: those before are free, which makes a solution
    cheaper than infinite bounds do.
    """

    J: Array  # (m, n) stacked, weighted tasks
    r: Array  # (m,)
    A: Array  # (e, n)
    b: Array  # (e,)
    G: Array  # (k, n)
    h: Array  # (k,)
    lower: Array  # (nb,) of the last nb unknowns, at most n
    upper: Array  # (nb,)
    ceiling: Array | None = None  # (kc,) of the last kc rows of G, at most k; None: no ceilings
    joint: JointEquations | None = None  # equations with the other members of a vmap

    @property
    def ceilings(self) -> Array:
        """(kc,) ``ceiling``, empty where there is none."""
        return self.h[:0] if self.ceiling is None else self.ceiling


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Start:
    """Warm start: unknowns and multipliers of the ``QPSolution`` of a similar problem."""

    x: Array  # (n,)
    equality: Array  # (e,)
    inequality: Array  # (k,)
    at_lower: Array  # (nb,)
    at_upper: Array  # (nb,)
    at_ceiling: Array  # (kc,)
    joint: Array | None = None  # (mj,)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class QPSolution:
    """Solution x with the multipliers of its constraints, residuals and status.

    J^T (J x - r) = A^T equality + G^T inequality - Gc^T at_ceiling + at_lower - at_upper (and
    + C^T joint), with Gc the rows of G that have a ceiling. Status and residuals are common to all
    problems that a joint equation ties together.
    """

    x: Array  # (n,)
    equality: Array  # (e,)
    inequality: Array  # (k,) not negative, as are those of bounds
    at_lower: Array  # (nb,)
    at_upper: Array  # (nb,)
    at_ceiling: Array  # (kc,)
    status: Array  # () int: SOLVED, UNFINISHED, INFEASIBLE or NOT_FINITE
    primal: Array  # () relative violation of the constraints, see ``interior_point.measures``
    dual: Array  # () relative gradient of the Lagrangian, or its product with x
    gap: Array  # () root of the largest product of a multiplier and its slack, relative
    iterations: Array  # () int
    violated: Array  # (e + k + n,) bool: violated rows of A, rows of G and bounds
    joint: Array | None = None  # (mj,) multipliers of the joint equations

    @property
    def start(self) -> Start:
        return Start(**{f.name: getattr(self, f.name) for f in fields(Start)})


def solve(
    problem: QuadraticProgram,
    start: Start | None = None,
    iterations: int = 50,
    tolerance: float | None = None,
    smoothing: float | Array = 0.0,
) -> QPSolution:
    """Solve a quadratic program, from the ``start`` of a similar problem or without one.

    tolerance: of ``primal``, ``dual`` and ``gap``, which ends the iterations and decides the
    status; default ``default_tolerance``. At least one iteration, at most ``iterations``; under
    ``vmap`` all members wait for the slowest. A member that fails keeps its last finite iterate,
    and has no influence on others. The derivative of x and the multipliers, in both modes, is that
    of the conditions at the solution, not of the iterations; smoothing () relaxes there multiplier
    times slack = 0 to = smoothing, in the unit of the objective, so that constraints about to be
    active have a derivative. It never acts on the solution. ``start`` has no derivative. Raises
    ValueError where ``iterations`` is less than one, or where there are more bounds than unknowns
    or more ceilings than rows.
    """
    if iterations < 1:
        raise ValueError(f"iterations is {iterations}; the solver takes at least one")
    bounds, n = (problem.lower.shape, problem.upper.shape), problem.J.shape[1]
    if bounds[0] != bounds[1] or bounds[0][0] > n:
        raise ValueError(
            f"lower {bounds[0]} and upper {bounds[1]}; give both the shape (nb,), of the last nb of"
            f" the {n} unknowns"
        )
    k, ceilings = len(problem.h), problem.ceilings.shape
    if ceilings[0] > k:
        raise ValueError(f"ceiling {ceilings}: give (kc,), of the last kc of the {k} rows of G")
    dtype = problem.J.dtype
    run = _QPSettings(iterations, default_tolerance(dtype) if tolerance is None else tolerance)
    smoothing = jnp.asarray(smoothing, dtype)
    x, y, z, w, report = _solution(run, problem, start, smoothing)
    nb, k = problem.lower.shape[0], problem.h.shape[0]
    at_lower, at_upper, inequality, at_ceiling = jnp.split(z, [nb, 2 * nb, 2 * nb + k])
    return QPSolution(x, y, inequality, at_lower, at_upper, at_ceiling, *report, joint=w)


def default_tolerance(dtype) -> float:
    """Default tolerance of ``solve``: 2e-5 in float32 and 3e-8 in float64."""
    return {4: 2e-5, 8: 3e-8}[jnp.dtype(dtype).itemsize]


@dataclass(frozen=True)
class _QPSettings:
    iterations: int
    tolerance: float


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _solution(run: _QPSettings, problem: QuadraticProgram, start: Start | None, smoothing: Array):
    """Solution x (n,), multipliers y (e,), z (c,), w (mj,), and the other ``QPSolution`` fields."""
    q, scale = scale_problem(problem)
    p, _, report = _iterated(run, q, scale, start)
    return *_unscaled(scale, p.x, p.y, p.z, p.w), report


def _unscaled(scale: ip.Scale, x: Array, y: Array, z: Array, w: Array | None):
    w = None if w is None or scale.joint is None else w * scale.joint
    return x * scale.x, y * scale.equality, z * scale.inequality, w


@_solution.defjvp
def _solution_jvp(run: _QPSettings, primals, tangents):
    problem, start, smoothing = primals
    q, scale = scale_problem(problem)
    p, system, report = _iterated(run, q, scale, start)
    moves = tangents[0].lower, tangents[0].upper
    at = jax.jvp(_nearest_to_0, (problem.lower, problem.upper), moves)[1]
    dot = replace(q, **_fields(tangents[0], scale), at=_of_all(q.free, at, 0.0) / scale.x)
    dots = solution_change(q, system, p, dot, smoothing / (scale.size * scale.size))
    none = jax.tree.map(_no_tangent, report)
    out = _unscaled(scale, p.x, p.y, p.z, p.w)
    return (*out, report), (*_unscaled(scale, *dots), none)


def _no_tangent(x: Array):
    floating = jnp.issubdtype(x.dtype, jnp.floating)
    return jnp.zeros_like(x) if floating else np.zeros(x.shape, jax.dtypes.float0)


def _iterated(run: _QPSettings, q: ScaledProgram, scale: ip.Scale, start: Start | None):
    """Run the iterations: last point, reduced system, and the ``QPSolution`` fields after it."""
    tolerance, system = jnp.asarray(run.tolerance, q.H.dtype), eliminate_free(q)
    begun = _cold(q) if start is None else _warm(q, scale, start)
    end = ip.iterate(q, system, *begun, run.iterations, tolerance)
    p, off = end.point, end.off
    primal, dual, gap = (jnp.where(scale.finite, x, jnp.nan) for x in end.left)
    solved = (primal <= tolerance) & (dual <= tolerance) & (gap <= tolerance)
    status = jnp.where(solved, SOLVED, jnp.where(off.contradicts, INFEASIBLE, UNFINISHED))
    status = jnp.where(jnp.isfinite(primal + dual + gap), status, NOT_FINITE).astype(jnp.int32)

    nb, f = q.bounded, q.free
    low = jnp.where(q.real, ip.apply_constraints(q, p.x) - q.d, 0.0)
    allowed = tolerance * ip.reach(q, p)
    low, missed = low < -allowed, jnp.abs(off.equation) > allowed
    size = jnp.maximum(ip.largest(p.y), ip.largest(p.z))  # of rows that contradict each other
    least = jnp.where(off.contradicts & ~solved, 1e-3 * size, -1.0)
    missed, low = missed & (jnp.abs(p.y) > least), low & (p.z > least)
    of_x, of_rows = both_sides(q, low, jnp.logical_or)
    violated = jnp.concatenate([missed, of_rows, _of_all(f, of_x, False)])

    pull, fixed = off.gradient[f:], q.fixed[f:]
    multipliers = jnp.concatenate([pull, -pull, jnp.zeros_like(q.d[2 * nb :])])
    of_fixed = jnp.concatenate([fixed, fixed, jnp.zeros_like(q.real[2 * nb :])])
    p = replace(p, z=jnp.where(of_fixed, jnp.maximum(multipliers, 0.0), p.z))
    return p, system, (status, primal, dual, gap, end.count, violated)


def scale_problem(p: QuadraticProgram) -> tuple[ScaledProgram, ip.Scale]:
    """Scale columns of J to length 1, then rows of A and G, then the solution to size 1.

    A member with non-finite data is replaced by an all-zero problem. An unknown with a column of
    zeros is fixed.
    """
    has_lower, has_upper, has_row = p.lower != -jnp.inf, p.upper != jnp.inf, p.h != -jnp.inf
    ceiling, has_ceiling = p.ceilings, p.ceilings != jnp.inf
    f = p.J.shape[1] - p.lower.shape[0]
    at = _of_all(f, _nearest_to_0(p.lower, p.upper), 0.0)
    single = _of_all(f, p.lower == p.upper, False)
    some = _of_all(f, p.lower <= p.upper, True)
    p = replace(
        p,
        lower=jnp.where(has_lower, p.lower, 0.0),
        upper=jnp.where(has_upper, p.upper, 0.0),
        h=jnp.where(has_row, p.h, 0.0),
        ceiling=jnp.where(has_ceiling, ceiling, 0.0),
    )
    J, H, rest = p.J, _gram(p.J), jnp.concatenate([p.A, p.G])
    if p.joint is not None:
        rest = jnp.concatenate([rest, p.joint.C])
    squares = jnp.diagonal(H), jnp.sum(rest * rest, axis=0)
    vectors = (p.r, p.b, p.h, p.ceilings, p.lower, p.upper)
    sizes = (jnp.abs(x) for x in (*squares, *vectors, *(() if p.joint is None else (p.joint.c,))))
    finite = every(p.joint, jnp.isfinite(sum(map(jnp.sum, sizes))))
    p, H, squares = jax.tree.map(
        lambda x: jnp.where(finite, x, 0.0), (replace(p, J=H[:0]), H, squares)
    )
    p = replace(p, J=J)  # not scaled: see ``ScaledProgram``

    in_J, in_rest = map(safe_sqrt, squares)
    noise = NOISE * jnp.finfo(in_J.dtype).eps * jnp.max(in_J, initial=0.0)
    d = _inverse(jnp.where((in_J > noise) | (in_rest == 0), in_J, in_rest))
    of_A, of_G = _inverse(safe_norm(p.A * d)), _inverse(safe_norm(p.G * d))
    fixed = jnp.where((in_J > 0) | (in_rest > 0), single, some)
    some_G, last = safe_norm(p.G) > 0, len(of_G) - len(ceiling)
    real_row = has_row & (some_G | (p.h > 0))
    real_ceiling = has_ceiling & (some_G[last:] | (p.ceilings < 0))
    p = replace(
        p, h=jnp.where(real_row, p.h, 0.0), ceiling=jnp.where(real_ceiling, p.ceilings, 0.0)
    )

    of_inequality = jnp.concatenate([1 / d[f:], 1 / d[f:], of_G, of_G[last:]])
    of_C = None if p.joint is None else _inverse(safe_sqrt(p.joint.total(_squares(p.joint.C * d))))
    unit_scale = ip.Scale(d, of_A, of_inequality, of_C, jnp.ones((), d.dtype), finite)
    of: dict[str, Any] = _fields(p, unit_scale) | dict(columns=d, finite=finite)
    pull = jnp.abs(jnp.where(finite, d * matmul(of["r"], J), 0.0))
    joint_sizes = [] if of["joint"] is None else [jnp.abs(of["joint"].c)]
    size = jnp.max(jnp.concatenate([pull, jnp.abs(of["b"]), of["d"], *joint_sizes]), initial=0.0)
    size = most(p.joint, size)
    size = jnp.where(size > 0, size, 1.0)
    of_C = None if of_C is None else of_C * size
    scale = ip.Scale(d * size, of_A * size, unit_scale.inequality * size, of_C, size, finite)
    if of["joint"] is not None:
        of["joint"] = replace(of["joint"], c=of["joint"].c / size)
    of |= {name: of[name] / size for name in ("r", "b", "d")}
    moves = ~fixed[f:]
    real = jnp.concatenate([has_lower & moves, has_upper & moves, real_row, real_ceiling])
    at = jnp.where(finite, at, 0.0) / scale.x
    H = d[:, None] * H * d + _gram(of["A"])
    return ScaledProgram(**of, real=real, fixed=fixed, at=at, H=H, free=f), scale


def _gram(rows: Array) -> Array:
    """Gram matrix rows^T rows, without a transpose, which would cost a kernel every number."""
    return lax.dot_general(rows, rows, (((0,), (0,)), ((), ())), precision=lax.Precision.HIGHEST)


def _squares(rows: Array) -> Array:
    return jnp.sum(rows * rows, axis=1)


def _of_all(free: int, x: Array, value: float | bool) -> Array:
    """Extend values x of the bounded unknowns to all unknowns, with ``value`` for the free ones."""
    return jnp.concatenate([jnp.full(free, value, x.dtype), x])


def _nearest_to_0(lower: Array, upper: Array) -> Array:
    """Number within two bounds nearest to 0; between equal bounds its tangent is their mean."""
    nearest = jnp.where(lower > 0, lower, jnp.where(upper < 0, upper, 0.0))
    return jnp.where(lower == upper, (lower + upper) / 2, nearest)


def _fields(p: QuadraticProgram, scale: ip.Scale) -> dict[str, Any]:
    """Numbers of a problem, or their tangents, in scaled units; J alone is not scaled."""
    nb, k = p.lower.shape[0], p.h.shape[0]
    d, size = scale.x / scale.size, scale.size
    of_A, of_G = scale.equality / size, scale.inequality[2 * nb : 2 * nb + k] / size
    of_bounds, of_ceiling = scale.x[len(d) - nb :], of_G[k - len(p.ceilings) :]
    floors, ceilings = p.h * of_G / size, p.ceilings * of_ceiling / size
    joint = p.joint
    if joint is not None and scale.joint is not None:
        of_C = scale.joint / size
        joint = replace(joint, C=joint.C * d * of_C[:, None], c=joint.c * of_C / size)
    return dict(
        J=p.J,
        r=p.r / size,
        A=p.A * d * of_A[:, None],
        b=p.b * of_A / size,
        G=p.G * d * of_G[:, None],
        d=jnp.concatenate([p.lower / of_bounds, -p.upper / of_bounds, floors, -ceilings]),
        joint=joint,
    )


def _inverse(length: Array) -> Array:
    return 1 / jnp.where(length > 0, length, 1.0)


def _cold(q: ScaledProgram) -> tuple[ip.Iterate, Array]:
    """Cold start: initial point without a previous solution, and the objective's gradient there."""
    none = None if q.joint is None else jnp.zeros_like(q.joint.c)
    p = _with_room(
        q, ip.Iterate(q.at, jnp.zeros_like(q.b), jnp.zeros_like(q.d), q.d, none), ip.COLD
    )
    return p, ip.gradient(q, p.x)


def _warm(q: ScaledProgram, scale: ip.Scale, start: Start) -> tuple[ip.Iterate, Array]:
    """Warm start: initial point from the solution of a similar problem, and the gradient there.

    A start that is not finite is ignored. Its multipliers are ignored if they leave a larger
    gradient of the Lagrangian than none do, as those of tasks of another weight.
    """
    finite = every(q.joint, jnp.isfinite(sum(jnp.sum(x) for x in jax.tree.leaves(start))))
    x = jnp.where(q.fixed, q.at, start.x / scale.x)
    z = [start.at_lower, start.at_upper, start.inequality, start.at_ceiling]
    z = jnp.concatenate(z) / scale.inequality
    x = jnp.where(finite, x, q.at)
    y = jnp.where(finite, start.equality / scale.equality, 0.0)
    z = jnp.where(finite & q.real, z, 0.0)
    w = None
    if q.joint is not None and scale.joint is not None:
        w = jnp.zeros_like(q.joint.c) if start.joint is None else start.joint / scale.joint
        w = jnp.where(finite, w, 0.0)
    s = jnp.where(q.real, jnp.maximum(ip.apply_constraints(q, x) - q.d, 0.0), 0.0)
    p, slope = ip.Iterate(x, y, z, s, w), ip.gradient(q, x)
    with_them = ip.residual(q, p, slope).gradient
    left = (most(q.joint, ip.left_over(q, x, each)) for each in (with_them, slope))
    helps = jnp.less_equal(*left)
    y, z, w = jax.tree.map(lambda x: jnp.where(helps, x, 0.0), (y, z, w))
    p = ip.Iterate(x, y, z, s, w)
    primal, dual, _ = ip.measures(q, p, ip.residual(q, p, slope))
    least = jnp.clip(ip.WARM * jnp.maximum(primal, dual), ip.LEAST, ip.COLD)
    return _with_room(q, p, jnp.where(finite, least, ip.COLD)), slope


def _with_room(q: ScaledProgram, p: ip.Iterate, least: Array | float) -> ip.Iterate:
    s = jnp.maximum(ip.apply_constraints(q, p.x) - q.d, least)
    z = jnp.maximum(p.z, least * jnp.minimum(1.0, 1 / s))  # small for a bound that is far away
    return replace(p, z=jnp.where(q.real, z, 0.0), s=jnp.where(q.real, s, 1.0))


class QPError(ValueError):
    """Raised by ``check`` for members of a batch that were not solved."""


def check(solution: QPSolution, names: Sequence[str] = ()) -> None:
    """Raise ``QPError`` if a member failed.

    The message has how many failed and how, violated rows, and remedies. names: those of
    ``QPSolution.violated``, rows of A, rows of G, unknowns. Not inside jit.
    """
    status = np.asarray(solution.status).reshape(-1)
    failed = status != SOLVED
    if not failed.any():
        return
    words = {
        UNFINISHED: "unfinished (allow more iterations, or a larger tolerance)",
        INFEASIBLE: "infeasible (make one of the rows named a task, or move its bound)",
        NOT_FINITE: "not finite (look for a NaN or an infinity in J, r, A, b, G, h or ceiling)",
    }
    parts = [f"{np.sum(status == s)} {text}" for s, text in words.items() if (status == s).any()]
    violated = np.asarray(solution.violated).reshape(len(status), -1)[failed].sum(axis=0)
    rows = [
        f"{names[k] if k < len(names) else f'row {k}'} ({violated[k]})"
        for k in np.argsort(-violated, kind="stable")[:10]
        if violated[k]
    ]
    text = f"{failed.sum()} of {len(status)} members failed, first {np.argmax(failed)}: "
    text += "; ".join(parts)
    raise QPError(text + (f"; violated in how many: {', '.join(rows)}" if rows else ""))
