"""Random functions of one member, made of the primitives that the fused back end knows.

What two compilers round differently must not decide a comparison. So a float is "exact" as long as
it is a small multiple of a power of two, which both compute without rounding; only exact numbers
are compared, rounded or turned into integers. The others are kept small, and their functions flat.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from jax import lax

SHAPES = ((), (3,), (2, 3))
INPUTS = (
    ("exact", ()),
    ("exact", (3,)),
    ("exact", (2, 3)),
    ("int", ()),
    ("int", (3,)),
    ("bool", (3,)),
)
MOST = 2**20  # of the multiples


@dataclass(frozen=True)
class Node:
    """kind: exact, rough, int or bool. An exact number is k / 2^fraction, with abs(k) <= most."""

    kind: str
    shape: tuple[int, ...]
    most: int = 0
    fraction: int = 0
    given: bool = False  # an argument: its zeros have their signs


class Function:
    """Steps that each make a node from earlier ones; what is returned by their numbers."""

    def __init__(self, nodes: list[Node]):
        self.nodes = nodes
        self.steps: list[tuple[Callable, tuple[int, ...]]] = []
        self.returned: tuple[int, ...] = ()

    def __call__(self, *args) -> list[Any]:
        values = list(args)
        for step, operands in self.steps:
            values.append(step(*(values[k] for k in operands)))
        return [values[k] for k in self.returned]


def arguments(seed: int, batch: int, special: bool) -> list[np.ndarray]:
    """Arguments of a batch; special ones have infinities, NaN and negative zeros among them."""
    rng = np.random.default_rng(seed)
    made = []
    for kind, shape in INPUTS:
        if kind == "exact":
            x = rng.integers(-12, 13, (batch, *shape)) / 4
            if special:
                odd = rng.choice([np.inf, -np.inf, np.nan, -0.0], x.shape)
                x = np.where(rng.random(x.shape) < 0.15, odd, x)
            made.append(x)
        elif kind == "int":
            made.append(rng.integers(-4, 8, (batch, *shape)))
        else:
            made.append(rng.random((batch, *shape)) < 0.5)
    return made


def _clip(x):
    return jnp.clip(x, -2, 2)


def _wide(function: Callable) -> Callable:
    """A function of two arrays of one shape with numpy's broadcasting."""
    return lambda x, y: function(*jnp.broadcast_arrays(x, y))


def _by_nonzero(function: Callable) -> Callable:
    """A division, never by zero: XLA may make 1 of k / k, or of 0 / 0 what it makes of k / 0."""
    return lambda x, y: function(x, jnp.where(y == 0, 1, y))


WHOLE = (jnp.floor, jnp.ceil, jnp.round, jnp.sign)
ROUGH_ONE = (
    jnp.sin, jnp.cos, jnp.tanh, jnp.arctan, lax.logistic, lax.erf, jnp.arcsinh,
    lambda x: jnp.sqrt(1 + x * x), lambda x: jnp.log1p(jnp.abs(x)), lambda x: jnp.exp(-x * x),
    lambda x: _clip(x) ** 3 / 4, lambda x: x / (0.5 + jnp.sum(x * x)),
    lambda x: jnp.exp(_clip(x)) / jnp.sum(jnp.exp(_clip(x))),
    lambda x: jnp.cumsum(x, -1) / 2 if x.ndim else x,
)  # fmt: skip
ROUGH_TWO = (
    lambda x, y: 0.5 * (x + y), lambda x, y: _clip(x) * _clip(y) / 2, lambda x, y: x / (1 + y * y),
    lambda x, y: 0.6 * x - 0.4 * y, lambda x, y: x * jnp.cos(y) + y * jnp.sin(x),
    lambda x, y: jnp.sqrt(x * x + y * y + 1),
)  # fmt: skip
HARD_ONE = (
    jnp.exp, jnp.log, jnp.sqrt, jnp.cbrt, jnp.expm1, jnp.sinh, jnp.tan, jnp.arcsin, jnp.arccosh,
    jnp.arctanh, lax.rsqrt, lambda x: x**-3, lambda x: 1 / x,
)  # fmt: skip
HARD_TWO = (jnp.divide, _wide(lax.rem), jnp.mod, jnp.power, jnp.arctan2)
COMPARE = (jnp.less, jnp.less_equal, jnp.greater, jnp.greater_equal, jnp.equal, jnp.not_equal)
INT_ONE = (
    jnp.negative, jnp.abs, jnp.sign, jnp.invert, lambda k: k * 3 - 1, lambda k: k // 2,
    lambda k: k % 3,
)  # fmt: skip
INT_TWO = (
    jnp.add, jnp.subtract, jnp.multiply, jnp.maximum, jnp.minimum, jnp.bitwise_and, jnp.bitwise_or,
    jnp.bitwise_xor, _by_nonzero(jnp.floor_divide), _by_nonzero(_wide(lax.div)),
    _by_nonzero(_wide(lax.rem)), _wide(lax.shift_left), _wide(lax.shift_right_arithmetic),
)  # fmt: skip
BOOL_TWO = (jnp.logical_and, jnp.logical_or, jnp.logical_xor, jnp.equal)
FLOATS = ("exact", "rough")


def _same(node: Node) -> dict[str, int]:
    """The bounds of another number that is about as large."""
    return dict(most=2 * node.most + 2**node.fraction, fraction=node.fraction)


def _scalar(node: Node) -> bool:
    return not node.shape


def _array(node: Node) -> bool:
    return bool(node.shape)


@st.composite
def functions(draw, steps: int = 12) -> Function:
    """A function of ``INPUTS``."""
    made = Function([Node(k, s, 12 if k == "exact" else 0, 2, given=True) for k, s in INPUTS])
    wanted = draw(st.integers(3, steps))
    while len(made.steps) < wanted:
        draw(st.sampled_from(MAKERS))(draw, made)
    used = {k for _, operands in made.steps for k in operands}
    last = range(len(INPUTS), len(made.nodes))
    also = draw(st.sets(st.sampled_from(last), max_size=2))
    made.returned = tuple(k for k in last if k not in used or k in also)
    return made


def _pick(draw, made: Function, *kinds: str, fits=lambda node: True) -> int:
    """One of the nodes of some kinds, rather a late one; there is always an argument that fits."""
    found = [k for k, node in enumerate(made.nodes) if node.kind in kinds and fits(node)]
    return found[-1 - draw(st.integers(0, len(found) - 1))]


def _add(made: Function, step: Callable, operands, kind: str, shape=None, most=0, fraction=0):
    """One more node; a number that may be too large to be exact is rough."""
    if kind == "exact" and most > MOST:
        kind, step = "rough", lambda *args, inner=step: _clip(inner(*args))
    shape = made.nodes[operands[0]].shape if shape is None else shape
    made.nodes.append(Node(kind, tuple(shape), most, fraction))
    made.steps.append((step, tuple(operands)))


def _two(draw, made: Function, *kinds: str, **options) -> tuple[int, int, tuple[int, ...]]:
    """Two nodes and the shape they broadcast to."""
    k, j = (_pick(draw, made, *kinds, **options) for _ in range(2))
    return k, j, np.broadcast_shapes(made.nodes[k].shape, made.nodes[j].shape)


def _exact_one(draw, made):
    k = _pick(draw, made, "exact")
    step = draw(st.sampled_from((*WHOLE, jnp.negative, jnp.abs, lambda x: x + 1)))
    _add(made, step, (k,), "exact", **_same(made.nodes[k]))


def _exact_two(draw, made):
    k, j, shape = _two(draw, made, "exact")
    a, b = made.nodes[k], made.nodes[j]
    name = draw(st.sampled_from(("add", "subtract", "multiply", "maximum", "minimum")))
    fraction = max(a.fraction, b.fraction)
    most = (a.most << (fraction - a.fraction)) + (b.most << (fraction - b.fraction))
    if name == "multiply":
        fraction, most = a.fraction + b.fraction, a.most * b.most
    _add(made, getattr(jnp, name), (k, j), "exact", shape, most, fraction)


def _reduced(draw, made):
    k = _pick(draw, made, "exact", fits=_array)
    node = made.nodes[k]
    axis = draw(st.sampled_from((None, -1)))
    reduce = draw(st.sampled_from((jnp.sum, jnp.max, jnp.min, jnp.argmax, jnp.argmin)))
    kind = "int" if reduce in (jnp.argmax, jnp.argmin) else "exact"
    shape = () if axis is None else node.shape[:-1]
    if shape not in SHAPES:
        axis, shape = None, ()
    _add(made, lambda x: reduce(x, axis=axis), (k,), kind, shape, 6 * node.most, node.fraction)


def _rough_one(draw, made):
    _add(made, draw(st.sampled_from(ROUGH_ONE)), (_pick(draw, made, *FLOATS),), "rough")


def _rough_two(draw, made):
    k, j, shape = _two(draw, made, *FLOATS)
    _add(made, draw(st.sampled_from(ROUGH_TWO)), (k, j), "rough", shape)


def _hard(draw, made):
    """At the poles and beyond: returned as it is, and clipped where it is used."""
    given = dict(fits=lambda node: node.given)
    if draw(st.booleans()):
        operands = (_pick(draw, made, "exact", **given),)
        step, shape = draw(st.sampled_from(HARD_ONE)), None
    else:
        k, j, shape = _two(draw, made, "exact", **given)
        operands, step = (k, j), draw(st.sampled_from(HARD_TWO))
    _add(made, step, operands, "hard", shape)
    _add(made, _clip, (len(made.nodes) - 1,), "rough")


def _compared(draw, made):
    k, j, shape = _two(draw, made, draw(st.sampled_from(("exact", "int"))))
    _add(made, draw(st.sampled_from(COMPARE)), (k, j), "bool", shape)


def _bools(draw, made):
    k, j, shape = _two(draw, made, "bool")
    _add(made, draw(st.sampled_from(BOOL_TWO)), (k, j), "bool", shape)
    _add(made, draw(st.sampled_from((jnp.any, jnp.all))), (len(made.nodes) - 1,), "bool", ())


def _ints(draw, made):
    if draw(st.booleans()):
        _add(made, draw(st.sampled_from(INT_ONE)), (_pick(draw, made, "int"),), "int")
    else:
        k, j, shape = _two(draw, made, "int")
        _add(made, draw(st.sampled_from(INT_TWO)), (k, j), "int", shape)


def _converted(draw, made):
    kind = draw(st.sampled_from(("exact", "bool", "int")))
    k = _pick(draw, made, kind)
    if kind == "exact":
        _add(made, lambda x: x.astype(int), (k,), "int")
    elif kind == "bool":
        _add(made, lambda x: x.astype(float), (k,), "exact", most=1)
    else:
        _add(made, lambda n: jnp.clip(n, -8, 8).astype(float), (k,), "exact", most=8)


def _chosen(draw, made):
    which = _pick(draw, made, "bool")
    k, j, shape = _two(draw, made, *FLOATS)
    a, b = made.nodes[k], made.nodes[j]
    fraction = max(a.fraction, b.fraction)
    most = max(a.most << (fraction - a.fraction), b.most << (fraction - b.fraction))
    kind = "exact" if a.kind == b.kind == "exact" else "rough"
    shape = np.broadcast_shapes(shape, made.nodes[which].shape)
    _add(made, jnp.where, (which, k, j), kind, shape, most, fraction)


def _filled(x, n):
    return jnp.sum(x.at[..., n].get(mode="fill", fill_value=1.5))


def _moved(x, n):
    return lax.dynamic_update_slice_in_dim(x, lax.dynamic_slice_in_dim(x, n, 1, -1) * 2, 1, -1)


def _indexed(draw, made):
    """Reads and writes at a computed index, often out of bounds."""
    k = _pick(draw, made, *FLOATS, fits=_array)
    n = _pick(draw, made, "int", fits=_scalar)
    node = made.nodes[k]
    way = draw(st.sampled_from(("read", "fill", "roll", "move", "set", "add")))
    if way == "read":
        _add(made, lambda x, n: x[n], (k, n), node.kind, node.shape[1:], **_same(node))
    elif way == "fill":
        _add(made, _filled, (k, n), "rough", ())
    elif way == "roll":
        _add(made, lambda x, n: jnp.roll(x, n, -1), (k, n), node.kind, **_same(node))
    elif way == "move":
        _add(made, _moved, (k, n), node.kind, **_same(node))
    else:
        _add(made, lambda x, n: getattr(x.at[n], way)(x[0]), (k, n), node.kind, **_same(node))


def _product(draw, made):
    k = _pick(draw, made, *FLOATS, fits=lambda node: len(node.shape) == 2)
    j = _pick(draw, made, *FLOATS, fits=lambda node: len(node.shape) == 1)
    _add(made, lambda a, v: _clip(v @ a.T @ a), (k, j), "rough", (3,))


def _branched(draw, made):
    which, k = _pick(draw, made, "int", fits=_scalar), _pick(draw, made, *FLOATS)
    ways = [draw(st.sampled_from(ROUGH_ONE)) for _ in range(draw(st.integers(2, 3)))]
    first = ways[0]

    def busy(x):  # too much work to be done in vain
        def body(i, y):
            return 0.3 * (y + jnp.sin(y + i) * jnp.tanh(first(x)))

        return lax.fori_loop(0, 70, body, x)

    if draw(st.booleans()):
        ways[0] = busy
    _add(made, lambda n, x: lax.switch(n, ways, x), (which, k), "rough")


def _looped(draw, made):
    """A short or long scan over rows, or a loop of as many rounds as the member asks for."""
    rows, k = _pick(draw, made, *FLOATS, fits=_array), _pick(draw, made, *FLOATS, fits=_scalar)
    step, times = draw(st.sampled_from(ROUGH_TWO)), draw(st.sampled_from((0, 1, 40)))
    reverse = draw(st.booleans())

    def body(c, r):
        c = jnp.tanh(step(c, jnp.sum(r)))
        return c, c * r

    def scanned(x, c):
        many = jnp.concatenate([x] * times) if times else x[:0]
        c, ys = lax.scan(body, c, many, reverse=reverse)
        return c + (jnp.sum(ys) / ys.size if ys.size else 0)

    def repeated(x, c, n):
        return lax.fori_loop(0, n % 5, lambda i, c: body(c, x[i % x.shape[0]])[0], c)

    if draw(st.booleans()):
        _add(made, scanned, (rows, k), "rough", ())
    else:
        n = _pick(draw, made, "int", fits=_scalar)
        _add(made, repeated, (rows, k, n), "rough", ())


ONCE = (_reduced, _compared, _bools, _converted, _product, _branched, _looped)
TWICE = (_exact_one, _exact_two, _rough_one, _rough_two, _hard, _ints, _chosen, _indexed)
MAKERS = (*ONCE, *TWICE, *TWICE)
