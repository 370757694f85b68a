"""Random falls of the 3-D human: within bounds at every step, at rest in the end."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks._ragdolls import GROUNDS, Limp, falls, measures, ragdoll
from benchmarks.ragdolls import main
from jaxsim.characters.human import articulated_human
from jaxsim.model import neutral_state
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping
from tests.compiling import quick_map


def fallen(model, state, config, seconds):
    """The measures of a few falls."""
    steps = round(seconds / config.dt)

    def one(state):
        found = rollout(
            model,
            Limp(),
            state,
            config,
            steps,
            measures=measures(config, seconds),
            backend="xla",
        )
        return {**found.measures, "finite": found.finite}

    found = jax.device_get(quick_map(one)(state))
    assert found["finite"].all()
    assert (found["dropped_contacts"] == 0).all()
    return found


def near_the_ground(model, count):
    """Bodies in the air, feet below, tilted, bent and moving at random."""
    top, rng = model.topology, np.random.default_rng(0)
    zero = neutral_state(model)
    q = np.tile(zero.q, (count, 1))
    joints = list(top.limited_joints)
    lower, upper = (np.asarray(x)[joints] for x in (model.joint_lower, model.joint_upper))
    at = np.array(top.q_start)[joints]
    q[:, at] = lower + (upper - lower) * rng.uniform(0.2, 0.8, (count, len(at)))
    tilt = rng.uniform(-0.5, 0.5, count)
    q[:, 2], q[:, 3], q[:, 5] = 1.0, np.cos(tilt), np.sin(tilt)
    states = jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *x.shape)), zero)
    qd = rng.normal(size=(count, top.nv))
    return states.replace(q=jnp.asarray(q, zero.q.dtype), qd=jnp.asarray(qd, zero.q.dtype))


def test_falls_on_flat_ground():
    """0.24 s at 4 ms."""
    model = articulated_human()
    found = fallen(
        model, near_the_ground(model, 4), TimeStepping(dt=0.004, bounded_start=True), 0.24
    )
    assert (found["energy"][0] > 0).any()  # it reached the ground, or a limit
    assert np.rad2deg(found["beyond"].max()) < 1.0
    assert (found["energy"][2] < 0.01 * found["first_energy"]).all()
    assert (found["of_sweeps"][2] < 1e-4 * found["first_energy"]).all()


@pytest.mark.slow
@pytest.mark.parametrize("ground", GROUNDS)
def test_falls_on_boxes_and_rough_ground(ground):
    """2 s at 4 ms."""
    model = ragdoll(ground, False)
    found = fallen(
        model, falls(model, 8), TimeStepping(dt=0.004, sweeps=30, bounded_start=True), 2.0
    )
    assert np.rad2deg(found["beyond"].max()) < 1.0
    assert (found["energy"][2] < 0.05 * found["first_energy"]).all()
    assert (found["of_sweeps"][2] < 1e-4 * found["first_energy"]).all()


@pytest.mark.slow
def test_the_study_runs_and_goes_on_where_it_was(tmp_path):
    words = ["--quick", "--keep", str(tmp_path)]
    first = main(words)
    assert "energy without cause [J]" in first
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(kept) == 1
    assert main(words) == first  # the seconds, too: nothing was run again
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == kept


@pytest.mark.slow
def test_with_the_defaults_no_joint_leaves_its_limits():
    """256 of the falls of docs/explanation/robustness.md; 8 sweeps a step leave them in 1 of 50."""
    options = ["--grounds", "flat", "--self-collision", "no", "--backend", "fused"]
    text = main([*options, "--steps", "2", "--seconds", "2", "--members", "256", "--chunk", "256"])
    head, _, row = [line for line in text.splitlines() if line.startswith("|")]
    cells = dict(zip(*([c.strip() for c in line.strip("|").split("|")] for line in (head, row))))
    assert (cells["sweeps"], cells["falls"]) == ("6 to 40", "256")
    assert (cells["over 1 deg"], cells["not finite"]) == ("0", "0")
