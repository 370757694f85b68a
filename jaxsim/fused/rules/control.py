"""Lowering rules of calls, branches and loops."""

import math
from functools import partial, reduce

import numpy as np

from jaxsim.fused.errors import FuseError
from jaxsim.fused.lower import Lowering, Stack, Stored, rule
from jaxsim.fused.program import Value
from jaxsim.fused.rules.elementwise import apply
from jaxsim.fused.rules.shapes import together
from jaxsim.fused.versions import expand, scan_parts
from jaxsim.fused.work import work

UNROLL = 6000  # a scan with no more work than this, counted before folding, is unrolled,
UNROLL_ROWS = 60_000  # and one over rows with no more than this, whose indices are then known
MOST_UNROLLED = 64  # rounds
BOTH = 200  # branches with no more work than this are all computed
THOROUGH = 10_000  # work of a body that may be lowered several times


@rule("jit", "pjit", "closed_call", "remat2", "checkpoint")
def _call(lowering, eqn, *args):
    return inline(lowering, eqn.params.get("jaxpr", eqn.params.get("call_jaxpr")), args)


@rule("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "eval_jaxpr")
def _custom_call(lowering, eqn, *args):
    jaxpr = eqn.params.get("call_jaxpr", eqn.params.get("fun_jaxpr"))
    return inline(lowering, jaxpr, args)


@rule("custom_vmap_call")
def _custom_batching(lowering, eqn, *args):
    """Inline the function of one member: lanes need no batching rule."""
    return inline(lowering, eqn.params["call"], args)


@rule("call_hi_primitive")
def _high_level(lowering, eqn, *args):
    return inline(lowering, expand(eqn), args)


def inline(lowering: Lowering, jaxpr, args):
    """Lower the equations of another jaxpr, open or closed, in place of an equation."""
    if hasattr(jaxpr, "consts"):
        return lowering.closed(jaxpr, args)
    return lowering.run(jaxpr, (), args)


@rule("platform_index")
def _platform_index(lowering, eqn):
    """Rule of ``lax.platform_dependent``: the platform "fused" if it is named, else the CPU's."""
    platforms = eqn.params["platforms"]
    for wanted in ("fused", "cpu"):
        for k, names in enumerate(platforms):
            if names is not None and wanted in names:
                return np.asarray(k, np.int32)
    return np.asarray(platforms.index(None) if None in platforms else 0, np.int32)


@rule("cond")
def _cond(lowering, eqn, which, *args):
    """Rule of cond: small branches are all computed, as under vmap; a lane runs one large one."""
    branches = eqn.params["branches"]
    if not isinstance(which, Stored) and which.dtype != object:
        index = min(max(int(which), 0), len(branches) - 1)
        return lowering.closed(branches[index], args)
    if sum(work(branch.jaxpr) for branch in branches) > BOTH:
        return _branched(lowering, eqn, which, branches, args)
    results = [lowering.closed(branch, args) for branch in branches]
    out = results[-1]
    for k in range(len(branches) - 2, -1, -1):
        here = _chosen(lowering, eqn, which, k)
        out = [
            apply(lowering, "select", v.aval.dtype, here, mine, other)
            for v, mine, other in zip(eqn.outvars, results[k], out)
        ]
    return out


def _chosen(lowering: Lowering, eqn, which, k: int):
    """Test for branch k, among those from k on."""
    dtype = np.dtype(eqn.invars[0].aval.dtype)
    if dtype.kind == "b":
        return apply(lowering, "not", bool, which)
    return apply(lowering, "le", bool, which, np.asarray(k, dtype))


def _branched(lowering: Lowering, eqn, which, branches, args, first: int = 0) -> list:
    """Lower a cond as nested branches: the branch ``first``, or else one of the later ones."""
    if first == len(branches) - 1:
        return lowering.closed(branches[first], args)
    condition = lowering.objects(_chosen(lowering, eqn, which, first)).item()
    packed: list[_Packed] = []

    def run(branch):
        packed.append(_Packed(lowering, branch()))
        return packed[-1].values

    out = lowering.builder.branch(
        condition,
        lambda: run(lambda: lowering.closed(branches[first], args)),
        lambda: run(lambda: _branched(lowering, eqn, which, branches, args, first + 1)),
    )
    return packed[0].unpack(out)


@rule("while")
def _while(lowering, eqn, *args):
    p, b = eqn.params, lowering.builder
    n_cond, n_body = p["cond_nconsts"], p["body_nconsts"]
    of_cond, of_body, carry = (
        args[:n_cond],
        args[n_cond : n_cond + n_body],
        args[n_cond + n_body :],
    )

    def goes_on(values) -> np.ndarray:
        return lowering.objects(lowering.closed(p["cond_jaxpr"], [*of_cond, *values])[0])

    def some(more: np.ndarray) -> Value:
        return reduce(partial(b.op, "or"), more.reshape(-1))

    first = goes_on(carry)
    lanes = [first] if first.ndim else []  # members of a vmap, which do not change after their end
    packed = _Packed(lowering, [*lanes, *carry])

    def body(_, values):
        old = packed.unpack(values[1:])
        which, old = old[: len(lanes)], old[len(lanes) :]
        new = lowering.closed(p["body_jaxpr"], [*of_body, *old])
        for more in which:
            new = [_where(lowering, v, more, *both) for v, *both in zip(eqn.outvars, new, old)]
        more = goes_on(new)
        packed.check(lowering, eqn, [*([more] if lanes else []), *new])
        return [some(more), *packed.flatten([*([more] if lanes else []), *new])]

    small = work(p["body_jaxpr"].jaxpr) <= THOROUGH
    results = b.loop([some(first), *packed.values], None, body, alive=0, thorough=small)
    return packed.unpack(results[1:])[len(lanes) :]


def _where(lowering: Lowering, var, which, yes, no):
    """Select rows of one array or the other."""
    which = which.reshape(which.shape + (1,) * (len(yes.shape) - which.ndim))
    return apply(lowering, "select", var.aval.dtype, which, yes, no)


class _Packed:
    """Conversion of arrays to one list of values, and back."""

    def __init__(self, lowering: Lowering, arrays):
        self.lowering = lowering
        self.shapes = [a.shape for a in arrays]
        self.values = self.flatten(arrays)

    def flatten(self, arrays) -> list[Value]:
        return [v for a in arrays for v in self.lowering.objects(a).reshape(-1)]

    def unpack(self, values) -> list[np.ndarray]:
        out, start = [], 0
        for shape in self.shapes:
            size = math.prod(shape)
            flat = np.empty(size, object)
            flat[:] = values[start : start + size]
            out.append(self.lowering.known(flat.reshape(shape)))
            start += size
        return out

    def check(self, lowering, eqn, arrays):
        for shape, array in zip(self.shapes, arrays):
            if shape != array.shape:
                raise FuseError(f"{lowering.place}: a carry changes shape {shape} to {array.shape}")


@rule("scan")
def _scan(lowering, eqn, *args):
    n_consts, n_carry = scan_parts(eqn)
    consts, carry = list(args[:n_consts]), list(args[n_consts : n_consts + n_carry])
    xs = args[n_consts + n_carry :]
    way = _looped if stays_loop(eqn) else _unrolled
    return way(lowering, eqn, consts, carry, xs)


def stays_loop(eqn) -> bool:
    """True if a scan becomes a loop; else it is unrolled."""
    p = eqn.params
    rows = len(eqn.invars) > sum(scan_parts(eqn))
    most = UNROLL_ROWS if rows else UNROLL
    short = p["length"] <= MOST_UNROLLED and p["length"] * work(p["jaxpr"].jaxpr) <= most
    return not (short or p["length"] <= 1)


def _unrolled(lowering, eqn, consts, carry, xs):
    p, n_carry = eqn.params, len(carry)
    order = range(p["length"])
    xs = [lowering.objects(x) if isinstance(x, Stored) else x for x in xs]
    rows: dict[int, list] = {}
    for k in reversed(order) if p["reverse"] else order:
        row = (np.asarray(x[k], x.dtype) for x in xs)
        out = lowering.closed(p["jaxpr"], [*consts, *carry, *row])
        carry, rows[k] = out[:n_carry], out[n_carry:]
    stacked = []
    for j, var in enumerate(eqn.outvars[n_carry:]):
        if not rows:
            stacked.append(np.zeros(var.aval.shape, var.aval.dtype))
            continue
        stacked.append(np.stack(together(lowering, *(rows[k][j] for k in range(len(rows))))))
    return [*carry, *stacked]


def _looped(lowering, eqn, consts, carry, xs):
    p, b = eqn.params, lowering.builder
    length, jaxpr = p["length"], p["jaxpr"]
    packed = _Packed(lowering, carry)
    last = b.constant(np.int32(length - 1))
    stacked = [var.aval for var in eqn.outvars[len(carry) :]]
    stacks: list[Stack] = []
    readers = [_rows_of(lowering, x, length) for x in xs]
    fixed = _fixed_carries(jaxpr.jaxpr, len(consts), packed.shapes)

    def body(counter, values):
        at = b.op("sub", last, counter) if p["reverse"] else counter
        out = lowering.closed(jaxpr, [*consts, *packed.unpack(values), *(r(at) for r in readers)])
        rows = (list(lowering.objects(row).flat) for row in out[len(carry) :])
        stacks[:] = [
            Stack(b, b.block, at, length, np.dtype(aval.dtype), row)
            for aval, row in zip(stacked, rows)
        ]
        return packed.flatten(out[: len(carry)])

    small = work(jaxpr.jaxpr) <= THOROUGH
    results = b.loop(packed.values, length, body, fixed=fixed, thorough=small)
    return [*packed.unpack(results), *map(Stored, stacks, (aval.shape for aval in stacked))]


def _fixed_carries(jaxpr, n_consts: int, shapes: list[tuple[int, ...]]) -> list[int]:
    """Indices of the values of carries that a body does not change."""
    fixed, start = [], 0
    for k, size in enumerate(map(math.prod, shapes)):
        if jaxpr.outvars[k] is jaxpr.invars[n_consts + k]:
            fixed.extend(range(start, start + size))
        start += size
    return fixed


def _rows_of(lowering: Lowering, x, length: int):
    """Function of the counter that loads x[counter]."""
    b = lowering.builder
    row = x.shape[1:]
    size = math.prod(row)
    if not size:
        return lambda at: np.zeros(row, x.dtype)
    if isinstance(x, Stored):
        memory, begin, pitch = x.memory, x.start, x.pitch
    else:
        columns = lowering.objects(x).reshape(length, size)
        same = [all(v is column[0] for v in column) for column in columns.T]
        if all(same):
            return lambda at: lowering.known(columns[0].reshape(row))
        memory, begin, pitch = b.stored(list(columns.reshape(-1))), 0, size

    def read(at):
        start = b.op("mul", at, b.constant(np.int32(pitch)))
        flat = np.empty(size, object)
        for k in range(size):
            flat[k] = b.load(memory, b.op("add", start, b.constant(np.int32(begin + k))))
        return flat.reshape(row)

    return read
