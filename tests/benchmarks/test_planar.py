"""The benchmark runs, and its task is the same for both engines."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="the benchmark compares with it")

from benchmarks._engines import TORQUES, Theirs
from benchmarks._machine import si, table
from benchmarks.planar import planar_task
from jaxsim.io.mjcf import mjcf_q_index, mjcf_v_index

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_both_engines_get_the_same_task():
    task = planar_task(5, settle=0)
    theirs = Theirs(task.first(3), steps=6)
    top = task.model.topology
    assert task.batch == 5 and theirs.initial.shape[0] == 3
    np.testing.assert_allclose(
        theirs.initial[:, 1 + mjcf_q_index(top)], task.state.q[:3], rtol=1e-12
    )
    for member in range(3):
        for step in range(6):
            row = task.torques[(task.offset[member] + step) % TORQUES]
            np.testing.assert_array_equal(theirs.control[member, step, mjcf_v_index(top)], row)
    np.testing.assert_allclose(theirs.mj.dof_damping[mjcf_v_index(top)], task.model.gain_d)
    theirs.run()
    assert np.isfinite(theirs.out).all() and (theirs.out[:, -1, 0] == pytest.approx(0.006))


def test_numbers_are_written_shortly():
    assert [si(x) for x in (12345.0, 2.5e6, 17.0)] == ["12.3 k", "2.5 M", "17"]
    lines = table(["a", "long"], [["1", "2"]]).splitlines()
    assert lines == ["| a | long |", "| - | ---- |", "| 1 | 2    |"]


@pytest.mark.slow
def test_quick_run_prints_a_table():
    command = [sys.executable, "benchmarks/planar.py", "--quick", "--device", "cpu"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert "| batch | fused [steps/s] |" in done.stdout
    assert "operations a step" in done.stdout and "times MuJoCo C's" in done.stdout
