"""Cache of kernels by content, so that tracing an equal function again builds no new one.

A jitted function is traced again for each batch size, and each time the jaxpr of one character is
equal. Without this every size would cost a kernel: its jaxpr, its program, its recordings.
"""

import enum
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

MOST = 64  # number of cached kernels; the one used longest ago is dropped first

_kept: OrderedDict[bytes, Any] = OrderedDict()


class _Unknown(Exception):
    """Raised for a parameter that cannot be compared with another, such as a function."""


def get_or_make(
    closed: ClosedJaxpr, make: Callable[[ClosedJaxpr], Any], values_only: bool = False
) -> Any:
    """``make(closed)``, or its cached result for a jaxpr with equal operations and constants.

    values_only: the result is never differentiated, so rules for derivatives are ignored.
    """
    try:
        key = _digest(closed, values_only)
    except _Unknown:
        return make(closed)
    if key not in _kept:
        _kept[key] = make(closed)
        if len(_kept) > MOST:
            _kept.popitem(last=False)
    _kept.move_to_end(key)
    return _kept[key]


def _digest(closed: ClosedJaxpr, values_only: bool = False) -> bytes:
    """Digest that two jaxprs share only if they differ in nothing but names and source lines.

    Raises _Unknown where a parameter is a function, as in custom derivatives.
    """
    hashed = hashlib.sha256(b"values" if values_only else b"")
    nothing = _NOTHING | _DERIVATIVES if values_only else _NOTHING

    def put(*words: Any) -> None:
        hashed.update("\x1f".join(map(str, words)).encode() + b"\x1e")

    def array(x: Any) -> None:
        x = np.asarray(x)
        if x.dtype.kind not in "biufc":
            raise _Unknown
        put("array", x.dtype, x.shape)
        hashed.update(x.tobytes())

    def parameter(x: Any) -> None:
        if isinstance(x, (ClosedJaxpr, Jaxpr)):
            jaxpr(x)
        elif isinstance(x, (tuple, list)):
            put(type(x).__name__, len(x))
            for each in x:
                parameter(each)
        elif isinstance(x, dict):
            put("dict", len(x))
            for name in sorted(x, key=str):
                put(name)
                parameter(x[name])
        elif isinstance(x, (np.ndarray, np.generic)) or hasattr(x, "__jax_array__"):
            array(x)
        elif x is None or isinstance(x, _PLAIN) or _is_option(x):
            put(type(x).__qualname__, repr(x))
        else:
            raise _Unknown

    def jaxpr(x: ClosedJaxpr | Jaxpr) -> None:
        inner: Jaxpr = x.jaxpr if isinstance(x, ClosedJaxpr) else x
        numbers: dict[Any, int] = {}

        def bind(variables) -> None:
            for v in variables:
                numbers[v] = len(numbers)
                put(numbers[v], v.aval, getattr(v.aval, "weak_type", None))

        def read(atom) -> None:
            if isinstance(atom, Literal):
                put("literal", atom.aval, getattr(atom.aval, "weak_type", None))
                array(atom.val)
            else:
                put(numbers[atom])

        put("jaxpr", len(inner.constvars), len(inner.invars), len(inner.eqns))
        bind([*inner.constvars, *inner.invars])
        for eqn in inner.eqns:
            put(eqn.primitive.name)
            for atom in eqn.invars:
                read(atom)
            bind(eqn.outvars)
            without = nothing.get(eqn.primitive.name, ())
            parameter({k: v for k, v in eqn.params.items() if k not in without})
        for atom in inner.outvars:
            read(atom)
        for const in x.consts if isinstance(x, ClosedJaxpr) else ():
            array(const)

    jaxpr(closed)
    return hashed.digest()


_PLAIN = (bool, int, float, complex, str, bytes, np.dtype, enum.Enum)


def _is_option(x: Any) -> bool:
    """True for a parameter of JAX (an enumeration, a scan's parts) whose repr is complete."""
    kind = type(x)
    ours = ("jax._src.lax.", "jax._src.flattree")
    known = kind.__module__.startswith(ours) or kind.__name__ == "UnspecifiedValue"
    return known and " at 0x" not in repr(x)


# Parameters that do not change a kernel; the name of ``checkpoint_name`` does.
_NOTHING = {
    "jit": ("name", "ctx_mesh"),
    "pjit": ("name", "ctx_mesh"),
    "custom_vmap_call": ("rule", "in_tree", "out_tree"),
}
_DERIVATIVES = {
    "custom_jvp_call": ("jvp_jaxpr_fun",),
    "custom_vjp_call": ("fwd_jaxpr_thunk", "bwd", "out_trees"),
}
