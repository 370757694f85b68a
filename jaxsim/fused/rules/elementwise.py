"""Lowering rules of elementwise functions."""

import math

import numpy as np

from jaxsim.fused.constants import evaluate
from jaxsim.fused.errors import FuseError
from jaxsim.fused.lower import Lowering, Stored, check_dtype, rule


def apply(lowering: Lowering, op: str, dtype, *arrays):
    """Apply an operation to each element, with broadcasting."""
    dtype = np.dtype(dtype)
    if not any(isinstance(a, Stored) or a.dtype == object for a in arrays):
        return evaluate(op, dtype, *np.broadcast_arrays(*arrays))
    arrays = np.broadcast_arrays(*map(lowering.objects, arrays))
    out = np.empty(arrays[0].shape, object)
    flat = out.reshape(-1)
    make = lowering.builder.op
    for k, args in enumerate(zip(*(a.reshape(-1) for a in arrays))):
        flat[k] = make(op, *args, dtype=dtype)
    return flat.reshape(out.shape)


SAME = {
    "add": "add", "add_any": "add", "sub": "sub", "mul": "mul", "div": "div", "rem": "rem",
    "neg": "neg", "abs": "abs", "sign": "sign", "max": "max", "min": "min", "pow": "pow",
    "sqrt": "sqrt", "rsqrt": "rsqrt", "cbrt": "cbrt", "exp": "exp", "exp2": "exp2",
    "expm1": "expm1", "log": "log", "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan",
    "asin": "asin", "acos": "acos", "atan": "atan", "atan2": "atan2", "sinh": "sinh",
    "cosh": "cosh", "tanh": "tanh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh",
    "erf": "erf", "logistic": "logistic", "floor": "floor", "ceil": "ceil",
    "is_finite": "is_finite", "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt",
    "ge": "ge", "and": "and", "or": "or", "xor": "xor", "not": "not", "shift_left": "shift_left",
    "shift_right_logical": "shift_right_logical",
    "shift_right_arithmetic": "shift_right_arithmetic",
}  # fmt: skip


def _elementwise(op: str):
    def apply_rule(lowering, eqn, *args):
        return apply(lowering, op, eqn.outvars[0].aval.dtype, *args)

    return apply_rule


for _primitive, _op in SAME.items():
    rule(_primitive)(_elementwise(_op))


def _less(lowering, x, y):
    """Compare x < y in the order of sorting, where NaN comes last."""
    number, last = apply(lowering, "eq", bool, x, x), apply(lowering, "ne", bool, y, y)
    beyond = apply(lowering, "and", bool, number, last)
    return apply(lowering, "or", bool, apply(lowering, "lt", bool, x, y), beyond)


@rule("lt_to")
def _lt_to(lowering, eqn, x, y):
    return _less(lowering, x, y)


@rule("le_to")
def _le_to(lowering, eqn, x, y):
    return apply(lowering, "not", bool, _less(lowering, y, x))


@rule("select_n")
def _select_n(lowering, eqn, which, *cases):
    dtype = eqn.outvars[0].aval.dtype
    if eqn.invars[0].aval.dtype == bool:
        if len(cases) == 1:
            return cases[0]
        return apply(lowering, "select", dtype, which, cases[1], cases[0])
    out = cases[-1]
    for k in range(len(cases) - 2, -1, -1):
        here = apply(lowering, "le", bool, which, np.asarray(k, eqn.invars[0].aval.dtype))
        out = apply(lowering, "select", dtype, here, cases[k], out)
    return out


@rule("clamp")
def _clamp(lowering, eqn, low, x, high):
    dtype = eqn.outvars[0].aval.dtype
    return apply(lowering, "min", dtype, apply(lowering, "max", dtype, x, low), high)


@rule("square")
def _square(lowering, eqn, x):
    return apply(lowering, "mul", eqn.outvars[0].aval.dtype, x, x)


@rule("one_minus_square")
def _one_minus_square(lowering, eqn, x):
    """Rule of 1 - x^2 as (1 - x) (1 + x), which is accurate where x is near 1."""
    dtype = eqn.outvars[0].aval.dtype
    one = np.ones((), dtype)
    less, more = (apply(lowering, op, dtype, one, x) for op in ("sub", "add"))
    return apply(lowering, "mul", dtype, less, more)


@rule("log2")
def _log2(lowering, eqn, x):
    """Rule of log2 by the natural logarithm and a factor, as in XLA."""
    dtype = np.dtype(eqn.outvars[0].aval.dtype)
    factor = np.asarray(1 / math.log(2), dtype)
    return apply(lowering, "mul", dtype, apply(lowering, "log", dtype, x), factor)


@rule("polynomial")
def _polynomial(lowering, eqn, x, *coefficients):
    """Rule of a polynomial, by Horner's rule from the highest power on."""
    dtype = eqn.outvars[0].aval.dtype
    out = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        out = apply(lowering, "add", dtype, apply(lowering, "mul", dtype, out, x), c)
    return out


@rule("integer_pow")
def _integer_pow(lowering, eqn, x):
    dtype, power = np.dtype(eqn.outvars[0].aval.dtype), eqn.params["y"]
    result, factor, left = None, x, abs(power)
    while left:
        if left & 1:
            result = factor if result is None else apply(lowering, "mul", dtype, result, factor)
        left >>= 1
        if left:
            factor = apply(lowering, "mul", dtype, factor, factor)
    if result is None:
        return np.ones(eqn.outvars[0].aval.shape, dtype)
    return result if power > 0 else apply(lowering, "div", dtype, np.ones((), dtype), result)


@rule("round")
def _round(lowering, eqn, x):
    dtype = np.dtype(eqn.outvars[0].aval.dtype)
    if int(eqn.params["rounding_method"]) == 1:  # half to even
        return apply(lowering, "round", dtype, x)
    half = np.asarray(0.5, dtype)  # half away from zero
    size = apply(lowering, "abs", dtype, x)
    whole = apply(lowering, "floor", dtype, size)
    up = apply(lowering, "ge", bool, apply(lowering, "sub", dtype, size, whole), half)
    more = apply(lowering, "add", dtype, whole, np.ones((), dtype))
    rounded = apply(lowering, "select", dtype, up, more, whole)
    minus = apply(lowering, "lt", bool, x, np.zeros((), dtype))
    return apply(lowering, "select", dtype, minus, apply(lowering, "neg", dtype, rounded), rounded)


@rule("convert_element_type")
def _convert(lowering, eqn, x):
    new, old = np.dtype(eqn.params["new_dtype"]), np.dtype(eqn.invars[0].aval.dtype)
    if new == old:
        return x
    check_dtype(new, f"{lowering.place}: a converted array")
    return apply(lowering, "convert", new, x)


@rule("reduce_precision")
def _reduce_precision(lowering, eqn, x):
    info = np.finfo(eqn.outvars[0].aval.dtype)
    if eqn.params["exponent_bits"] < info.iexp or eqn.params["mantissa_bits"] < info.nmant:
        raise FuseError(f"{lowering.place}: fused functions cannot reduce precision; leave it out")
    return x


@rule("stop_gradient", "copy", "copy_p", "device_put", "optimization_barrier")
@rule("pvary", "pcast", "reshard", "name")
def _identity(lowering, eqn, *args):
    return list(args)
