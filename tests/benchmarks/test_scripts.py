"""The other benchmarks run."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "line"),
    [
        ("climbing.py", "| scenario | walls "),
        ("climbing.py --stances", "| limbs that hold "),
        ("constraint_matrix.py", "| rows | XLA mass [us]"),
        ("gpu.py", "| work   | backend | batch |"),
        ("gradients.py", "Largest error without smoothing"),
        ("impact_gradients.py", "| configuration   | hard steps"),
        ("lcp.py", "| solver               | iterations |"),
        ("rollout_gradient.py", "| derivative | batch |"),
        ("qp.py", "| ours, fused, with gradient |"),
        ("qp.py --levels", "| precision | one QP [us] | three levels [us] |"),
        ("qp.py --tied", "| problems | iteration, CPU [us] |"),
        ("qp.py --warm", "| seed | cold, mean / slowest | warm, mean / slowest | of the slowest |"),
        ("responses.py", "| goal  | time [s] | priority |"),
        ("schemes.py", "| scheme     | step [ms] |"),
        ("starts.py", "| scene    | passed "),
        ("synthesis.py", "| batch | backend |"),
        ("synthesis.py --scene holding_hands --limits with", "| batch | backend |"),
        ("throughput.py", "| batch | engine "),
    ],
)
def test_quick_run_prints_a_table(script, line):
    name, *options = script.split()
    command = [sys.executable, f"benchmarks/{name}", *options, "--quick", "--device", "cpu"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert line in done.stdout
