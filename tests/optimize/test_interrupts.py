"""Ctrl-C: one message, exit code 130, nothing complete lost; from Python a KeyboardInterrupt."""

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from optimize import interrupts
from optimize.interrupts import ECHO, check, defer_interrupts, note_interrupts
from optimize.results.folder import RunFolder
from optimize.running.simulate import simulate

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of another kind")
WALK = dict(seconds=0.08, dt=0.001)  # as in test_simulate: one compiled function serves both


def ctrl_c(*_):
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def handlers():
    """Every test leaves the handlers as they were, and no signal waiting."""
    outer = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # what a background job has not
    before = [signal.getsignal(each) for each in interrupts.SIGNALS], sys.unraisablehook
    yield
    assert ([signal.getsignal(each) for each in interrupts.SIGNALS], sys.unraisablehook) == before
    assert not interrupts._state.depth and not interrupts._state.holds
    signal.signal(signal.SIGINT, outer)


# ---- from Python


def test_within_a_hold_a_signal_waits_for_a_check(capfd):
    done = []
    with pytest.raises(KeyboardInterrupt), defer_interrupts() as look:
        look()
        ctrl_c()
        done.append("to the end")
        look()
        done.append("never")
    assert done == ["to the end"] and "once more ends it at once" in capfd.readouterr().err
    check()  # nothing is left


def test_without_a_check_the_end_of_the_hold_raises():
    with pytest.raises(KeyboardInterrupt), note_interrupts():
        with defer_interrupts():
            ctrl_c()
        pytest.fail("went on")


def test_a_second_one_raises_at_once():
    with pytest.raises(KeyboardInterrupt), defer_interrupts():
        ctrl_c()
        ctrl_c()  # the same one, as some shells send it twice
        time.sleep(ECHO + 0.05)
        ctrl_c()
        pytest.fail("went on")


def test_outside_of_a_hold_it_raises_at_once():
    with pytest.raises(KeyboardInterrupt), note_interrupts():
        ctrl_c()
        pytest.fail("went on")


def test_an_error_that_it_became_is_a_keyboard_interrupt_again():
    with pytest.raises(KeyboardInterrupt) as caught, note_interrupts():
        try:
            ctrl_c()
        except KeyboardInterrupt as error:
            raise RuntimeError("XLA: KeyboardInterrupt") from error
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_errors_without_a_signal_stay_what_they_are():
    for block in (note_interrupts, defer_interrupts):
        with pytest.raises(RuntimeError, match="a fault"), block():
            raise RuntimeError("a fault")


def test_one_in_a_callback_of_compiled_code_is_a_keyboard_interrupt():
    def host(x):
        ctrl_c()
        for _ in range(1000):
            pass
        return x

    @jax.jit
    def compiled(x):
        return jax.pure_callback(host, jax.ShapeDtypeStruct((), jnp.float32), x) + 1

    with pytest.raises(KeyboardInterrupt), note_interrupts():
        jax.block_until_ready(compiled(jnp.float32(1.0)))
    with pytest.raises(KeyboardInterrupt), defer_interrupts():
        jax.block_until_ready(compiled(jnp.float32(1.0)))


def test_one_in_a_garbage_collection_is_not_lost(capfd):
    def collected(phase, _):
        gc.callbacks.remove(collected)
        ctrl_c()

    gc.callbacks.append(collected)
    with pytest.raises(KeyboardInterrupt), note_interrupts():
        gc.collect()
        time.sleep(5.0)
        pytest.fail("went on")
    assert "Exception ignored" not in capfd.readouterr().err


def test_a_handler_of_the_users_and_an_ignored_signal_stay():
    seen = []
    before = signal.signal(signal.SIGTERM, lambda *_: seen.append("mine"))
    try:
        with note_interrupts(), defer_interrupts():
            os.kill(os.getpid(), signal.SIGTERM)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with note_interrupts(), defer_interrupts():
            ctrl_c()
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert seen == ["mine"]


def test_in_another_thread_nothing_is_handled():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work():
        with note_interrupts(), defer_interrupts() as look:
            look()
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


@pytest.mark.parametrize("after", [0.1, 2.5])
def test_a_simulation_in_a_notebook_can_be_interrupted_and_run_again(after, capfd):
    """What is simulated so far, or a KeyboardInterrupt, and nothing is broken."""
    timer = threading.Timer(after, ctrl_c)
    timer.start()
    try:
        part = simulate("walk", seconds=600.0, dt=0.001, backend="xla")
        assert part.interrupted and part.motion.n_frames > 1
    except KeyboardInterrupt:
        pass
    finally:
        timer.join()
    err = capfd.readouterr().err
    assert "Traceback" not in err and "Exception ignored" not in err
    whole = simulate("walk", backend="xla", **WALK)
    assert not whole.interrupted and whole.motion.n_frames == 11


CELL = """
from optimize.running.simulate import simulate
part = simulate("walk", seconds=600.0, dt=0.001)
"""


@pytest.mark.slow
@pytest.mark.parametrize("after", [0.5, 6.0, 25.0])
def test_a_kernel_of_a_real_notebook_can_be_interrupted_and_goes_on(after):
    manager = pytest.importorskip("jupyter_client.manager")
    kernel, client = manager.start_new_kernel(cwd=ROOT)
    try:
        timer = threading.Timer(after, kernel.interrupt_kernel)
        timer.start()
        reply = client.execute_interactive(CELL, timeout=300)["content"]
        timer.join()
        assert reply["status"] == "ok" or reply["ename"] == "KeyboardInterrupt", reply
        if reply["status"] == "ok":
            assert (
                client.execute_interactive("assert part.interrupted")["content"]["status"] == "ok"
            )
        again = 'assert not simulate("walk", seconds=0.08, dt=0.001).interrupted'
        again = f"from optimize.running.simulate import simulate\n{again}"
        assert client.execute_interactive(again, timeout=300)["content"]["status"] == "ok"
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)


# ---- commands


# Shells let jobs in the background ignore Ctrl-C, and what these start inherits it.
FOREGROUND = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def started(*arguments):
    return subprocess.Popen(
        [sys.executable, "-c", FOREGROUND, "-m", "optimize.cli.main", *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process, timeout=240):
    """Exit code and stderr, which is no traceback."""
    try:
        _, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    assert "Traceback" not in err and "Exception ignored" not in err, err
    return process.returncode, err


def waited_for(process, reached, timeout=240):
    end = time.monotonic() + timeout
    while not reached():
        assert process.poll() is None and time.monotonic() < end, process.stderr.read()
        time.sleep(0.05)


def simulating(tmp_path):
    options = ["--seconds", "900", "--dt", "0.001", "--precision", "float32", "--quiet"]
    return started("simulate", "walk", *options, "--out", tmp_path / "walk")


@pytest.mark.parametrize("moment", [1.5, 6.0])  # JAX begins; tracing, compiling or running
def test_simulate_ends_with_one_message(moment, tmp_path):
    process = simulating(tmp_path)
    time.sleep(moment)
    process.send_signal(signal.SIGINT)
    code, err = ended(process)
    assert code == 130 and "interrupted" in err
    written = tmp_path / "walk" / "summary.json"
    assert not written.exists() or json.loads(written.read_text())["interrupted"]


TUNE = ["tune", "sit_to_stand_quick", "--objective", "quick-rise", "--seconds", "0.05"]
TUNE += ["--generations", "100000", "--population", "4", "--quiet"]


def tuning(tmp_path):
    return started(*TUNE, "--dt", "0.001", "--out", tmp_path / "run")


def test_tune_keeps_what_is_complete_and_says_how_to_go_on(tmp_path):
    process = tuning(tmp_path)
    history = tmp_path / "run" / "history.jsonl"
    waited_for(process, lambda: history.is_file() and history.read_text().count("\n") > 2)
    process.send_signal(signal.SIGINT)
    code, err = ended(process)
    assert code == 130
    assert err.strip().endswith(f"to go on: jaxsim tune --out {tmp_path / 'run'} --resume")
    lines = RunFolder(tmp_path / "run").read_history()
    assert [line["generation"] for line in lines] == list(range(-1, len(lines) - 1))
    assert f"after {len(lines) - 1} of 100000 generations" in err
    assert not (tmp_path / "run" / ".lock").exists()


@pytest.mark.slow
@pytest.mark.parametrize("start", [simulating, tuning])
def test_any_moment_will_do(start, tmp_path):
    for moment in np.random.default_rng(0).uniform(0.7, 20.0, size=8):
        process = start(tmp_path / f"{moment:.3f}")
        time.sleep(moment)
        process.send_signal(signal.SIGINT)
        code, err = ended(process)
        assert code == 130 and "interrupted" in err.lower(), (moment, err)


BUSY = """
import hashlib, sys
from optimize.interrupts import command, defer_interrupts
with command(lambda: "to go on: this way"), defer_interrupts():
    print("begun", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"a", b"b", 10**9)  # minutes, in which Python handles no signal
"""


def test_a_second_signal_ends_a_command_even_within_compiled_code():
    process = subprocess.Popen(
        [sys.executable, "-c", FOREGROUND, "-c", BUSY],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    time.sleep(interrupts.PATIENCE + 0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    code, err = ended(process, timeout=10)
    assert code == 130
    assert (
        err
        == f"{interrupts.NOTICE}\n\nended at once; complete results are saved\nto go on: this way\n"
    )
