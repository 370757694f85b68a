"""Local memory at known places, which lanes write that take no part in a block."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxsim.fused import fuse, replay
from jaxsim.fused.core import core
from jaxsim.fused.lower import lower
from jaxsim.fused.program import ProgramBlock, walk
from jaxsim.solvers import qp

N = 30  # rows that are in tiles
ROUNDS = np.array([0, 3, 1, 7, 7, 2] * 6, np.float32)
SEEDS = np.random.default_rng(0).normal(size=(len(ROUNDS), N)).astype(np.float32)


def diverging(rounds, seed):
    """Members leave the loop after different rounds, take different branches in it, and read again
    what was in memory before it."""
    before = jnp.cumsum(seed)

    def body(state):
        k, x = state
        m = x[:, None] * x / N + jnp.diag(2 + jnp.abs(x))
        x = lax.linalg.triangular_solve(
            jnp.linalg.cholesky(m), x[:, None], lower=True, left_side=True
        )
        x = x[:, 0] + seed
        at = jnp.argmax(x)  # of so many candidates a computed one is read from memory
        more = lambda x: x + before[at] * jnp.linalg.cholesky(m + jnp.eye(N))[:, 3]  # noqa: E731
        return k + 1, lax.cond(x[0] > 0, more, lambda x: x - x[at] * jnp.flip(x), x)

    k, x = lax.while_loop(lambda state: state[0] < rounds, body, (jnp.zeros(()), seed))
    return x, before[jnp.argmin(x)], k


def scanned(rounds, seed):
    """The rows of a loop in a loop that some leave early."""

    def body(state):
        k, x = state
        _, rows = lax.scan(
            lambda c, s: (jnp.sin(c) + s, c * jnp.arange(3.0)), x[0], 0.1 * jnp.arange(70.0)
        )
        return k + 1, x + rows[jnp.argmax(rows[:, 1]), 2] + jnp.sum(rows[5])

    return lax.while_loop(lambda state: state[0] < rounds, body, (jnp.zeros(()), seed))


@pytest.mark.parametrize("fn", [diverging, scanned])
def test_lanes_that_have_left_keep_what_they_have(fn, monkeypatch):
    found = fuse(fn)(ROUNDS, SEEDS)
    wanted = jax.vmap(fn)(ROUNDS, SEEDS)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5), found, wanted)
    monkeypatch.setattr(replay, "core", lambda: None)  # now each lane writes its own alone
    jax.tree.map(np.testing.assert_array_equal, found, fuse(fn)(ROUNDS, SEEDS))


def solved(p):
    return qp.solve(p).x


def _is_within(block: ProgramBlock | None, outer: ProgramBlock) -> bool:
    while block is not None and block is not outer:
        block = block.parent
    return block is outer


@pytest.mark.slow
@pytest.mark.parametrize("fn", [diverging, solved])
def test_what_is_written_at_known_places_is_read_there_and_within(fn):
    """What ``KernelMemory`` promises, on which it rests that all lanes may write."""
    shapes = ((40, 30), (40,), (3, 30), (3,), (4, 30), (4,), (30,), (30,))
    of_qp = qp.QuadraticProgram(*(jnp.zeros(shape, jnp.float32) for shape in shapes))
    args = (of_qp,) if fn is solved else (ROUNDS[0], SEEDS[0])
    program = lower(jax.make_jaxpr(fn)(*args))
    local = [v for v in walk(program.block) if v.op in ("load", "store") and v.data.kind == "local"]
    writes = [v for v in local if v.op == "store" and v.args[0].is_constant]
    reads = {}
    for value in local:
        if value.op == "load":
            reads.setdefault(id(value.data), []).append(value)
    assert writes and reads
    for write in writes:
        for read in reads.get(id(write.data), []):
            assert _is_within(read.block, write.block)
            if read.block is write.block:
                order = {id(v): k for k, v in enumerate(write.block.ops)}
                assert order[id(read)] > order[id(write)]


def test_a_known_place_is_written_without_being_read():
    fused = fuse(diverging)
    fused(ROUNDS, SEEDS)
    if core() is None:
        pytest.skip("Dr.Jit's library does not offer it")
    import drjit as dr

    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        fuse(diverging)(ROUNDS, SEEDS)
        (kernel,) = dr.kernel_history([dr.KernelType.JIT])
    ir = kernel["ir"].getvalue()
    known = set(re.findall(r"(%\w+) = getelementptr inbounds \w+, ptr %arr_\d+, i32 \d+\n", ir))
    read = set(re.findall(r"= load <\d+ x \w+>, ptr (%\w+),", ir)) & known
    written = set(re.findall(r"store <\d+ x \w+> \S+, ptr (%\w+),", ir)) & known
    assert len(written) > N and len(read) > N
    assert not read & written


def test_gathers_of_avx2_stay_instructions():
    """LLVM takes them apart on some processors, a branch a lane: large kernels do not compile."""
    fuse(jnp.sin)(np.ones(3))  # Dr.Jit is there
    library = core()
    if library is None:
        pytest.skip("Dr.Jit's library lacks the functions")
    features = library.features().split(b",")
    assert (b"+fast-gather" in features) == (b"+avx2" in features)
