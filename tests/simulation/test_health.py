"""Divergence is reported by member, reason and time; a good motion is not reported."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.model import ModelBuilder, capsule, free, hinge, plane, sphere
from jaxsim.model.state import neutral_state
from jaxsim.simulation.health import SimulationError, check, failures
from jaxsim.simulation.records import Control
from jaxsim.simulation.rollout import failed_members, rollout
from jaxsim.simulation.step import TimeStepping
from jaxsim.solvers.status import Status
from tests.compiling import quick_map

pytestmark = pytest.mark.usefixtures("x64_module")

DT, STEPS = 0.005, 40


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Motor:
    """A torque, and a spring without damping: stable for small stiffness only."""

    stiffness: Any
    torque: Any

    def init(self, model, state, obs):
        return ()

    def update(self, memory, model, state, obs, dt):
        torque = jnp.zeros(model.topology.nv)
        torque = torque.at[6].set(self.torque - self.stiffness * state.q[7])
        return memory, Control(torque=torque, damping=jnp.zeros_like(torque))


@pytest.fixture(scope="module")
def body(x64_module):
    """A ball with an arm on a hinge, over a plane."""
    b = ModelBuilder()
    b.add_link("ball", "world", mass=1.0, inertia=[4e-3] * 3, joints=[free("root")])
    b.add_shape("ball", sphere(0.1, name="ball"))
    joint = hinge("arm", (0, 1, 0), limits=(-9e9, 9e9))
    arm = dict(mass=0.2, com=(0.2, 0, 0), inertia=(1e-4, 1e-3, 1e-3))
    b.add_link("arm", "ball", joints=[joint], **arm)
    b.add_shape("arm", capsule(0.02, 0.1, pos=(0.2, 0, 0), name="arm"))
    b.add_shape("world", plane(name="ground"))
    return b.build()


MEMBERS = {  # height [m], velocities, stiffness, torque, mass; what is wrong
    "rests": (0.1, {}, 0.0, 0.0, 1.0, Status.OK),
    "falls": (0.3, {}, 0.0, 0.0, 1.0, Status.OK),
    "is driven": (0.5, {}, 0.1, 0.2, 1.0, Status.OK),
    "is fast": (5e3, {2: -1e4}, 0.0, 0.0, 1.0, Status.OK),
    "begins deep": (0.02, {}, 0.0, 0.0, 1.0, Status.OK),
    "is no number": (0.3, {}, 0.0, 0.0, np.nan, Status.NOT_FINITE),
    "is stiff": (0.5, {6: 1.0}, 1e5, 0.0, 1.0, Status.GAIN),
    "is driven hard": (5e3, {}, 0.0, 3.0, 1.0, Status.OK),
    "gains": (5e3, {6: 60.0}, 0.0, 0.0, 1.0, Status.GAIN),  # by 0.3 rad a step
    "is far": (1e13, {}, 0.0, 0.0, 1.0, Status.FAR),
}


def run(body, config, steps=STEPS):
    zero = neutral_state(body)

    def one(height, qd, stiffness, torque, mass):
        state = zero.replace(q=zero.q.at[2].set(height), qd=qd)
        model = body.replace(mass=body.mass.at[0].set(mass))
        return rollout(model, Motor(stiffness, torque), state, config, steps, backend="xla")

    rows = list(MEMBERS.values())
    qd = np.zeros((len(rows), 7))
    for k, row in enumerate(rows):
        for dof, speed in row[1].items():
            qd[k, dof] = speed
    column = [np.array([row[k] for row in rows], float) for k in (0, 2, 3, 4)]
    return quick_map(one)(column[0], jnp.asarray(qd), *column[1:])


def test_members_are_named_with_reason_and_time(body):
    result = run(body, TimeStepping(dt=DT, bounded_move=False))  # which takes gains away
    found = {failure.member: failure for failure in failures(result.health)}
    for k, (name, row) in enumerate(MEMBERS.items()):
        wrong = found[k].status if k in found else Status.OK
        assert wrong == row[-1], name
    names = list(MEMBERS)
    assert names.index("is no number") in failed_members(result)
    assert names.index("is far") not in failed_members(result)
    first = found[names.index("is no number")]
    assert first.time == pytest.approx(DT)
    summary = f"{len(found)} of {len(names)} members failed"
    with pytest.raises(SimulationError, match=summary) as told:
        check(result)
    assert all(f"member {k}, from" in str(told.value) for k in found)
    good = next(k for k in range(len(names)) if k not in found)
    check(replace(result, health=jax.tree.map(lambda x: x[good], result.health)))
    assert str(first) == f"member {first.member}, from 0.005 s on: {Status.NOT_FINITE.message}"
    assert 0 < found[names.index("is stiff")].time < STEPS * DT
    assert np.isinf(result.health.time[names.index("falls")])
