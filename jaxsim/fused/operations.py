"""Operations in terms of Dr.Jit, with XLA's results in special cases."""

import math
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from jaxsim.fused.elementary import Elementary

TURNED = {"float32": 1e5, "float64": 1e9}  # sin, cos and tan of larger angles are NaN [rad]

Table = dict[str, Callable[..., Any]]
TypeOf = Callable[[np.dtype], Any]


def operations(dr: ModuleType, type_of: TypeOf) -> Table:
    """Table from the name of an operation to a function of variables and of the result's dtype.

    ``type_of`` returns the array type of a dtype.
    """
    return {**_arithmetic(dr, type_of), **_bits(dr, type_of), **_functions(dr, type_of)}


def _arithmetic(dr: ModuleType, type_of: TypeOf) -> Table:
    def divide(x, y, dtype):
        if dtype.kind == "f":
            return x / y
        zero = y == 0
        if dtype.kind == "u":
            return dr.select(zero, ~type_of(dtype)(0), x // dr.select(zero, 1, y))
        minus = y == -1  # the least integer by -1 would trap
        quotient = x // dr.select(zero | minus, 1, y)
        return dr.select(zero, -1, dr.select(minus, -x, quotient))

    def remainder(x, y, dtype):
        if dtype.kind == "f":
            return _float_remainder(dr, type_of, x, y, dtype)
        zero = y == 0
        if dtype.kind == "u":
            return dr.select(zero, x, x % dr.select(zero, 1, y))
        minus = y == -1
        rest = x % dr.select(zero | minus, 1, y)
        return dr.select(zero, x, dr.select(minus, 0, rest))

    def sign(x, dtype):
        one = type_of(dtype)(1)
        if dtype.kind == "u":
            return dr.select(x == 0, x, one)
        return dr.select(x > 0, one, dr.select(x < 0, -one, x))

    def convert(x, dtype):
        target, source = type_of(dtype), dr.type_v(x)
        if dtype.kind == "b":
            return ~(x == 0)
        if source == dr.VarType.Bool:
            return dr.select(x, target(1), target(0))
        if dtype.kind in "iu" and source in (dr.VarType.Float32, dr.VarType.Float64):
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
            inside = (x > float(low)) & (x < float(high))
            cut = target(dr.select(inside, x, 0))
            return dr.select(x >= float(high), high, dr.select(x <= float(low), low, cut))
        return target(x)

    def extreme(plain, beyond):
        """Maximum or minimum; LLVM's, which handles signs of zeros, has six instructions on x86."""

        def of(x, y, dtype):
            if dtype.kind != "f" or dr.backend_v(type_of(dtype)) != dr.JitBackend.LLVM:
                return plain(x, y)
            found = dr.select(beyond(x, y), x, y)  # y if one of them is NaN
            return dr.select(x == x, found, x)

        return of

    largest = extreme(dr.maximum, lambda x, y: x > y)
    least = extreme(dr.minimum, lambda x, y: x < y)
    return {
        "add": lambda x, y, dtype: x | y if dtype.kind == "b" else x + y,  # of a product of bools
        "sub": lambda x, y, dtype: x - y,
        "mul": lambda x, y, dtype: x & y if dtype.kind == "b" else x * y,
        "fma": lambda x, y, z, dtype: dr.fma(x, y, z),
        "fms": lambda x, y, z, dtype: dr.fma(x, y, -z),
        "fnma": lambda x, y, z, dtype: dr.fma(-x, y, z),
        "div": divide,
        "rem": remainder,
        "neg": lambda x, dtype: -x,
        "abs": lambda x, dtype: x if dtype.kind == "u" else dr.abs(x),
        "sign": sign,
        "max": lambda x, y, dtype: x | y if dtype.kind == "b" else largest(x, y, dtype),
        "min": lambda x, y, dtype: x & y if dtype.kind == "b" else least(x, y, dtype),
        "is_finite": lambda x, dtype: dr.isfinite(x),
        "eq": lambda x, y, dtype: x == y,
        "ne": lambda x, y, dtype: ~(x == y),  # Dr.Jit's != is false of NaN
        "lt": lambda x, y, dtype: x < y,
        "le": lambda x, y, dtype: x <= y,
        "gt": lambda x, y, dtype: x > y,
        "ge": lambda x, y, dtype: x >= y,
        "select": lambda c, x, y, dtype: dr.select(c, x, y),
        "convert": convert,
    }


def _float_remainder(dr: ModuleType, type_of: TypeOf, x, y, dtype):
    """Exact remainder, as fmod's: large quotients are divided in a loop, a bit a round."""
    size, by = dr.abs(x), dr.abs(y)
    quotient = size / by
    rest = dr.fma(-dr.trunc(quotient), by, size)
    rest = dr.select(rest < 0, rest + by, dr.select(rest >= by, rest - by, rest))
    rest = dr.select(by == math.inf, size, rest)
    normal = (by >= float(np.finfo(dtype).tiny)) & (size < math.inf)
    large = normal & ~(quotient < 2.0 ** (np.finfo(dtype).nmant - 1))

    bits = np.dtype(f"u{dtype.itemsize}")
    exponent = int(np.array(np.inf, dtype).view(bits))

    def power_of_two(x):  # the greatest that is not above x
        return dr.reinterpret_array(
            type_of(dtype), dr.reinterpret_array(type_of(bits), x) & exponent
        )

    unit = by / power_of_two(by)

    def subtracted(rest):
        most = unit * power_of_two(rest)
        return (rest - dr.select(most > rest, 0.5 * most, most),)

    start = (dr.select(large, size, rest),)
    (rest,) = dr.while_loop(start, lambda r: normal & (r >= by), subtracted, mode="symbolic")
    return dr.copysign(dr.select(normal, rest, math.nan), x)


def _bits(dr: ModuleType, type_of: TypeOf) -> Table:
    def within(y, dtype, otherwise: int):
        """Test for a shift beyond the width, and the shift, or ``otherwise`` in its place."""
        beyond = (y < 0) | (y >= 8 * dtype.itemsize)
        return beyond, dr.select(beyond, otherwise, y)

    def shift_left(x, y, dtype):
        beyond, by = within(y, dtype, 0)
        return dr.select(beyond, 0, x << by)

    def shift_right_arithmetic(x, y, dtype):
        signed = type_of(np.dtype(f"i{dtype.itemsize}"))
        _, by = within(y, dtype, 8 * dtype.itemsize - 1)
        return type_of(dtype)(signed(x) >> signed(by))

    def shift_right_logical(x, y, dtype):
        unsigned = type_of(np.dtype(f"u{dtype.itemsize}"))
        beyond, by = within(y, dtype, 0)
        return type_of(dtype)(dr.select(beyond, 0, unsigned(x) >> unsigned(by)))

    return {
        "and": lambda x, y, dtype: x & y,
        "or": lambda x, y, dtype: x | y,
        "xor": lambda x, y, dtype: x ^ y,
        "not": lambda x, dtype: ~x,
        "shift_left": shift_left,
        "shift_right_logical": shift_right_logical,
        "shift_right_arithmetic": shift_right_arithmetic,
    }


def _coarse(dr: ModuleType, x) -> bool:
    """True if Dr.Jit uses the hardware's functions for x, which have an error of 2^-22."""
    return dr.backend_v(x) == dr.JitBackend.CUDA and dr.type_v(x) == dr.VarType.Float32


def _power(dr: ModuleType, type_of: TypeOf, exp2, log2, x, y, dtype):
    """Power x ** y with IEEE's special cases; exp2, log2: of the back end."""
    y = type_of(dtype)(y)  # it may be an integer
    whole, half = dr.trunc(y) == y, 0.5 * y
    odd_power = whole & ~(dr.trunc(half) == half)
    size = exp2(y * log2(dr.abs(x)))
    size = dr.select(x == 0, dr.select(y > 0, type_of(dtype)(0), math.inf), size)
    out = dr.select(odd_power, dr.copysign(size, x), size)
    out = dr.select((x < 0) & ~whole & (x > -math.inf), math.nan, out)
    out = dr.select((x == -1) & (dr.abs(y) == math.inf), 1, out)
    out = dr.select((x == x) & (y == y), out, math.nan)
    return dr.select((y == 0) | (x == 1), 1, out)


def _atan2(dr: ModuleType, y, x, dtype):
    """Angle of (x, y) with IEEE's special cases: zeros with signs, infinities, NaN."""
    up, right = dr.abs(y), dr.abs(x)
    angle = dr.select(up == right, math.pi / 4, dr.atan2(up, right))  # also of infinities
    angle = dr.select(up == 0, 0, angle)
    angle = dr.select(dr.copysign(1, x) < 0, math.pi - angle, angle)
    return dr.select((x == x) & (y == y), dr.copysign(angle, y), math.nan)


def _functions(dr: ModuleType, type_of: TypeOf) -> Table:
    elementary = Elementary(dr, type_of)

    def source(name: str):
        """Function of Dr.Jit; in float32 on a GPU ours, where Dr.Jit uses the hardware's."""
        theirs, ours = getattr(dr, name), getattr(elementary, name, None)
        if ours is None:
            return theirs
        return lambda x: ours(x) if _coarse(dr, x) else theirs(x)

    exp, exp2, log, log2 = map(source, ("exp", "exp2", "log", "log2"))

    def plain(name: str):
        function = source(name)
        return lambda x, dtype: function(x)

    def odd(name: str):
        """Odd function that preserves NaN, and zeros with their signs, unlike Dr.Jit's."""
        function = source(name)
        return lambda x, dtype: dr.select(dr.abs(x) > 0, function(x), x)

    def circular(function):
        """Periodic function with NaN for angles that Dr.Jit cannot reduce to one turn."""
        return lambda x, dtype: dr.select(
            dr.abs(x) <= TURNED[dtype.name], function(x, dtype), math.nan
        )

    def tan(x, dtype):
        if dtype.itemsize == 4:
            return source("tan")(x)
        sine, cosine = dr.sincos(x)  # Dr.Jit's tangent is x below 1e-4
        return sine / cosine

    def cosh(x, dtype):
        half = exp(0.5 * dr.abs(x))  # so that no factor overflows before the result
        return 0.5 * half * half + 0.5 / half / half

    def sinh(x, dtype):
        half = exp(0.5 * dr.abs(x))
        far = dr.copysign(0.5 * half * half - 0.5 / half / half, x)
        return dr.select(dr.abs(x) < 1, source("sinh")(x), far)

    def expm1(x, dtype):
        if _coarse(dr, x):
            return dr.select(dr.abs(x) > 0, elementary.expm1(x), x)
        u = exp(x)
        near = (u - 1) * (x / log(u))  # Kahan
        return dr.select(u == 1, x, dr.select((u - 1 == -1) | (u == math.inf), u - 1, near))

    def log1p(x, dtype):
        u = 1 + x
        near = log(u) * (x / (u - 1))
        return dr.select(u == 1, x, dr.select(u == math.inf, u, near))

    as_they_are = ("sqrt", "cbrt", "exp", "exp2", "log", "asin", "acos", "acosh", "atanh")
    return {
        **{name: plain(name) for name in (*as_they_are, "floor", "ceil", "round", "trunc")},
        **{name: odd(name) for name in ("atan", "tanh", "asinh", "erf")},
        "sin": circular(plain("sin")),
        "cos": circular(plain("cos")),
        "tan": circular(tan),
        "pow": partial(_power, dr, type_of, exp2, log2),
        "atan2": partial(_atan2, dr),
        "cosh": cosh,
        "sinh": sinh,
        "expm1": expm1,
        "log1p": log1p,
        "rsqrt": lambda x, dtype: 1 / dr.sqrt(x),
        "logistic": lambda x, dtype: 1 / (1 + exp(-x)),
    }
