"""Lowering rules of reductions, matrix products and factorisations."""

import math
from functools import partial
from types import SimpleNamespace

import numpy as np

from jaxsim.fused.builder import ProgramBuilder
from jaxsim.fused.errors import NoRule
from jaxsim.fused.lower import Stored, no_rule_message, rule
from jaxsim.fused.rules import tiles
from jaxsim.fused.rules.elementwise import apply
from jaxsim.fused.rules.tile_memory import Matrix

RUN = 9  # terms that are summed one after the other; longer sums are halved
MOST_ROWS = 24  # of a matrix whose Cholesky factor is unrolled; larger ones use loops
MOST_PRODUCTS = 12_000  # of an unrolled product of two matrices
MOST_OF_A_MATRIX = 4_000  # of an unrolled product of a matrix and a vector
FULL = 0.25  # least share of a product's entries with a term for which a loop adds it


def total(b: ProgramBuilder, terms: list, dtype):
    """Sum of values, in halves, so that a long sum is no long chain."""
    if not terms:
        return b.constant(np.zeros((), dtype))
    terms = [t for t in terms if not (t.is_constant and t.data == 0)] or terms[:1]
    if len(terms) > RUN:
        half = len(terms) // 2
        return b.op("add", total(b, terms[:half], dtype), total(b, terms[half:], dtype))
    result = terms[0]
    for term in terms[1:]:
        result = b.op("add", result, term)
    return result


def _over_axes(lowering, x, axes, combine):
    """Reduce an array over some axes by ``combine(list of values)``."""
    x = lowering.objects(x)
    kept = [d for d in range(x.ndim) if d not in axes]
    rows = np.transpose(x, [*kept, *axes])
    shape = rows.shape[: len(kept)]
    rows = rows.reshape(math.prod(shape), math.prod(rows.shape[len(kept) :]))
    out = np.empty(len(rows), object)
    for k, row in enumerate(rows):
        out[k] = combine(list(row))
    return out.reshape(shape)


@rule("reduce_sum")
def _reduce_sum(lowering, eqn, x):
    dtype = eqn.outvars[0].aval.dtype
    combine = partial(total, lowering.builder, dtype=dtype)
    return _over_axes(lowering, x, eqn.params["axes"], combine)


def _reduction(op: str, identity):
    def reduce_rule(lowering, eqn, x):
        dtype = np.dtype(eqn.outvars[0].aval.dtype)

        def combine(row):
            if not row:
                return lowering.builder.constant(np.asarray(identity(dtype), dtype))
            while len(row) > 1:
                pairs = [
                    lowering.builder.op(op, *row[k : k + 2]) for k in range(0, len(row) - 1, 2)
                ]
                row = pairs + row[len(row) - len(row) % 2 :]
            return row[0]

        return _over_axes(lowering, x, eqn.params["axes"], combine)

    return reduce_rule


def _least(dtype):
    return -np.inf if dtype.kind == "f" else False if dtype.kind == "b" else np.iinfo(dtype).min


def _greatest(dtype):
    return np.inf if dtype.kind == "f" else True if dtype.kind == "b" else np.iinfo(dtype).max


for _name, _op, _identity in (
    ("reduce_max", "max", _least),
    ("reduce_min", "min", _greatest),
    ("reduce_prod", "mul", lambda dtype: 1),
    ("reduce_and", "and", lambda dtype: np.invert(np.zeros((), dtype))),
    ("reduce_or", "or", lambda dtype: 0),
    ("reduce_xor", "xor", lambda dtype: 0),
):
    rule(_name)(_reduction(_op, _identity))


def _across(reduce_rule):
    """Rule of a reduction over members of a ``vmap`` inside the function, by positional axes."""

    def across_rule(lowering, eqn, *operands):
        named = any(isinstance(axis, str) for axis in eqn.params["axes"])
        if named or eqn.params["axis_index_groups"] is not None:
            raise NoRule(no_rule_message(eqn, lowering.place))
        ends = (SimpleNamespace(params=eqn.params, outvars=[out]) for out in eqn.outvars)
        return [reduce_rule(lowering, end, x) for end, x in zip(ends, operands, strict=True)]

    return across_rule


for _name, _op, _identity in (("pmax", "max", _least), ("pmin", "min", _greatest)):
    rule(_name)(_across(_reduction(_op, _identity)))
rule("psum")(_across(_reduce_sum))


def _arg_extreme(better: str):
    def arg_rule(lowering, eqn, x):
        b = lowering.builder
        index = np.dtype(eqn.params["index_dtype"])

        def combine(row):
            best, at = row[0], b.constant(index.type(0))
            for k, value in enumerate(row[1:], 1):
                wins = b.op(better, value, best)
                if value.dtype.kind == "f":  # the first NaN wins
                    is_nan = b.op("ne", value, value)
                    wins = b.op("or", wins, b.op("and", is_nan, b.op("eq", best, best)))
                at = b.op("select", wins, b.constant(index.type(k)), at)
                best = b.op("select", wins, value, best)
            return at

        return _over_axes(lowering, x, eqn.params["axes"], combine)

    return arg_rule


rule("argmax")(_arg_extreme("gt"))
rule("argmin")(_arg_extreme("lt"))


def _cumulative(op: str):
    def cumulative_rule(lowering, eqn, x):
        axis, dtype = eqn.params["axis"], eqn.outvars[0].aval.dtype
        out = np.moveaxis(lowering.objects(x).copy(), axis, 0)
        rows = out[::-1] if eqn.params["reverse"] else out  # views of out
        for k in range(1, len(rows)):
            rows[k : k + 1] = apply(lowering, op, dtype, rows[k - 1 : k], rows[k : k + 1])
        return np.moveaxis(out, 0, axis)

    return cumulative_rule


for _name, _op in (("cumsum", "add"), ("cumprod", "mul"), ("cummax", "max"), ("cummin", "min")):
    rule(_name)(_cumulative(_op))


@rule("dot_general")
def _dot_general(lowering, eqn, x, y):
    (cx, cy), (bx, by) = eqn.params["dimension_numbers"]
    dtype = np.dtype(eqn.outvars[0].aval.dtype)
    found = _product_in_memory(lowering, x, y, cx, cy, dtype)
    if found is not None:
        return found
    x, y = (
        lowering.objects(a if v.aval.dtype == dtype else apply(lowering, "convert", dtype, a))
        for v, a in zip(eqn.invars, (x, y))
    )
    fx = [d for d in range(x.ndim) if d not in (*cx, *bx)]
    fy = [d for d in range(y.ndim) if d not in (*cy, *by)]
    count = [int(np.prod([a.shape[d] for d in dims], dtype=int))
             for a, dims in ((x, bx), (x, fx), (y, fy), (x, cx))]  # fmt: skip
    batch, rows, columns, inner = count
    left = np.transpose(x, (*bx, *fx, *cx)).reshape(batch, rows, inner)
    right = np.transpose(y, (*by, *fy, *cy)).reshape(batch, columns, inner)
    out = np.empty((batch, rows, columns), object)
    for n in range(batch):
        out[n] = _product(lowering.builder, left[n], right[n], dtype)
    return out.reshape(eqn.outvars[0].aval.shape)


def _product_in_memory(lowering, x, y, cx, cy, dtype) -> np.ndarray | None:
    """Product of a large matrix in memory with a vector or with itself, by loops over tiles.

    None for other operands.
    """
    matrices = [a for a in (x, y) if _is_large(a, dtype)]
    if not matrices or len(cx) != 1:
        return None
    m = matrices[0]
    if x is y and (tuple(cx), tuple(cy)) == ((0,), (0,)):
        n = m.shape[1]
        tiled = _in_tiles(lowering.builder, m)
        return tiles.product_of(tiled, tiled)[:n, :n]
    other, (along,) = (y, cx) if m is x else (x, cy)
    if len(other.shape) != 1:
        return None
    vector = lowering.objects(other)
    if vector[0].dtype != dtype:
        return None
    tiled = _in_tiles(lowering.builder, m)
    return tiles.times_of(tiled, vector, transposed=along == 0)[: m.shape[1 - along]]


def _is_large(a, dtype) -> bool:
    """True for a matrix in memory that is too large to unroll."""
    stored = isinstance(a, Stored) and len(a.shape) == 2 and a.dtype == dtype
    return stored and a.size > MOST_OF_A_MATRIX and min(a.shape) > 1


def _in_tiles(b: ProgramBuilder, m: Stored) -> Matrix:
    """Copy of a matrix in tiles, made once, as far out as possible, and reused while valid."""
    if m.in_tiles is None or not m.in_tiles.places[0, 0].home.open:
        with b.within(b.outermost(m.memory)):
            m.in_tiles = Matrix.copied(b, m.memory, m.shape, m.start, m.pitch)
    return m.in_tiles


def _product(b: ProgramBuilder, left: np.ndarray, right: np.ndarray, dtype) -> np.ndarray:
    """Product left right^T (p, q) of objects left (p, m) and right (q, m).

    In a large product, the terms that many entries have are added by loops over tiles.
    """
    if _is_mask(left):
        return _sums(b, left, right, dtype)
    if _is_mask(right):
        return _sums(b, right, left, dtype).T
    if 1 in (len(left), len(right)):
        return _product_with_vector(b, left, right, dtype)
    filled = _filled(left), _filled(right)
    terms = filled[0].sum(axis=0) * filled[1].sum(axis=0)
    dense = np.flatnonzero(terms > FULL * len(left) * len(right))
    same = left.shape == right.shape and all(a is c for a, c in zip(left.flat, right.flat))
    looped = np.sum(terms[dense]) > MOST_PRODUCTS
    of_loops = None
    if looped:
        part = left[:, dense]
        of_loops = tiles.product(b, part, part if same else right[:, dense])
        for rows in filled:
            rows[:, dense] = False
    out = np.empty((len(left), len(right)), object)
    for i, j in np.ndindex(out.shape):
        both = np.flatnonzero(filled[0][i] & filled[1][j])
        products = [b.op("mul", left[i, k], right[j, k]) for k in both]
        out[i, j] = total(b, products if of_loops is None else [of_loops[i, j], *products], dtype)
    return out


def _is_mask(m: np.ndarray) -> bool:
    """True for a matrix of constants 0 and 1 with more than one column."""
    return m.shape[1] > 1 and all(v.is_constant and v.data in (0, 1) for v in m.flat)


def _sums(b: ProgramBuilder, mask: np.ndarray, right: np.ndarray, dtype) -> np.ndarray:
    """Product mask right^T (p, q), with partial sums shared between rows.

    A row's sum is used in the sums that contain it, as in those of the branches of a tree.
    """
    picked = [frozenset(np.flatnonzero([v.data for v in row])) for row in mask]
    out = np.empty((len(mask), len(right)), object)
    sums: dict[frozenset, np.ndarray] = {}  # smaller ones first
    for k in sorted(range(len(mask)), key=lambda k: len(picked[k])):
        rest, parts = picked[k], []
        for known in reversed(sums):
            if known <= rest:
                rest, parts = rest - known, [*parts, sums[known]]
        for j, row in enumerate(right):
            terms = [part[j] for part in parts] + [row[m] for m in sorted(rest)]
            out[k, j] = total(b, terms, dtype)
        if len(picked[k]) > 1:
            sums[picked[k]] = out[k]
    return out


def _product_with_vector(
    b: ProgramBuilder, left: np.ndarray, right: np.ndarray, dtype
) -> np.ndarray:
    """Product left right^T where one of both is a single row; a large full matrix uses tiles."""
    matrix, vector = (left, right[0]) if len(right) == 1 else (right, left[0])
    filled = _filled(matrix) & _filled(vector[None])
    count = np.sum(filled)
    if count > MOST_OF_A_MATRIX and count > 0.5 * matrix.size:
        out = tiles.times(b, matrix, vector)
    else:
        out = np.empty(len(matrix), object)
        for i, row in enumerate(matrix):
            both = np.flatnonzero(filled[i])
            out[i] = total(b, [b.op("mul", row[k], vector[k]) for k in both], dtype)
    return out.reshape(len(left), len(right))


def _filled(rows: np.ndarray) -> np.ndarray:
    """(p, m) bool: entries (p, m) that are not known to be zero."""
    filled = [not (v.is_constant and v.data == 0) for v in rows.flat]
    return np.array(filled, bool).reshape(rows.shape)


@rule("cholesky")
def _cholesky(lowering, eqn, a):
    a = lowering.objects(a)
    make = lowering.builder.op
    zero = lowering.builder.constant(np.zeros((), eqn.invars[0].aval.dtype))
    out = np.full(a.shape, zero, object)
    n = a.shape[-1]
    for batch in np.ndindex(a.shape[:-2]):
        m, L = a[batch], out[batch]
        if n > MOST_ROWS:
            L[...] = tiles.cholesky(lowering.builder, m)
            continue
        for j in range(n):
            squares = [make("neg", make("mul", v, v)) for v in L[j, :j]]
            L[j, j] = make("sqrt", total(lowering.builder, [m[j, j], *squares], zero.dtype))
            for i in range(j + 1, n):
                products = [make("neg", make("mul", v, w)) for v, w in zip(L[i, :j], L[j, :j])]
                rest = total(lowering.builder, [m[i, j], *products], zero.dtype)
                L[i, j] = make("div", rest, L[j, j])
    return out


@rule("triangular_solve")
def _triangular_solve(lowering, eqn, a, b):
    p = eqn.params
    left, unit = bool(p["left_side"]), bool(p["unit_diagonal"])
    a, b = lowering.objects(a), lowering.objects(b)
    if not left:  # x a = b is a^T x^T = b^T
        b = np.swapaxes(b, -1, -2)
    if not p["lower"]:  # the transpose of a lower triangle
        a = np.swapaxes(a, -1, -2)
    transposed = (not p["lower"]) ^ (not left) ^ bool(p["transpose_a"])
    way = _solve if a.shape[-1] <= MOST_ROWS else tiles.solve
    out = np.empty(b.shape, object)
    for batch in np.ndindex(b.shape[:-2]):
        out[batch] = way(lowering.builder, a[batch], b[batch], transposed, unit)
    return out if left else np.swapaxes(out, -1, -2)


def _solve(b: ProgramBuilder, m, right, transposed: bool, unit: bool) -> np.ndarray:
    """Solve m^-1 right (n, k) for a lower triangle m (n, n), or m^-T right."""
    m = m.T if transposed else m
    x, order = np.empty(right.shape, object), range(len(m))[:: -1 if transposed else 1]
    for column in range(right.shape[1]):
        for done, i in enumerate(order):
            products = [b.op("neg", b.op("mul", m[i, k], x[k, column])) for k in order[:done]]
            rest = total(b, [right[i, column], *products], m[i, i].dtype)
            x[i, column] = rest if unit else b.op("div", rest, m[i, i])
    return x
