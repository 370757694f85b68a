"""Folding rules: simplify an operation whose arguments are partly known or equal.

A rule takes the builder and the arguments, and returns an existing or simpler value, or None.

A product with a constant that is exactly zero is zero for any other factor: this removes the zeros
of joint axes and planar offsets, and is the only place where a NaN or an infinity does not
propagate.
"""

import numpy as np

from jaxsim.fused.program import Value

TREE_LEAVES = 32  # largest select of constants that index arithmetic is pushed through


def leaves(value: Value, most: int = TREE_LEAVES) -> int:
    """Number of constants that a tree of selects chooses from; 0 for other values, or over most."""
    if value.is_constant:
        return 1
    if value.op != "select" or most < 2:
        return 0
    yes = leaves(value.args[1], most - 1)
    no = leaves(value.args[2], most - yes) if yes else 0
    return yes + no if no else 0


THROUGH_TREES = {
    "add", "sub", "mul", "neg", "max", "min", "eq", "ne", "lt", "le", "gt", "ge", "convert",
    "and", "or", "xor", "not",
}  # fmt: skip


def _is(value: Value, number) -> bool:
    return value.op == "constant" and value.data == number


def _add(b, x, y):
    if _is(x, 0):
        return y
    if _is(y, 0):
        return x
    if y.op == "neg":
        return b.op("sub", x, y.args[0])
    if x.op == "neg":
        return b.op("sub", y, x.args[0])
    return None


def _sub(b, x, y):
    if _is(y, 0):
        return x
    if _is(x, 0):
        return b.op("neg", y)
    if y.op == "neg":
        return b.op("add", x, y.args[0])
    if x.op == "neg":  # a sign moves outwards, where it meets a sum or another sign
        return b.op("neg", b.op("add", x.args[0], y))
    if x is y and x.dtype.kind in "iu":
        return b.constant(x.dtype.type(0))
    return None


def _mul(b, x, y):
    if x.op != "constant":
        x, y = y, x
    if x.op == "constant":
        if x.data == 0:
            return x
        if x.data == 1:
            return y
        if x.data == -1:
            return b.op("neg", y)
        if y.op == "neg" and x.dtype.kind == "f":
            return b.op("mul", b.constant(-x.data), y.args[0])
        return None
    if x.op == "neg" and y.op == "neg":
        return b.op("mul", x.args[0], y.args[0])
    if x.op == "neg":
        return b.op("neg", b.op("mul", x.args[0], y))
    if y.op == "neg":
        return b.op("neg", b.op("mul", x, y.args[0]))
    return None


def _div(b, x, y):
    if _is(y, 1):
        return x
    if x.dtype.kind == "f":
        if _is(x, 0):
            return x
        if _is(y, -1):
            return b.op("neg", x)
        if y.op == "constant" and y.data != 0 and np.frexp(y.data)[0] == 0.5:
            return b.op("mul", x, b.constant(1 / y.data))  # a power of two: exact
    return None


def _neg(b, x):
    if x.op == "neg":
        return x.args[0]
    if x.op == "sub" and x.dtype.kind == "f":
        return b.op("sub", x.args[1], x.args[0])
    return None


def _same(b, x, y):
    return x if x is y else None


def _select(b, c, x, y):
    if x is y or (_is(x, 0) and _is(y, 0)):  # 0 and -0 are alike: else it would be no known zero
        return x
    if c.op == "constant":
        return x if c.data else y
    if c.op == "not":
        return b.op("select", c.args[0], y, x)
    if x.op == "select" and x.args[0] is c:
        return b.op("select", c, x.args[1], y)
    if y.op == "select" and y.args[0] is c:
        return b.op("select", c, x, y.args[2])
    if x.dtype.kind == "b":
        if x.op == "constant":
            return b.op("or", c, y) if x.data else b.op("and", b.op("not", c), y)
        if y.op == "constant":
            return b.op("or", b.op("not", c), x) if y.data else b.op("and", c, x)
    return None


def _bits(decisive: int):
    """Folding rule of ``and`` (0 is decisive) and ``or`` (of bools, 1 is decisive)."""

    def fold(b, x, y):
        if x.op != "constant":
            x, y = y, x
        if x is y:
            return x
        if x.op == "constant":
            if x.dtype.kind == "b":
                return x if x.data == decisive else y
            if x.data == 0:
                return y if decisive else x
        return None

    return fold


def _not(b, x):
    return x.args[0] if x.op == "not" else None


def _compare_same(answer: bool):
    def fold(b, x, y):
        if x is y and x.dtype.kind in "ibu":
            return b.constant(np.bool_(answer))
        return None

    return fold


FOLDS = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "neg": _neg,
    "max": _same,
    "min": _same,
    "select": _select,
    "and": _bits(0),
    "or": _bits(1),
    "not": _not,
    "eq": _compare_same(True),
    "le": _compare_same(True),
    "ge": _compare_same(True),
    "ne": _compare_same(False),
    "lt": _compare_same(False),
    "gt": _compare_same(False),
}
