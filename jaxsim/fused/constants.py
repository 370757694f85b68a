"""Operations on constants with XLA's results; also the reference for the operations.

``NUMPY`` maps an operation to a function of numpy scalars or arrays.
"""

import math

import numpy as np

_erf = np.vectorize(math.erf, otypes=[float])


def _divide(x, y):
    if x.dtype.kind == "f":
        return x / y
    # XLA: x / 0 is -1 (all bits set), the least integer / -1 is itself
    zero = y == 0
    minus = (y == -1) if x.dtype.kind == "i" else np.zeros_like(zero)
    safe = np.where(zero | minus, np.ones_like(y), y)
    quotient = x // safe if x.dtype.kind == "u" else _truncated(x, safe)
    quotient = np.where(minus, np.negative(x) if x.dtype.kind == "i" else x, quotient)
    return np.where(zero, np.array(-1).astype(x.dtype), quotient)


def _truncated(x, y):
    quotient = x // y
    return quotient + ((quotient < 0) & (quotient * y != x))


def _remainder(x, y):
    if x.dtype.kind == "f":
        return np.fmod(x, y)
    zero = y == 0
    minus = (y == -1) if x.dtype.kind == "i" else np.zeros_like(zero)
    safe = np.where(zero | minus, np.ones_like(y), y)
    return np.where(zero, x, np.where(minus, np.zeros_like(x), np.fmod(x, safe)))


def to_integer(x, dtype):
    """Convert a float to an integer: truncated, clamped to the range, NaN as 0."""
    info = np.iinfo(dtype)
    low, high = float(info.min), float(info.max)
    inside = (x > low) & (x < high)
    cut = np.where(inside, np.trunc(np.where(inside, x, 0)), 0).astype(dtype)
    return np.where(x >= high, dtype.type(info.max), np.where(x <= low, dtype.type(info.min), cut))


def _convert(x, dtype):
    if dtype.kind == "b":
        return x != 0
    if dtype.kind in "iu" and x.dtype.kind == "f":
        return to_integer(x, dtype)
    return x.astype(dtype)


def _shift(function):
    def shifted(x, y):
        bits = x.dtype.itemsize * 8
        return function(x, y, (y < 0) | (y >= bits), bits)

    return shifted


def _logical_right(x, y, beyond, bits):
    unsigned = x.view(np.dtype(f"u{bits // 8}"))
    moved = unsigned >> np.where(beyond, 0, y).astype(unsigned.dtype)
    return np.where(beyond, 0, moved).astype(unsigned.dtype).view(x.dtype)


NUMPY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _divide,
    "rem": _remainder,
    "neg": np.negative,
    "abs": np.abs,
    "sign": lambda x: np.where(np.isnan(x), x, np.sign(x)) if x.dtype.kind == "f" else np.sign(x),
    "max": np.maximum,
    "min": np.minimum,
    "pow": lambda x, y: np.power(x, y.astype(x.dtype)),
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "cbrt": np.cbrt,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": _erf,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,  # half to even
    "trunc": np.trunc,
    "is_finite": np.isfinite,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "shift_left": _shift(
        lambda x, y, beyond, bits: np.where(beyond, 0, x << np.where(beyond, 0, y))
    ),
    "shift_right_logical": _shift(_logical_right),
    "shift_right_arithmetic": _shift(
        lambda x, y, beyond, bits: (
            x.view(f"i{bits // 8}") >> np.where(beyond, bits - 1, y).astype(f"i{bits // 8}")
        ).view(x.dtype)
    ),
    "select": np.where,
}


def evaluate(op: str, dtype: np.dtype, *numbers):
    """Evaluate an operation on numpy scalars or arrays (under ``np.errstate(all="ignore")``)."""
    if op == "convert":
        return np.asarray(_convert(np.asarray(numbers[0]), dtype))
    return np.asarray(NUMPY[op](*numbers)).astype(dtype, copy=False)
