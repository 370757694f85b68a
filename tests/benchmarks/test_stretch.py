"""Which feet bear the body, by how its momenta change."""

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.stretch import loaded
from jaxsim import ball_joint_human, start
from jaxsim.mocap.body import body_of
from jaxsim.mocap.retarget import places

RATE, FRAMES, LEAVES = 120.0, 121, 80


@pytest.mark.slow
def test_feet_are_loaded_until_the_body_falls_freely():
    model = ball_joint_human()
    body, time = body_of(model), np.arange(FRAMES) / RATE
    q = np.tile(np.asarray(start(model, "standing").q, float), (FRAMES, 1))
    q[:, 2] -= 0.5 * 9.81 * np.maximum(time - LEAVES / RATE, 0.0) ** 2
    soles = places(model, body, q)["soles"]
    soles[:, :, 2] -= soles[0, :, 2].min()
    motion = SimpleNamespace(q=q, rate=RATE, soles=soles, body=body)
    found = loaded(model, motion)
    assert found[: LEAVES - 12].all()  # velocities are filtered: the start of the fall is blurred
    assert not found[LEAVES + 12 : -12].any()
