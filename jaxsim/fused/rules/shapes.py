"""Lowering rules that move elements without computing numbers."""

from dataclasses import replace

import numpy as np

from jaxsim.fused.lower import Lowering, Stack, Stored, rule


def _array(lowering: Lowering, x):
    """Convert a stored array to objects, which numpy can index."""
    return lowering.objects(x) if isinstance(x, Stored) else x


def together(lowering: Lowering, *arrays) -> list[np.ndarray]:
    """Convert arrays to all numeric, or all objects, so that numpy can join them."""
    arrays = [_array(lowering, a) for a in arrays]
    if any(a.dtype == object for a in arrays):
        return [lowering.objects(a) for a in arrays]
    return arrays


@rule("broadcast_in_dim")
def _broadcast_in_dim(lowering, eqn, x, *_):
    shape = eqn.outvars[0].aval.shape
    x, dims = _array(lowering, x), eqn.params["broadcast_dimensions"]
    middle = [1] * len(shape)
    for size, dim in zip(x.shape, dims):
        middle[dim] = size
    x = np.transpose(x, np.argsort(dims))
    return np.broadcast_to(x.reshape(middle), shape)


@rule("reshape", "squeeze", "expand_dims")
def _reshape(lowering, eqn, x, *_):
    shape = eqn.outvars[0].aval.shape
    if isinstance(x, Stored):
        return x.reshaped(shape) or lowering.objects(x).reshape(shape)
    return x.reshape(shape)


@rule("transpose")
def _transpose(lowering, eqn, x):
    return np.transpose(_array(lowering, x), eqn.params["permutation"])


@rule("rev")
def _rev(lowering, eqn, x):
    return np.flip(_array(lowering, x), eqn.params["dimensions"])


@rule("concatenate")
def _concatenate(lowering, eqn, *xs):
    axis = eqn.params["dimension"]
    stack = _side_by_side(lowering, xs) if axis == 1 and len(xs[0].shape) == 2 else None
    if stack is not None:
        return Stored(stack, eqn.outvars[0].aval.shape)
    return np.concatenate(together(lowering, *xs), axis=axis)


def _side_by_side(lowering: Lowering, xs) -> Stack | None:
    """Join rows that one loop stacks, and constants equal in each row, to wider rows of it."""
    stacks = [x.stack if isinstance(x, Stored) else None for x in xs]
    first = next(filter(None, stacks), None)
    if first is None:
        return None
    values = []
    for x, stack in zip(xs, stacks):
        if stack is not None and (stack.body, stack.at) == (first.body, first.at):
            values.extend(stack.values)
        elif isinstance(x, np.ndarray) and x.dtype != object and (x == x[:1]).all():
            values.extend(lowering.objects(x[0]))
        else:
            return None
    return replace(first, values=values)


@rule("stack")
def _stack(lowering, eqn, *xs):
    return np.stack(together(lowering, *xs), axis=eqn.params["axis"])


@rule("unstack")
def _unstack(lowering, eqn, x):
    return list(np.moveaxis(_array(lowering, x), eqn.params["axis"], 0))


@rule("tile")
def _tile(lowering, eqn, x):
    return np.tile(_array(lowering, x), eqn.params["reps"])


@rule("split")
def _split(lowering, eqn, x):
    ends = np.cumsum(eqn.params["sizes"])[:-1]
    return list(np.split(_array(lowering, x), ends, axis=eqn.params["axis"]))


@rule("slice")
def _slice(lowering, eqn, x):
    first, last = eqn.params["start_indices"], eqn.params["limit_indices"]
    steps = eqn.params["strides"] or (1,) * len(first)
    if isinstance(x, Stored) and first and all(step == 1 for step in steps):
        if (*first[1:], *last[1:]) == (*(0 for _ in x.shape[1:]), *x.shape[1:]):
            return x.rows(first[0], last[0])
        if len(first) == 2 and (first[0], last[0]) == (0, x.shape[0]):
            return x.columns(first[1], last[1])
    return _array(lowering, x)[tuple(map(slice, first, last, steps))]


@rule("pad")
def _pad(lowering, eqn, x, filling):
    x, filling = together(lowering, x, filling)
    config = eqn.params["padding_config"]
    out = np.empty(eqn.outvars[0].aval.shape, x.dtype)
    out[...] = filling[()] if filling.dtype != object else filling.item()
    from_, to = [], []
    for size, (low, _, inner), total in zip(x.shape, config, out.shape):
        place = low + np.arange(size) * (inner + 1)
        kept = np.flatnonzero((place >= 0) & (place < total))
        from_.append(kept)
        to.append(place[kept])
    out[np.ix_(*to)] = x[np.ix_(*from_)]
    return out


@rule("iota")
def _iota(lowering, eqn, *_):
    shape, dimension = eqn.params["shape"], eqn.params["dimension"]
    counts = np.arange(shape[dimension]).astype(eqn.params["dtype"])
    middle = [1] * len(shape)
    middle[dimension] = shape[dimension]
    return np.broadcast_to(counts.reshape(middle), shape)


@rule("empty", "empty2")
def _empty(lowering, eqn, *_):
    aval = eqn.outvars[0].aval
    return np.zeros(aval.shape, aval.dtype)
