"""Hanging from a bar, and swinging on it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import optimize.scenarios.find
from controllers.goals.swing import hang
from jaxsim.io.toml_table import WorldError
from jaxsim.model import ModelError
from jaxsim.simulation.rollout import rollout
from jaxsim.synthesis.configuration import configuration_at
from jaxsim.synthesis.observation import EffectorObservation
from optimize.scenarios.find import scenario

SWING = Path(optimize.scenarios.find.__file__).parent / "shipped" / "swing.toml"
POSE = "pose = { shoulderFlexion = 170, elbowFlexion = 5 }"


@jax.jit
def seen(scheme, model, state):
    """(3,) the centre of mass from the middle of the hands, these (2, 3), angle and way."""
    conf = configuration_at(model, scheme.effectors, state.q, state.qd)
    none, unit = jnp.zeros(scheme.effectors.count), scheme.unit
    obs = EffectorObservation(conf, none > 0, none, unit.force, unit.shift, state.time, unit)
    hands, now = conf.position[-2:], hang(obs)
    return conf.com - hands.mean(axis=0), hands, now.angle, now.way


def hanging_at(deg):
    made = scenario("swing", {"controller.start_deg": deg})
    return map(np.asarray, seen(made.scheme, made.model, made.state))


@pytest.mark.parametrize("deg", [60.0, -90.0])
def test_it_hangs_from_its_bar_at_the_angle_that_is_asked_for(deg):
    below, hands, angle, way = hanging_at(deg)
    straight, _, begun, _ = hanging_at(0.0)
    np.testing.assert_allclose(hands[:, [0, 2]], [[0.0, 3.0]] * 2, atol=1e-5)
    assert angle - begun == pytest.approx(np.deg2rad(deg), abs=1e-4)
    assert np.linalg.norm(below) == pytest.approx(np.linalg.norm(straight), abs=1e-5)
    assert way @ below == pytest.approx(0.0, abs=1e-5)
    assert way[2] == pytest.approx(np.sin(angle), abs=1e-3)  # forward, beyond the bar, is up


@pytest.mark.parametrize(
    "old, new, error, message",
    [
        ('bar = "bar"', 'bar = "bra"', WorldError, "key 'bar'.*no bar 'bra'.*did you mean 'bar'"),
        ("turn_deg = [0, 0, 90]", "", ModelError, "'bar': .* a hand is .* m away"),
        ("half_length = 0.6", "half_length = 0.1", ModelError, "'bar': .* a hand is .* m away"),
        ("half_length = 0.6", "", ModelError, "'bar': .* a hand is .* m away"),
        (
            POSE,
            "pose = { shoulderFlexion = 60, elbowFlexion = 145 }",
            ModelError,
            "'bar' goes .* m deep through 'head'",
        ),
        (
            f'model = "articulated_human"\nbuild = "adult"\n{POSE}',
            'model = "planar_human"',
            ModelError,
            "the controller 'swing' needs the role abdomen",
        ),
    ],
)
def test_what_cannot_hang_is_told(tmp_path, old, new, error, message):
    text = SWING.read_text()
    assert old in text
    path = tmp_path / "swing.toml"
    path.write_text(text.replace(old, new))
    with pytest.raises(error, match=message):
        scenario(path)


CASES = {"free": ("swing", 60.0), "stiff": ("swing_stiff", 0.0)}  # scenario, start [deg]


@pytest.fixture(scope="module")
def swings():
    """By case and frame, 12 s: angle [deg], hands (2, 3), info."""
    with jax.enable_x64(True):
        made = [scenario(name, {"controller.start_deg": deg}) for name, deg in CASES.values()]
        one = made[0]

        def keep(sample):
            return hang(sample.obs).angle, sample.obs.conf.position[-2:], sample.info

        def run(weights, state):
            controller = replace(one.controller, weights=weights)
            options: dict[str, Any] = dict(record=keep, backend="xla")
            return rollout(one.model, controller, state, one.scheme, 1200, **options).record

        states = jax.tree.map(lambda *x: jnp.stack(x), *(m.state for m in made))
        weights = jnp.stack([m.controller.weights for m in made])
        angle, hands, info = jax.tree.map(np.asarray, jax.jit(jax.vmap(run))(weights, states))
        return np.rad2deg(angle), hands, info


@pytest.mark.slow
def test_a_swing_is_physical_and_within_torque_limits(swings):
    _, hands, info = swings
    assert (info.status == 0).all() and not info.lost.any()
    assert info.root_residual.max() < 1e-6
    assert info.effort.max() < 1.011
    drift = np.linalg.norm(hands - hands[:, :1], axis=-1)
    assert np.median(drift) < 1e-3 and drift.max() < 0.03  # a step is straight, a circle is not


@pytest.mark.slow
def test_stiff_legs_make_the_swing_grow_and_one_goal_does_not_keep_it(swings):
    free, stiff = np.abs(swings[0])
    assert stiff[:100].max() < 30 and stiff[800:].max() > 60
    assert free[800:].max() < 0.9 * free[:400].max()
