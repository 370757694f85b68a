"""Gradient of a fused function: two more kernels, from the jaxprs of JAX's vjp.

The forward kernel returns, besides the outputs, the residuals of the backward kernel. The scans
that stay loops are checkpointed: the forward kernel saves their carries, the backward kernel
recomputes a round from them and differentiates it. Arrays that
``jax.ad_checkpoint.checkpoint_name`` names "costly" are saved as well, and not recomputed.
"""

import math
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, jaxpr_as_fun

from jaxsim.fused.call import call
from jaxsim.fused.launch import Kernel
from jaxsim.fused.replay import PACKET
from jaxsim.fused.rules.control import stays_loop
from jaxsim.fused.versions import scan_parts

_KEPT = jax.checkpoint_policies.save_only_these_names("costly")


def differentiable(kernel: Kernel):
    """Function of ``own``, ``batch`` (see ``call``) and leaves that runs a kernel, with a vjp."""
    pair: list[_Pair] = []

    @partial(jax.custom_vjp, nondiff_argnums=(0, 1))
    def run(own, batch, *leaves):
        return call(kernel, leaves, own, batch)

    def forward(own, batch, *leaves):
        if not pair:
            pair.append(_Pair(kernel))
        return pair[0].forward(leaves, own, batch)

    def backward(own, batch, kept, cotangents):
        return pair[0].backward(kept, cotangents, own, batch)

    run.defvjp(forward, backward)
    return run


class _Pair:
    """Forward and backward kernel of a fused function."""

    def __init__(self, kernel: Kernel):
        avals, function = kernel.in_avals, jaxpr_as_fun(_checkpointed(kernel.jaxpr))
        self.float_inputs = [
            k for k, a in enumerate(avals) if jnp.issubdtype(a.dtype, jnp.floating)
        ]
        self.count = len(avals)
        self.outs = [
            k for k, a in enumerate(kernel.out_avals) if jnp.issubdtype(a.dtype, jnp.floating)
        ]

        def with_pull(*leaves):
            def of_floats(*floats):
                full = list(leaves)
                for k, x in zip(self.float_inputs, floats):
                    full[k] = x
                out = function(*full)
                return [out[k] for k in self.outs], out

            _, pull, out = jax.vjp(of_floats, *(leaves[k] for k in self.float_inputs), has_aux=True)
            return out, pull

        specs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
        closed, (out, pull) = jax.make_jaxpr(with_pull, return_shape=True)(*specs)
        self.n_out = len(out)
        tree = jax.tree.structure(pull)
        beside = _Beside(closed.jaxpr, self.n_out)

        def forth(*leaves):
            out = jaxpr_as_fun(closed)(*leaves)
            return out[: self.n_out], beside.joined(out[self.n_out :])

        whole = Kernel(jax.make_jaxpr(forth)(*specs))
        saved = whole.out_avals[self.n_out :]
        # Residuals that are known when the kernel is made, as of the model, become constants.
        known = {k - self.n_out: x for k, x in whole.known().items() if k >= self.n_out}
        passed = [k for k in range(len(saved)) if k not in known]
        self._forward = whole.returning([*range(self.n_out), *(self.n_out + k for k in passed)])

        def back(given, cotangents):
            full = {**known, **dict(zip(passed, given))}
            residuals = beside.apart([full[k] for k in range(len(saved))])
            return list(jax.tree.unflatten(tree, residuals)(cotangents))

        cotangents = [jax.ShapeDtypeStruct(out[k].shape, out[k].dtype) for k in self.outs]
        given = [jax.ShapeDtypeStruct(saved[k].shape, saved[k].dtype) for k in passed]
        self._backward = Kernel(jax.make_jaxpr(back)(given, cotangents))

    def forward(self, leaves, own, batch):
        """Run the forward kernel: outputs, and residuals for the backward kernel."""
        out = call(self._forward, leaves, own, batch)
        return out[: self.n_out], out[self.n_out :]

    def backward(self, kept, cotangents, own, batch):
        """Run the backward kernel: cotangents of the leaves, None for those that are no floats.

        That of a shared leaf is the sum over all lanes.
        """
        given = [*kept, *(cotangents[k] for k in self.outs)]
        out = call(self._backward, given, (batch is not None,) * len(given), batch)
        full: list = [None] * self.count
        for k, x in zip(self.float_inputs, out):
            full[k] = x if own[k] or batch is None else jnp.sum(x, axis=0)
        return tuple(full)


class _Beside:
    """Layout that joins the arrays that one loop stacks to one array.

    Its rows have a multiple of ``PACKET`` numbers, which kernels write and read that many at a
    time.
    """

    def __init__(self, jaxpr: Jaxpr, first: int):
        """Group the jaxpr's outputs from index ``first`` on by the loop that stacks them."""
        together: dict[Any, list[int]] = {}
        self.avals: list[Any] = [v.aval for v in jaxpr.outvars[first:]]
        for k, (var, aval) in enumerate(zip(jaxpr.outvars[first:], self.avals)):
            loop = _loop_of(jaxpr, var)
            together.setdefault((loop, aval.dtype) if loop else k, []).append(k)
        self.groups = [(group, isinstance(of, tuple)) for of, group in together.items()]

    def joined(self, arrays: list) -> list:
        """Join arrays to one for each group; that of a loop is (rows, numbers of all arrays)."""
        return [
            self._row([arrays[k] for k in group]) if looped else arrays[group[0]]
            for group, looped in self.groups
        ]

    def _row(self, arrays: list):
        flat = [x.reshape(len(x), -1) for x in arrays]
        filling = -sum(x.shape[1] for x in flat) % PACKET
        return jnp.concatenate([*flat, jnp.zeros((len(flat[0]), filling), flat[0].dtype)], axis=1)

    def apart(self, joined: list) -> list:
        """Split the joined arrays into the original ones."""
        arrays: dict[int, Any] = {}
        for x, (group, looped) in zip(joined, self.groups):
            shapes = [self.avals[k].shape for k in group]
            ends = np.cumsum([0, *(math.prod(shape[1:]) for shape in shapes)])
            parts = [x[:, i:j] for i, j in pairwise(ends)] if looped else [x]
            arrays.update((k, y.reshape(s)) for k, y, s in zip(group, parts, shapes))
        return [arrays[k] for k in range(len(arrays))]


def _loop_of(jaxpr: Jaxpr, var) -> tuple[int, ...] | None:
    """Identify the scan that stacks a variable, if it stays a loop; else None."""
    for eqn in jaxpr.eqns:
        if var in eqn.outvars:
            k, params = eqn.outvars.index(var), eqn.params
            if eqn.primitive.name == "scan":
                stacked = k >= scan_parts(eqn)[1]
                return (id(eqn),) if stacked and stays_loop(eqn) else None
            if eqn.primitive.name in ("jit", "pjit"):
                inner = params["jaxpr"].jaxpr
                loop = _loop_of(inner, inner.outvars[k])
                return loop and (id(eqn), *loop)
    return None


def _checkpointed(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Wrap the bodies of the scans of a jaxpr that stay loops in ``jax.checkpoint``."""
    eqns = []
    for eqn in closed.jaxpr.eqns:
        if eqn.primitive.name in ("jit", "pjit", "scan"):
            inner = _checkpointed(eqn.params["jaxpr"])
            if eqn.primitive.name == "scan" and stays_loop(eqn):
                body = jax.checkpoint(jaxpr_as_fun(inner), prevent_cse=False, policy=_KEPT)
                avals: Any = inner.in_avals  # abstract values do not declare a shape
                specs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
                inner = jax.make_jaxpr(body)(*specs)
            eqn = eqn.replace(params={**eqn.params, "jaxpr": inner})
        eqns.append(eqn)
    return closed.replace(jaxpr=closed.jaxpr.replace(eqns=eqns))
