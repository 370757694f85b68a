"""Kernels do not pile up: traces that compute the same share one, and old ones are let go."""

import multiprocessing
import os
import signal
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name

from controllers.scl.load import load_script, script_controller
from jaxsim.characters.planar_human import planar_human, start
from jaxsim.fused import fuse, fuse_one, launch
from jaxsim.fused import kept as kept_module
from jaxsim.fused.errors import FuseError
from jaxsim.fused.kept import get_or_make
from jaxsim.fused.launch import Kernel
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping


def swing(x):
    """Seven steps of something small."""
    table = jnp.array([0.5, 0.25, 1.0])

    def one(carry, k):
        return jnp.sin(carry) * table + 0.1 * k, jnp.sum(carry)

    last, sums = jax.lax.scan(one, x, jnp.arange(7.0))
    return last, sums


@pytest.fixture
def made(monkeypatch):
    """The kernels that are made while a test runs."""
    kernels = []
    init = launch.Kernel.__init__

    def noting(self, closed):
        init(self, closed)
        kernels.append(self)

    monkeypatch.setattr(launch.Kernel, "__init__", noting)
    monkeypatch.setattr(kept_module, "_kept", type(kept_module._kept)())
    return kernels


def test_a_jitted_function_has_one_kernel_for_all_batch_sizes(made):
    jitted = jax.jit(jax.vmap(lambda x: fuse_one(swing)(x)))  # a new function in each trace
    for size in (2, 3, 5, 8):
        x = jnp.linspace(0.0, 1.0, 3 * size).reshape(size, 3)
        np.testing.assert_allclose(jitted(x)[0], jax.vmap(swing)(x)[0], rtol=1e-5)
    assert len(made) == 1


def test_and_one_pair_for_its_gradients(made):
    def loss(x):
        return fuse_one(swing)(x)[0].sum()

    counts = []
    for size in (2, 3, 5):
        x = jnp.linspace(0.0, 1.0, 3 * size).reshape(size, 3)
        found = jax.jit(jax.vmap(jax.grad(loss)))(x)
        want = jax.vmap(jax.grad(lambda x: swing(x)[0].sum()))(x)
        np.testing.assert_allclose(found, want, rtol=1e-4)
        counts.append(len(made))
    assert counts[0] == counts[1] == counts[2]


def test_recordings_of_batch_sizes_are_bounded(made, monkeypatch):
    monkeypatch.setattr(launch, "SIZES_KEPT", 3)
    batched = fuse(swing)
    for size in (2, 3, 4, 5, 6, 2, 6):
        x = jnp.linspace(0.0, 1.0, 3 * size).reshape(size, 3)
        np.testing.assert_allclose(batched(x)[1], jax.vmap(swing)(x)[1], rtol=1e-5)
        assert len(made[0]._recorded) <= 3
    assert len(made) == 1 and [key[1] for key in made[0]._recorded] == [5, 2, 6]


def test_kernels_that_were_not_used_for_long_forget_their_programs(made, monkeypatch):
    monkeypatch.setattr(launch, "KERNELS_KEPT", 2)
    monkeypatch.setattr(launch, "_recent", type(launch._recent)())
    functions = [fuse(lambda x, k=k: x * k + jnp.cos(x)) for k in (1.0, 2.0, 3.0, 4.0)]
    x = jnp.arange(5.0)
    for k in (1, 2, 3, 4, 1, 4):
        np.testing.assert_allclose(functions[k - 1](x), x * k + jnp.cos(x), rtol=1e-5)
        assert sum("program" in vars(kernel) for kernel in made) <= 2
    assert len(made) == 4 and [k for k in range(4) if "program" in vars(made[k])] == [0, 3]


@jax.custom_jvp
def doubled(x):
    return 2 * x


doubled.defjvp(lambda primals, tangents: (2 * primals[0], 5 * tangents[0]))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (lambda x: x + 1.0, lambda y: y + 1.0, True),
        (lambda x: x + 1.0, lambda x: x + 1.5, False),
        (lambda x: x * jnp.arange(3.0), lambda x: x * jnp.arange(3.0), True),
        (lambda x: x * np.arange(3.0), lambda x: x * np.array([0.0, 1.0, 2.5]), False),
        (lambda x: x[:2], lambda x: x[1:], False),
        (lambda x: jnp.sum(x), lambda x: jnp.max(x), False),
        (jax.jit(lambda x: x + 1.0), jax.jit(lambda x: x + 1.0), True),
        (lambda x: checkpoint_name(x, "costly"), lambda x: checkpoint_name(x, "cheap"), False),
        (doubled, doubled, False),  # of a rule for derivatives nobody can say what it is
        (
            lambda x: jax.lax.fori_loop(0, 5, lambda _, x: x * 2, x),
            lambda x: jax.lax.fori_loop(0, 6, lambda _, x: x * 2, x),
            False,
        ),
    ],
)
def test_what_counts_as_the_same(one, other, same, made):
    x = jnp.ones(3)
    first, second = (
        get_or_make(jax.make_jaxpr(f)(x), lambda closed: object()) for f in (one, other)
    )
    assert (first is second) == same


def test_how_many_are_kept_is_bounded(made, monkeypatch):
    monkeypatch.setattr(kept_module, "MOST", 3)
    for k in range(6):
        get_or_make(jax.make_jaxpr(lambda x, k=k: x + float(k))(1.0), lambda closed: k)  # noqa: B023
    assert len(kept_module._kept) == 3


def test_other_precision_is_another_kernel(made):
    def traced():
        return get_or_make(jax.make_jaxpr(lambda x: x + 1)(jnp.ones(3)), lambda closed: object())

    narrow = traced()
    with jax.enable_x64(True):
        assert traced() is not narrow
    assert traced() is narrow


@pytest.mark.slow
def test_new_batch_sizes_of_a_rollout_take_little_memory():
    """3 MB each, what XLA keeps of a program; 9 MB when each had a kernel of its own."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        pytest.skip("nobody tells how much memory there is")
    human = planar_human()
    state = start(human, "standing")
    walk = script_controller(load_script("walk", human), human)

    @jax.jit
    @jax.vmap
    def end(values):
        controller = walk.replace(values=values)
        return rollout(human, controller, state, TimeStepping(dt=0.001), 20).state.q

    taken = []
    for size in range(2, 27):
        jax.block_until_ready(end(jnp.tile(walk.values, (size, 1))))
        taken.append(int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6)
    assert (taken[-1] - taken[4]) / 20 < 5.0, taken


# ---- forks


def _in_fork(pipe):
    try:
        fuse(lambda x: x + 1)(jnp.ones(3))
        pipe.send("it ran")
    except FuseError as error:
        pipe.send(str(error))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning", "ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("how", ["os", "multiprocessing"])
def test_a_fork_of_a_process_with_kernels_is_told_and_does_not_hang(how):
    batched, x = fuse(lambda x: x + 1), np.ones(3, np.float32)
    batched(x)
    here, there = multiprocessing.Pipe()
    if how == "os":
        child = os.fork()
        if not child:
            try:
                batched(x)
            except FuseError as error:
                there.send(str(error))
            finally:
                os._exit(0)
    else:
        process = multiprocessing.get_context("fork").Process(target=_in_fork, args=(there,))
        process.start()
        child = process.pid
    try:
        assert here.poll(60), "the fork says nothing"
        told = here.recv()
    finally:
        _end(child)
    assert f"is a fork of {os.getpid()}" in told and 'get_context("spawn")' in told


def _end(child):
    for _ in range(50):
        if os.waitpid(child, os.WNOHANG)[0]:
            return
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_arrays_that_begin_anywhere_need_no_recording_of_their_own():
    """Beside a multiple of 64 bytes, and two at one place."""
    kernel = Kernel(jax.make_jaxpr(lambda x, y: x * y + x)(*[np.zeros(3, np.float32)] * 2))
    room = np.arange(200, dtype=np.float32)
    for first in (0, 1, 2, 4, 8, 16):
        x, y = room[first : first + 24].reshape(8, 3), room[64:88].reshape(8, 3)
        for pair in ((x, y), (y, x), (x, x)):
            (found,) = kernel.run(list(pair), (True, True), 8)
            np.testing.assert_array_equal(found, pair[0] * pair[1] + pair[0])
    assert [recording.n_recordings for recording, _ in kernel._recorded.values()] == [1]
