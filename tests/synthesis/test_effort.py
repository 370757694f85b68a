"""Torques that should vanish, beside their change that should."""

from dataclasses import fields

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim.synthesis.config import Units
from jaxsim.synthesis.motor_torques import TorqueRange
from jaxsim.synthesis.problem import _torques
from jaxsim.synthesis.stops import Stops
from jaxsim.synthesis.tasks import Tasks, velocity_rows

BEFORE = np.array([40.0, -25.0, 15.0, 8.0])  # [N m]
LIMIT = np.array([50.0, 20.0, 80.0, np.inf])
UNIT, STAY = 30.0, 2.0


def row(effort, stay=STAY):
    """Scale and target of each joint's row."""
    none = jnp.zeros(1)
    rows = velocity_rows(jnp.zeros((1, 4)), none, 1.0)
    tasks = Tasks(rows, none, none, jnp.asarray(stay), effort=effort)
    unit = Units(**{field.name: jnp.asarray(UNIT) for field in fields(Units)})
    found = _torques(tasks, jnp.asarray(BEFORE), jnp.asarray(LIMIT), unit)
    return [np.broadcast_to(np.asarray(x, float), 4) for x in found]


def test_one_row_a_joint_is_as_good_as_two():
    """Their squares differ from that of the one by what L does not change."""
    effort = np.array([0.0, 0.3, 2.0, 1.0])
    scale, target = row(jnp.asarray(effort))
    differences = []
    for torque in (-30.0, 0.0, 12.0, 70.0):
        two = STAY * ((torque - BEFORE) / UNIT) ** 2 + effort * (torque / LIMIT) ** 2
        differences.append(two - (scale * (torque - target)) ** 2)
    np.testing.assert_allclose(differences - differences[0], 0.0, atol=1e-5)
    kept = [0, 3]  # nothing pulls, or there is no limit
    np.testing.assert_allclose(target[kept], BEFORE[kept], rtol=1e-6)
    assert (np.abs(target[1:3]) < 0.9 * np.abs(BEFORE[1:3])).all()


def test_without_effort_or_any_weight_the_row_is_that_of_the_change():
    scale, target = row(None)
    np.testing.assert_allclose(scale, np.sqrt(STAY) / UNIT, rtol=1e-6)
    np.testing.assert_array_equal(target, BEFORE)
    scale, target = row(jnp.zeros(4), stay=0.0)
    assert (scale == 0).all() and np.isfinite(target).all()


def test_what_a_stop_bore_is_not_kept_and_all_else_is_as_it_was():
    """Of four joints one was at its stop, and of another the stop must not push."""
    far, none = jnp.full(4, jnp.inf), jnp.zeros(4, bool)
    firm, aims = jnp.asarray([0.0, 0.0, 4.0, 0.0]), jnp.asarray([0.0, 0.0, 60.0, 0.0])
    bears = jnp.asarray([False, True, False, False])
    motors = TorqueRange(-far, far, far)
    ends = Stops(far, far, none, none, bears, firm, aims, motors)
    scale, target = row(None)
    scales, targets = ends.torque_goal(*map(jnp.asarray, (scale, target, LIMIT)))
    np.testing.assert_allclose(scales, [scale[0], 0.0, 4.0 / LIMIT[2], scale[3]], rtol=1e-6)
    np.testing.assert_allclose(targets, [BEFORE[0], BEFORE[1], 60.0, BEFORE[3]])


def test_derivatives_are_finite_where_there_is_no_motor_or_no_limit():
    """The limit of a root is 0, and nobody asks for its row; that of the last joint is infinite."""
    limit = jnp.asarray(np.where(np.arange(4) == 0, 0.0, LIMIT))
    unit = Units(**{field.name: jnp.asarray(UNIT) for field in fields(Units)})
    none = jnp.zeros(1)

    def of_motors(effort, limit):
        rows = velocity_rows(jnp.zeros((1, 4)), none, 1.0)
        tasks = Tasks(rows, none, none, jnp.asarray(STAY), effort=effort)
        scale, target = _torques(tasks, jnp.asarray(BEFORE), limit, unit)
        return jnp.sum((scale * target)[1:])

    for slope in jax.grad(of_motors, argnums=(0, 1))(jnp.ones(4), limit):
        assert np.isfinite(slope).all() and np.abs(slope[1:3]).min() > 0
