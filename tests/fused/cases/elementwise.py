"""Functions of one element each: at zeros with signs, infinities, NaN, and the ends of integers."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from tests.fused.cases import INT_MAX, INT_MIN, UINT_MAX, case, pairs, randoms

EDGES = [0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 1.5, 2.5, -1.5, -2.5, 0.7, -0.7]
EDGES = np.array([*EDGES, 7.3, 20, -20, 1e-30, -1e-30, 1e8, 1e30, -1e30, np.inf, -np.inf, np.nan])
WIDE = np.concatenate(
    [
        EDGES,
        [88, -88, 104, -104, 3e38, 0.999, -0.999, 1.001, 2**23 + 1.0, 1e-7, -1e-5, 1e-3],
        randoms(0, 60, low=-1, high=1),
        randoms(1, 60, low=-30, high=30),
        randoms(2, 60, low=-5e4, high=5e4),
        randoms(3, 40) * 10.0 ** randoms(4, 40, low=-15, high=0),
    ]
)
INTS = np.array([0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 100, INT_MAX, INT_MAX - 1])
INTS = np.concatenate([INTS, [INT_MIN, INT_MIN + 1, -1, -2, -3, -7, -32, -100]])
UINTS = np.array([0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 100, 2**31, UINT_MAX, UINT_MAX - 1], np.uint64)
BOOLS = np.array([False, True])
BEYOND = [2.0**31, 2.0**31 - 1, 2.0**31 - 128, -(2.0**31), 2.0**32, 2.0**63, -(2.0**63), 2.0**64]

UNARY = (
    *("neg", "abs", "sign", "sqrt", "rsqrt", "cbrt", "exp", "exp2", "expm1", "log", "log1p"),
    *("asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf"),
    *("logistic", "floor", "ceil", "is_finite", "square", "round", "integer_pow"),
)
CIRCULAR = ("sin", "cos", "tan")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
BINARY = ("add", "sub", "mul", "div", "rem", "max", "min", *COMPARISONS)
LOGICAL = ("and", "or", "xor")
SHIFTS = ("shift_left", "shift_right_logical", "shift_right_arithmetic")
ROUNDING = (lax.RoundingMethod.AWAY_FROM_ZERO, lax.RoundingMethod.TO_NEAREST_EVEN)
FUNCTIONS = {
    "round": lambda x: [lax.round(x, method) for method in ROUNDING],
    "integer_pow": lambda x: [lax.integer_pow(x, n) for n in (-3, -1, 2, 3, 7)],
    **{name: getattr(lax, f"bitwise_{name}") for name in ("not", "and", "or", "xor")},
}


def each(names, *args):
    """What each of the functions gives, by name."""
    return {name: FUNCTIONS.get(name, getattr(lax, name, None))(*args) for name in names}


@case(*UNARY, args=[WIDE], folds=True)
def one_float(x):
    return each(UNARY, x)


@case(*CIRCULAR, args=[randoms(5, 400), randoms(6, 400, low=-1e5, high=1e5)], folds=True)
def circular(near, far):
    # near its zeros the sine of a large angle is right to the last bits of one, not of itself
    small, large = each(CIRCULAR, near), each(CIRCULAR, far)
    large["tan"] = large["tan"] / jnp.maximum(jnp.abs(large["tan"]), 1)
    return {name: [small[name], 10 + large[name]] for name in CIRCULAR}


@case(*BINARY, "atan2", args=pairs(EDGES, EDGES), folds=True)
def two_floats(x, y):
    return each((*BINARY, "atan2"), x, y)


@case("pow", args=pairs(EDGES, EDGES), folds=True)
def powers(x, y):
    whole = jnp.clip(jnp.nan_to_num(lax.round(y)), -40, 40).astype(int)
    return {"pow": [lax.pow(x, y), lax.pow(x, jnp.int32(3)), lax.pow(x, whole)]}


@case("rem", args=[randoms(7, 300, low=-1e3, high=1e3), 10.0 ** randoms(8, 300, low=-30, high=2)])
def remainders(x, y):
    return {"rem": [lax.rem(x, y), lax.rem(1e4 * x, jnp.abs(x)), lax.rem(x, -0.1)]}


@case(
    "select_n",
    "clamp",
    args=pairs(EDGES[[0, 1, 2, 3, -1, -2, -3, 6]], EDGES, EDGES[[0, 1, 6, -1, -2]]),
)
def three_floats(x, y, z):
    which = jnp.clip(jnp.nan_to_num(z), 0, 2).astype(jnp.int32)
    chosen = [lax.select_n(x > y, y, z), lax.select_n(which, x, y, z), lax.select_n(x > z, y)]
    return {"select_n": chosen, "clamp": [lax.clamp(x, y, z), lax.clamp(-1.0, x, 1.0)]}


@case(*BINARY, *LOGICAL, *SHIFTS, args=pairs(INTS, INTS), folds=True)
def two_integers(x, y):
    return each((*BINARY, *LOGICAL, *SHIFTS), x, y)


@case(*BINARY, *LOGICAL, *SHIFTS, args=pairs(UINTS, UINTS), folds=True)
def two_naturals(x, y):
    return each((*BINARY, *LOGICAL, *SHIFTS), x, y)


@case("neg", "abs", "sign", "not", "square", args=[INTS], folds=True)
def one_integer(x):
    return each(("neg", "abs", "sign", "not", "square"), x)


@case("integer_pow", "clamp", "select_n", args=pairs(INTS, INTS[::4], INTS[::3]), folds=True)
def powers_and_choices_of_integers(x, y, z):
    powers = [lax.integer_pow(x, n) for n in (0, 2, 3, 7)]
    chosen = [lax.select_n(x > y, y, z), lax.select_n(lax.rem(x, 2) + 1, x, y, z)]
    return {"integer_pow": powers, "clamp": lax.clamp(x, y, z), "select_n": chosen}


TWO_BOOLS = ("max", "min", "and", "or", "xor", *COMPARISONS)


@case(*TWO_BOOLS, "not", "select_n", args=pairs(BOOLS, BOOLS, BOOLS), folds=True)
def bools(x, y, z):
    return each(TWO_BOOLS, x, y) | {"not": ~x, "select_n": jnp.where(x, y, z)}


@case("convert_element_type", args=[np.concatenate([WIDE, BEYOND, np.negative(BEYOND), [1e19]])])
def converted_floats(x):
    return {"convert_element_type": [lax.convert_element_type(x, t) for t in _dtypes()]}


@case("convert_element_type", args=pairs(INTS, UINTS[::2], BOOLS), folds=True)
def converted_integers(x, y, z):
    found = [lax.convert_element_type(v, t) for v in (x, y, z) for t in _dtypes()]
    return {"convert_element_type": found}


def _dtypes():
    wide = jax.config.jax_enable_x64
    return ("bool", "int32", "uint32", "float32", *(("int64", "uint64", "float64") if wide else ()))


SOME = EDGES[np.abs(EDGES) != 1e30]


@case("neg", "add", "sub", "mul", "div", "max", args=pairs(SOME, SOME[::3], SOME[1::4]))
def simplified(x, y, z):
    """What the compiler writes in another way."""
    one, zero = jnp.ones((), x.dtype), jnp.zeros((), x.dtype)
    third = (x / z, y / z, (x - y) / z)  # one division and three products
    products = [(x + k) * y for k in range(1, 4)]  # each is used once, in a sum
    return {
        "neg": [jnp.negative(-x), -(x - y), -(x * y), -(-x * y)],
        "add": [x + -y, -x + y, -x + -y, x + zero, zero + x, x * y + z, products[0] + z],
        "sub": [
            x - -y,
            -x - y,
            x - zero,
            zero - x,
            x - x,
            x * y - z,
            products[1] - z,
            z - products[2],
        ],
        "mul": [-x * -y, -x * y, x * -y, 2 * -x, -one * x, one * x, -3 * (-y * x), (x * y) * x],
        "div": [x / one, x / -one, x / 4, x / 0.75, -x / y, zero / 3, *third],
        "max": [jnp.maximum(x, x), jnp.minimum(y, y), jnp.maximum(x, jnp.minimum(x, y))],
    }


@case("select_n", "and", "or", "xor", "not", args=[*pairs(BOOLS, BOOLS, BOOLS), randoms(14, 8)])
def simplified_choices(a, b, c, x):
    on, off = jnp.bool_(True), jnp.bool_(False)
    nested = jnp.where(a, jnp.where(a, x, 2), 3), jnp.where(a, 1, jnp.where(a, x, b * x))
    index = jnp.where(a, jnp.where(b, 4, 1), jnp.where(c, 0, 2))  # stays a choice of constants
    table = jnp.stack([x, 2 * x, 3 * x, 4 * x, 5 * x])
    chosen = [jnp.where(~a, x, b), jnp.where(a, on, b), jnp.where(a, off, b), jnp.where(a, b, on)]
    chosen += [
        jnp.where(a, b, off),
        jnp.where(a, x, x),
        *nested,
        table[index],
        table[3 - index % 3],
    ]
    chosen += [index * 3 - 1, index < 2, jnp.maximum(index, 1) == 4, index.astype(x.dtype) / 2]
    return {
        "select_n": chosen,
        "and": [a & on, a & off, a & a, (a & b) & ~a, index & 1],
        "or": [a | on, a | off, a | a, (a | b) | ~b, index | 8],
        "xor": [a ^ on, a ^ off, a ^ a, a ^ b ^ a, index ^ 3],
        "not": [jnp.logical_not(~a), ~(a & b), ~(x < 0), ~index],
    }


NEWER = [name for name in ("one_minus_square", "log2") if hasattr(lax, name)]


@case(*NEWER, args=[WIDE], folds=True)
def newer_functions(x):
    return each(NEWER, x)


if hasattr(lax, "polynomial"):

    @case("polynomial", args=[randoms(18, 9), randoms(19, 9, 3)])
    def polynomials(x, coefficients):
        found = [lax.polynomial(x, coefficients), lax.polynomial(coefficients, [x, 1.0, 2 * x])]
        return {"polynomial": [*found, lax.polynomial(x, [0.25] * 12)]}


@case("lt_to", "le_to", args=[EDGES[::-1][2:], EDGES[2:]])
def looked_up(y, x):
    table = jnp.asarray([-1.0, -0.5, 0, 0.25, 1, 2, 7], x.dtype)
    found = [jnp.searchsorted(table, x), jnp.searchsorted(table, x, side="right")]
    return {"le_to": found, "lt_to": jnp.interp(x, table, table**2 + y)}


if jax.__version_info__ >= (0, 12):

    @case("call_hi_primitive", args=[EDGES])
    def high_level(x):
        return {"call_hi_primitive": jnp.searchsorted(jnp.asarray([-1.0, 0, 0.5, 2], x.dtype), x)}


@case("reduce_precision", "stop_gradient", "copy", "name", args=[EDGES], folds=True)
def unchanged(x):
    bits = (8, 23) if x.dtype == jnp.float32 else (11, 52)
    same = {"stop_gradient": lax.stop_gradient(x), "copy": jnp.copy(x)}
    same["name"] = checkpoint_name(x, "costly")
    return same | {"reduce_precision": lax.reduce_precision(x, *bits)}


@case("optimization_barrier", "device_put", args=[EDGES, np.arange(EDGES.size)])
def passed_on(x, k):
    both = lax.optimization_barrier((x, {"k": k}))
    return {"optimization_barrier": both, "device_put": jax.device_put(x)}


@case("add_any", args=[randoms(9, 5, 3)])
def sums_of_cotangents(x):
    return {"add_any": jax.grad(lambda x: jnp.sum(jnp.sin(x) * x))(x)}


@case("add", "mul", "lt", args=[randoms(10, 4), randoms(11, 4, 3), randoms(12, 4, 2, 1, 2, 3)])
def of_all_ranks(x, v, a):
    empty = jnp.zeros((0, 3))
    sums = [x + 1, 1 - v, v + x, a + 2.0, a + v, a + jnp.ones((2, 3)), empty + v, x + empty]
    products = [2 * x, x * v, a * a, a * 0.5, empty * empty, v[:0] * 2, a * v * x]
    return {"add": sums, "mul": products, "lt": [x < 0, v < x, a < v, empty < v]}
