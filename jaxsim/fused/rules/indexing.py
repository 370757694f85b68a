"""Lowering rules of reads and writes by index, known or computed."""

import itertools
import math

import numpy as np

from jaxsim.fused.errors import FuseError
from jaxsim.fused.lower import INSTEAD, Lowering, Stored, rule
from jaxsim.fused.program import Value
from jaxsim.fused.rules.elementwise import apply
from jaxsim.fused.rules.shapes import together

CHAIN = 8  # largest number of candidates that a computed index selects from without memory
SELECTS = 4096  # largest size of an array that is written at a computed index


@rule("dynamic_slice")
def _dynamic_slice(lowering, eqn, x, *starts):
    sizes = eqn.params["slice_sizes"]
    start = [_clamped(lowering, s, n - size) for s, n, size in zip(starts, x.shape, sizes)]
    return _window(lowering, x, start, sizes)


def _scalar(lowering: Lowering, x) -> Value | int:
    """Scalar index as an int if it is known, else as a value."""
    if not isinstance(x, (Stored, np.ndarray)):
        value = x
    else:
        value = lowering.objects(x).item()
    return int(value.data) if value.is_constant else value


def _clamped(lowering: Lowering, start, most: int) -> Value | int:
    """Clamp a start index to [0, most], as int32 where it is computed."""
    b = lowering.builder
    start = _scalar(lowering, start)
    if isinstance(start, int):
        return min(max(start, 0), most)
    if most == 0:
        return 0
    low, high = (b.constant(start.dtype.type(k)) for k in (0, most))
    start = b.op("min", b.op("max", start, low), high)
    if start.dtype != np.int32:
        start = b.op("convert", start, dtype=np.dtype(np.int32))
    return int(start.data) if start.is_constant else start


def _window(lowering: Lowering, x, start: list, sizes) -> np.ndarray | Stored:
    """Slice x[start : start + sizes], with starts that are in range."""
    b = lowering.builder
    computed = [d for d, s in enumerate(start) if not isinstance(s, int)]
    if not computed:
        index = tuple(slice(s, s + n) for s, n in zip(start, sizes))
        whole_rows = all(s == 0 and n == m for s, n, m in zip(start[1:], sizes[1:], x.shape[1:]))
        if isinstance(x, Stored) and start and whole_rows:
            return x.rows(start[0], start[0] + sizes[0])
        return lowering.objects(x)[index] if isinstance(x, Stored) else x[index]
    ranges = [x.shape[d] - sizes[d] + 1 for d in computed]
    strides = np.cumprod([1, *x.shape[:0:-1]])[::-1]
    out = np.empty(sizes, object)
    if isinstance(x, Stored) and math.prod(ranges) > CHAIN:
        strides = [x.pitch, *strides[1:]]
        base = b.constant(np.int32(x.start))
        for d, s in enumerate(start):
            s = b.constant(np.int32(s)) if isinstance(s, int) else s
            base = b.op("add", base, b.op("mul", s, b.constant(np.int32(strides[d]))))
        for at in np.ndindex(*sizes):
            offset = int(np.dot(at, strides))
            out[at] = b.load(x.memory, b.op("add", base, b.constant(np.int32(offset))))
        return out
    index = None  # flat index over the computed starts
    for d, count in zip(computed, ranges):
        step = start[d]
        if index is not None:
            step = b.op("add", b.op("mul", index, b.constant(np.int32(count))), step)
        index = step
    x = lowering.objects(x)
    assert index is not None
    for at in np.ndindex(*sizes):
        candidates = []
        for places in itertools.product(*map(range, ranges)):
            where_ = list(at)
            for d, s in enumerate(start):
                where_[d] += s if isinstance(s, int) else places[computed.index(d)]
            candidates.append(x[tuple(where_)])
        out[at] = b.pick(candidates, index, CHAIN)
    return out


def _mode(params) -> str:
    return str(params["mode"]).rsplit(".", 1)[-1].lower()


@rule("gather")
def _gather(lowering, eqn, x, indices):
    dims, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    fill = "fill" in _mode(eqn.params)
    b = lowering.builder
    indices = lowering.objects(indices)
    shape = eqn.outvars[0].aval.shape
    gone = (*dims.collapsed_slice_dims, *dims.operand_batching_dims)
    window = [n for d, n in enumerate(sizes) if d not in gone]
    batch_dims = [d for d in range(len(shape)) if d not in dims.offset_dims]
    rows = np.empty([shape[d] for d in batch_dims] + window, object)
    for at in np.ndindex(*indices.shape[:-1]):
        start: list = [0] * len(x.shape)
        for d, from_ in zip(dims.operand_batching_dims, dims.start_indices_batching_dims):
            start[d] = at[from_]
        inside = None
        for d, s in zip(dims.start_index_map, indices[at]):
            most = x.shape[d] - sizes[d]
            if fill:
                ok = _within(lowering, s, most)
                inside = ok if inside is None else b.op("and", inside, ok)
            start[d] = _clamped(lowering, s, most)
        part = _window(lowering, x, start, sizes)
        part = (lowering.objects(part) if isinstance(part, Stored) else part).reshape(window)
        if inside is not None and not (inside.is_constant and inside.data):
            filling = _filling(eqn, np.dtype(eqn.outvars[0].aval.dtype))
            scalar = np.empty((), object)
            scalar[()] = inside
            part = apply(lowering, "select", filling.dtype, scalar, part, filling)
        rows[at] = lowering.objects(part) if window else lowering.objects(part).item()
    order = np.argsort([*batch_dims, *dims.offset_dims])
    return np.transpose(rows, order) if rows.ndim else rows


def _within(lowering, s: Value, most: int) -> Value:
    b = lowering.builder
    high = b.constant(s.dtype.type(most)) if most >= 0 else b.constant(s.dtype.type(0))
    ok = b.op("le", s, high)
    if s.dtype.kind == "i":
        ok = b.op("and", ok, b.op("ge", s, b.constant(s.dtype.type(0))))
    return ok


def _filling(eqn, dtype: np.dtype) -> np.ndarray:
    value = eqn.params.get("fill_value")
    if value is None:
        value = (
            np.nan if dtype.kind == "f"
            else np.iinfo(dtype).min if dtype.kind == "i"
            else True if dtype.kind == "b"
            else np.iinfo(dtype).max
        )  # fmt: skip
    return np.asarray(value, dtype)


@rule("dynamic_update_slice")
def _dynamic_update_slice(lowering, eqn, x, update, *starts):
    start = [_clamped(lowering, s, n - m) for s, n, m in zip(starts, x.shape, update.shape)]
    x, update = together(lowering, x, update)
    return _written(lowering, eqn, x, [(start, update)], lambda old, new: new)


def _written(lowering, eqn, x, updates, combine) -> np.ndarray:
    """Copy x and write windows over it, one after the other."""
    b = lowering.builder
    out = lowering.objects(x).copy()
    for start, update in updates:
        update = lowering.objects(update)
        computed = [d for d, s in enumerate(start) if not isinstance(s, int)]
        ranges = [out.shape[d] - update.shape[d] + 1 for d in computed]
        if computed and out.size > SELECTS:
            raise FuseError(
                f"{lowering.place}: an array of {out.size} numbers is written at a computed index;"
                f" fused functions do so with up to {SELECTS}; return rows as the ys of a scan"
            )
        for places in itertools.product(*map(range, ranges)):
            here = None
            corner = list(start)
            for d, k in zip(computed, places):
                at = b.op("eq", start[d], b.constant(start[d].dtype.type(k)))
                here = at if here is None else b.op("and", here, at)
                corner[d] = k
            for offset in np.ndindex(*update.shape):
                at = tuple(c + o for c, o in zip(corner, offset))
                new = combine(out[at], update[offset])
                out[at] = new if here is None else b.op("select", here, new, out[at])
    return out


def _scatter_rule(combine_op: str | None):
    def scatter_rule(lowering, eqn, x, indices, updates):
        dims = eqn.params["dimension_numbers"]
        clip = "clip" in _mode(eqn.params)
        b = lowering.builder
        x, updates = together(lowering, x, updates)
        indices = lowering.objects(indices)
        batch_dims = [d for d in range(updates.ndim) if d not in dims.update_window_dims]
        updates = np.transpose(updates, [*batch_dims, *dims.update_window_dims])
        gone = {*dims.inserted_window_dims, *dims.operand_batching_dims}
        kept = [d for d in range(x.ndim) if d not in gone]
        window = [1] * x.ndim
        for d, size in zip(kept, updates.shape[len(batch_dims) :]):
            window[d] = size

        applied = None if combine_op else eqn.params["update_jaxpr"]  # of x.at[i].apply(function)

        def combine(old, new):
            if applied is not None:
                numbers = [np.full((), v, object) for v in (old, new)]
                return lowering.objects(
                    lowering.run(applied, eqn.params["update_consts"], numbers)[0]
                ).item()
            return new if combine_op is None else b.op(combine_op, old, new)

        written = []
        for at in np.ndindex(*indices.shape[:-1]):
            start: list = [0] * x.ndim
            for d, from_ in zip(dims.operand_batching_dims, dims.scatter_indices_batching_dims):
                start[d] = at[from_]
            dropped = False
            for d, s in zip(dims.scatter_dims_to_operand_dims, indices[at]):
                most = x.shape[d] - window[d]
                if clip:
                    start[d] = _clamped(lowering, s, most)
                else:
                    start[d] = _scalar(lowering, s)
                    dropped |= most < 0
                    if isinstance(start[d], int):
                        dropped |= not 0 <= start[d] <= most
            if not dropped:
                part = updates[at]
                part = lowering.objects(np.asarray(part)) if updates.dtype != object else part
                if not isinstance(part, np.ndarray):
                    alone = np.empty((), object)
                    alone[()] = part
                    part = alone
                written.append((start, part.reshape(window)))
        return _written(lowering, eqn, x, written, combine)

    return scatter_rule


rule("scatter")(_scatter_rule(None))
for _op in ("add", "sub", "mul", "min", "max"):
    rule(f"scatter-{_op}", f"scatter_{_op}")(_scatter_rule(_op))

_RANDOM = "draw random numbers outside and pass them in"
_SORTED = "select the least or greatest with argmin or min, or sort outside"
INSTEAD.update(
    sort=_SORTED,
    top_k=_SORTED,
    approx_top_k=_SORTED,
    **dict.fromkeys(
        ("random_bits", "random_seed", "random_wrap", "random_unwrap", "random_fold_in",
         "random_split", "threefry2x32", "random_gamma"),
        _RANDOM,
    ),
    lu="factor with cholesky",
    householder_product="factor with cholesky",
    qr="factor with cholesky",
    eigh="find eigenvalues outside",
    svd="use cholesky of the normal equations",
    pure_callback="call Python outside of the fused function",
    io_callback="call Python outside of the fused function",
    debug_callback="print outside of the fused function",
    debug_print="print outside of the fused function",
    conv_general_dilated="write it as a sum of products",
    erf_inv="use a table or a polynomial",
    lgamma="use a table or a polynomial",
    digamma="use a table or a polynomial",
)  # fmt: skip
