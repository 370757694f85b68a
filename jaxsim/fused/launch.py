"""Call a program on batches of JAX arrays: axes, dtypes, buffers, and the kernels kept for reuse."""

import math
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.api_util import flatten_axes

from jaxsim.fused import rules  # noqa: F401  (fills the table)
from jaxsim.fused.errors import FuseError
from jaxsim.fused.llvm import prepare
from jaxsim.fused.lower import lower
from jaxsim.fused.program import Memory, Program
from jaxsim.fused.replay import Replay

_TRACING = threading.Lock()


def fuse(fn: Callable, in_axes: Any = 0, platform: str = "cpu") -> Callable:
    """``fn`` of one character as one kernel over a batch."""

    def batched(*args):
        leaves, tree = jax.tree.flatten(args)
        axes = flatten_axes("in_axes", tree, tuple(in_axes) if isinstance(in_axes, (list, tuple)) else in_axes)
        leaves = [jnp.asarray(x) for x in leaves]
        batch = _batch(leaves, axes)
        kernel = _kernel(tree, tuple((x.shape, x.dtype) for x in leaves), tuple(axes))
        return kernel(leaves, batch)

    kernels: dict = {}

    def _kernel(tree, avals, axes):
        key = (tree, avals and tuple((_one(s, a), d) for (s, d), a in zip(avals, axes)), axes)
        if key not in kernels:
            specs = [jax.ShapeDtypeStruct(s, d) for s, d in key[1]]
            flat, out_tree = _traced(fn, tree, specs)
            program = lower(flat, [a is not None for a in axes])
            kernels[key] = Kernel(program, flat.out_avals, out_tree, axes, platform)
        return kernels[key]

    return batched


def _traced(fn, tree, specs):
    closed, out = jax.make_jaxpr(lambda *leaves: fn(*jax.tree.unflatten(tree, leaves)), return_shape=True)(*specs)
    return closed, jax.tree.structure(out)


def _one(shape, axis):
    return shape if axis is None else shape[:axis] + shape[axis:][1:]


def _batch(leaves, axes) -> int:
    sizes = {x.shape[a] for x, a in zip(leaves, axes) if a is not None}
    if len(sizes) != 1:
        raise FuseError(f"sizes {sizes}")
    return sizes.pop()


class Kernel:
    def __init__(self, program: Program, out_avals, out_tree, axes, platform):
        self.program, self.out_avals, self.out_tree, self.axes = program, out_avals, out_tree, axes
        self.platform = platform
        self._frozen = {}

    def __call__(self, leaves, batch: int):
        import drjit as dr

        types = prepare(self.platform)
        if batch not in self._frozen:
            def record(*flat):
                return self._record(dr, types, flat, batch)
            self._frozen[batch] = dr.freeze(record)
        flat = [self._buffer(types, x) for x in leaves]
        out = self._frozen[batch](*flat)
        dr.eval(out)
        dr.sync_thread()
        result = []
        for x, aval in zip(out, self.out_avals):
            result.append(jnp.asarray(np.array(x).reshape(batch, *aval.shape)))
        return jax.tree.unflatten(self.out_tree, result)

    def _buffer(self, types, x):
        name = {"float32": "Float", "float64": "Float64", "int32": "Int", "bool": "Bool", "uint32": "UInt", "int64": "Int64", "uint64":"UInt64"}[x.dtype.name]
        return getattr(types, name)(np.asarray(x).reshape(-1))

    def _record(self, dr, types, flat, batch):
        lane = dr.arange(types.UInt, batch)
        sizes = [math.prod(a.shape) for a in self.out_avals]
        rep = None

        def read(memory: Memory, at):
            own = self.axes[memory.leaf] is not None
            index = lane * memory.size + at if own else at
            return dr.gather(rep.type(memory.dtype), flat[memory.leaf], index)

        def write(leaf, at, value):
            value = value if dr.width(value) != 1 or batch == 1 else value
            dr.scatter(outs[leaf], value, lane * sizes[leaf] + at, mode=dr.ReduceMode.Permute)

        rep = Replay(dr, types, read, write)
        outs = [dr.zeros(rep.type(np.dtype(a.dtype)), batch * n) for a, n in zip(self.out_avals, sizes)]
        rep.run(self.program)
        return outs
