"""Every primitive of the fused back end gives what XLA gives."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import ClosedJaxpr, Jaxpr

from jaxsim.fused.lower import RULES, lower
from jaxsim.fused.versions import expand
from tests.fused import agree
from tests.fused.cases import CASES, Case, control, elementwise, indexing, linear, shapes  # noqa: F401

# Names that tracing does not give in this version of JAX, and those that it gives for the same.
OTHER_NAMES = {
    "pjit": "jit",
    "closed_call": "jit",
    "checkpoint": "remat2",
    "custom_vjp_call_jaxpr": "custom_vjp_call",
    "expand_dims": "reshape",
    "copy_p": "copy",
    "pvary": "copy",  # inside shard_map
    "pcast": "copy",
    "reshard": "copy",  # of arrays that a function closes over, inside pmap
    "empty2": "empty",  # when a scan is compiled
    **{f"scatter_{kind}": f"scatter-{kind}" for kind in ("add", "sub", "mul", "min", "max")},
}

# Those that came with a version of JAX: the older do not have them.
SINCE = {
    "stack": (0, 10, 2),
    "unstack": (0, 10, 2),
    "eval_jaxpr": (0, 11),
    "one_minus_square": (0, 11),
    "log2": (0, 11),
    "polynomial": (0, 12),
    "call_hi_primitive": (0, 12),
}
UNKNOWN = {name for name, version in SINCE.items() if jax.__version_info__ < version}

USES = [(case, name) for case in CASES for name in case.primitives if name not in UNKNOWN]


def _id(value) -> str:
    return value if isinstance(value, str) else value.name


@pytest.fixture(params=[32, 64])
def bits(request):
    """Both precisions."""
    with jax.enable_x64(request.param == 64):
        yield request.param


@cache
def results(case: Case, bits: int):
    """The primitives of a case, and what both make of its arguments."""
    args = case.in_precision(bits)
    names = occurring(jax.make_jaxpr(case.fn)(*(x[0] for x in args)).jaxpr)
    return names, agree.fused(case.fn, *args), agree.by_xla(case.fn, *args)


def occurring(jaxpr) -> set[str]:
    """The names of the primitives of a jaxpr and of those within it."""
    found = set()
    for eqn in jaxpr.eqns:
        found.add(eqn.primitive.name)
        if eqn.primitive.name == "call_hi_primitive":
            found |= occurring(expand(eqn).jaxpr)
        for inner in jax.tree.leaves(list(eqn.params.values()), is_leaf=_is_jaxpr):
            if _is_jaxpr(inner):
                found |= occurring(getattr(inner, "jaxpr", inner))
    return found


def _is_jaxpr(x) -> bool:
    return isinstance(x, ClosedJaxpr | Jaxpr)


def test_every_primitive_has_a_case():
    tested = {name for _, name in USES}
    assert set(RULES) - tested == set(OTHER_NAMES) | UNKNOWN
    assert set(OTHER_NAMES.values()) <= tested
    for other, name in OTHER_NAMES.items():
        assert RULES[other] is RULES[name]


@pytest.mark.parametrize("case, name", USES, ids=_id)
def test_primitive(case, name, bits):
    names, got, wanted = results(case, bits)
    assert name in names
    least = 8 * float(np.finfo(f"float{bits}").eps) if case.sums else 0
    agree.same(got[name], wanted[name], case.rtol, least)


@pytest.mark.parametrize("case", [c for c in CASES if c.folds], ids=_id)
def test_constants_are_folded_to_the_same_numbers(case, bits):
    _, _, wanted = results(case, bits)
    args = map(jnp.asarray, case.in_precision(bits))
    program = lower(jax.make_jaxpr(lambda: jax.vmap(case.fn)(*args))())
    for output, y in zip(program.outputs, jax.tree.leaves(wanted)):
        assert all(v.is_constant for v in output.flat)
        folded = np.array([v.data for v in output.flat], y.dtype).reshape(y.shape)
        agree.same(folded, y)
