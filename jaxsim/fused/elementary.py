"""Elementary functions in float32 for GPUs, from sums and products.

The hardware's functions (``sin.approx`` and others, which Dr.Jit uses) have an absolute error of
2^-21 or 2^-22: too large for the sine of a small angle, for ``tanh`` or ``expm1``. Here the error
is that of a few roundings.

Each function reduces its argument to a short interval and has a minimax polynomial there, with a
relative error under 2^-27. Constants with many digits are sums, the first term of which has the
digits of a number of 32 bits.
"""

import math
from functools import reduce
from types import ModuleType
from typing import Any

import numpy as np

_HALF_PI = 1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15
_LN_2 = 0.6931471824645996, -1.9046542121259336e-09
_LOG2_E = 1.4426950216293335, 1.925963033500011e-08

_SIN = -0.16666655242443085, 0.00833216868340969, -0.00019516012980602682  # (sin x - x) / x^3
_COS = 0.04166664555668831, -0.001388735487125814, 2.4437007596134208e-05
_EXPM1 = (  # (e^x - 1 - x) / x^2
    *(0.5, 0.1666666716337204, 0.04166634753346443),
    *(0.008333273231983185, 0.0013941534562036395, 0.00019914294534828514),
)
_EXP2 = (  # (2^x - 1) / x
    *(0.6931471824645996, 0.24022650718688965, 0.05550410971045494, 0.009618034586310387),
    *(0.0013333428651094437, 0.00015467748744413257, 1.531557245471049e-05),
)
_LOG = (  # (log(1 + x) - x + x^2 / 2) / x^3
    *(0.3333331048488617, -0.24999986588954926, 0.20002226531505585, -0.16669251024723053),
    *(0.14218658208847046, -0.1238434836268425, 0.11872976273298264, -0.11789807677268982),
    0.06915368139743805,
)
_TANH = (  # (tanh x - x) / x^3
    *(-0.3333328366279602, 0.13331490755081177, -0.053743500262498856),
    *(0.02065059170126915, -0.005717048887163401),
)
_ERF = (  # erf x / x
    *(1.1283791065216064, -0.3761262595653534, 0.11283600330352783, -0.026854438707232475),
    *(0.005189524032175541, -0.000802075257524848, 7.888847176218405e-05),
)
_LOG_ERFC = (  # between 0.9 and 4.1
    *(0.00017055201169569045, -1.1294951438903809, -0.6333866715431213, -0.10823661834001541),
    *(0.025091497227549553, -0.004160527139902115, 0.0004323030007071793),
    -2.090955422318075e-05,
)

_ROOT_HALF = 0x3F3504F3  # the bits of the square root of 1/2
_EXPONENT = 23  # number of bits below the exponent
_LEAST_NORMAL, _INFINITE = 0x0080_0000, 0x7F80_0000


class Elementary:
    """Elementary functions of Dr.Jit arrays of ``type_of(float32)``."""

    def __init__(self, dr: ModuleType, type_of):
        self.dr = dr
        self.float, self.int = type_of(np.dtype("float32")), type_of(np.dtype("int32"))

    def sin(self, x):
        return self._circular(x, 0)

    def cos(self, x):
        return self._circular(x, 1)

    def tan(self, x):
        return self.sin(x) / self.cos(x)

    def exp(self, x):
        x = self._within(x, -104.0, 89.0)
        k, r = self._powers_of_two(x)
        return self._scaled(1 + self._expm1(r), k)

    def expm1(self, x):
        x = self._within(x, -104.0, 89.0)
        k, r = self._powers_of_two(x)
        one = self._scaled(self.float(1), k)
        near = self.dr.fma(one, self._expm1(r), one - 1)
        return self.dr.select(x < 80, near, self.exp(x))  # 2^128 is no number

    def exp2(self, x):
        x = self._within(x, -150.0, 129.0)
        k = self.dr.round(x)
        return self._scaled(self.dr.fma(x - k, self._series(x - k, _EXP2), 1), k)

    def log(self, x):
        k, f, rest = self._log(x)
        near = self.dr.fma(k, _LN_2[0], f + self.dr.fma(k, _LN_2[1], rest))
        return self._of_positive(x, near)

    def log2(self, x):
        k, f, rest = self._log(x)
        small = self.dr.fma(f, _LOG2_E[1], rest * _LOG2_E[0])
        return self._of_positive(x, k + self.dr.fma(f, _LOG2_E[0], small))

    def log1p(self, x):
        u = 1 + x
        near = self.log(u) * (x / (u - 1))
        return self.dr.select(u == 1, x, self.dr.select(u == math.inf, u, near))

    def tanh(self, x):
        size, square = self.dr.abs(x), x * x
        near = self.dr.fma(x * square, self._series(square, _TANH), x)
        far = 1 - 2 / (self.exp(2 * size) + 1)
        return self.dr.select(size < 0.625, near, self.dr.copysign(far, x))

    def asinh(self, x):
        size = self.dr.abs(x)
        half = size * size / (1 + self.dr.sqrt(self.dr.fma(size, size, 1)))
        far = self.log(size) + _LN_2[0]
        return self.dr.copysign(self.dr.select(size < 1e9, self.log1p(size + half), far), x)

    def acosh(self, x):
        t = x - 1
        near = self.log1p(t + self.dr.sqrt(t * (t + 2)))
        found = self.dr.select(x < 1e9, near, self.log(x) + _LN_2[0])
        return self.dr.select(x < 1, math.nan, found)

    def atanh(self, x):
        size = self.dr.abs(x)
        return self.dr.copysign(0.5 * self.log1p(2 * size / (1 - size)), x)

    def sinh(self, x):
        e = self.expm1(self.dr.abs(x))
        return self.dr.copysign(0.5 * (e + e / (e + 1)), x)

    def erf(self, x):
        size = self.dr.abs(x)
        near = x * self._series(x * x, _ERF)
        far = 1 - self.exp(self._series(self.dr.minimum(size, 4.1), _LOG_ERFC))
        return self.dr.select(size < 0.95, near, self.dr.copysign(far, x))

    def _series(self, x, factors) -> Any:
        """Polynomial factors[0] + factors[1] x + ... by Horner's rule."""
        *others, last = factors
        return reduce(lambda y, c: self.dr.fma(y, x, c), others[::-1], self.float(last))

    def _circular(self, x, quarters: int):
        """Sine of an angle plus ``quarters`` right angles."""
        dr = self.dr
        k = dr.round(x * (1 / _HALF_PI[0]))
        r = x
        for part in _HALF_PI:
            r = dr.fma(-k, part, r)
        square = r * r
        sine = dr.fma(r * square, self._series(square, _SIN), r)
        cosine = dr.fma(square * square, self._series(square, _COS), dr.fma(square, -0.5, 1))
        turn = self.int(k) + quarters
        out = dr.select((turn & 1) == 0, sine, cosine)
        return dr.select((turn & 2) == 0, out, -out)

    def _within(self, x, least: float, most: float):
        """Clip x to [least, most]; NaN stays."""
        x = self.dr.select(x < least, least, x)
        return self.dr.select(x > most, most, x)

    def _powers_of_two(self, x):
        """Range reduction of e^x = 2^k e^r: k and r."""
        k = self.dr.round(x * _LOG2_E[0])
        return k, self.dr.fma(-k, _LN_2[1], self.dr.fma(-k, _LN_2[0], x))

    def _expm1(self, r):
        return self.dr.fma(r * r, self._series(r, _EXPM1), r)

    def _scaled(self, y, k):
        """2^k y, in two steps: a single factor may be too large, or too small, for a number."""
        first = self.int(k) >> 1
        for power in (first, self.int(k) - first):
            y = y * self.dr.reinterpret_array(self.float, (power + 127) << _EXPONENT)
        return y

    def _log(self, x):
        """Range reduction of a positive x: log x = log 2^k + f + rest. Returns k, f, rest."""
        dr = self.dr
        bits = dr.reinterpret_array(self.int, x)
        small = bits < _LEAST_NORMAL  # a GPU takes these for zero; as an integer they are numbers
        bits = dr.select(small, dr.reinterpret_array(self.int, self.float(bits)), bits)
        k = (bits - _ROOT_HALF) >> _EXPONENT
        f = dr.reinterpret_array(self.float, bits - (k << _EXPONENT)) - 1
        rest = f * f * dr.fma(f, self._series(f, _LOG), -0.5)
        return self.float(k - dr.select(small, self.int(149), 0)), f, rest

    def _of_positive(self, x, found):
        """Logarithm ``found`` for a positive x; IEEE's results for zero, less, infinity and NaN."""
        dr = self.dr
        bits = dr.reinterpret_array(self.int, x)
        found = dr.select((bits > 0) & (bits < _INFINITE), found, math.nan)
        found = dr.select((bits << 1) == 0, -math.inf, found)
        return dr.select(bits == _INFINITE, math.inf, found)
