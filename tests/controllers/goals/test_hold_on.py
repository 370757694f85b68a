"""What one who is shaken notices, asks for, and reaches for."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.goals.hold_on import (
    Caution,
    hands_to_holds,
    holding,
    let_go,
    notice,
    on_ground,
    sway,
    take_hold,
)
from jaxsim.io.toml_table import WorldError
from jaxsim.model.part import main_part
from jaxsim.synthesis.configuration import configuration_at
from jaxsim.synthesis.holds import NO_HOLD
from jaxsim.synthesis.observation import EffectorObservation
from jaxsim.synthesis.surroundings import surroundings
from optimize.scenarios.find import scenario
from tests.compiling import quick_jit

DT = 0.01  # [s]
BAR, LEFT, RIGHT = 0, 1, 2  # holds of the scene, in their order


@pytest.fixture(scope="module")
def seen():
    """seen(x, z, speed, held, caution): what there is to see with the standing body moved, faster,
    and its hands holding something."""
    with jax.enable_x64(True):
        made = scenario("cable_car")
        scheme, model = made.scheme, made.model
        points = scheme.effectors

        part = main_part(model.topology)

        @quick_jit
        def program(q, v, held, time, caution):
            grips = replace(scheme.holds.begin(q.dtype), held=held)
            holds = scheme.holds.at(model, time, DT, grips)
            around = surroundings(model, time, DT)
            conf = configuration_at(part.of(model), points, q[part.q], v[part.dofs], around, holds)
            touching, unit = conf.near.gap < 1e-3, scheme.unit
            force = jnp.zeros_like(conf.position)
            obs = EffectorObservation(conf, touching, force, unit.force, unit.shift, time, unit)
            error, J = hands_to_holds().rows(obs, caution)
            found = {
                "ground": on_ground(obs),
                "sway": sway(obs),
                "holding": holding(obs),
                "noticed": notice(obs, caution),
                "asked": take_hold(obs, caution),
                "none": let_go(obs, caution),
            }
            hands = conf.position[points.of("leftHand") | points.of("rightHand")]
            ends = holds.nearest(hands)
            return found | {"error": error.reshape(2, 3), "J": J, "hands": hands, "nearest": ends}

        def look(x=0.0, z=0.0, speed=0.0, held=(NO_HOLD, NO_HOLD), time=0.0, **caution):
            q, v = made.state.q.at[0].add(x).at[2].add(z), made.state.qd.at[0].set(speed)
            numbers = jax.tree.map(jnp.asarray, Caution(**caution))
            grips, time = jnp.array([NO_HOLD, NO_HOLD, *held]), jnp.asarray(time)
            return jax.tree.map(np.asarray, program(q, v, grips, time, numbers))

        yield look


def test_it_notices_that_it_sways_and_hangs(seen):
    stands = seen(time=2.0)
    assert stands["ground"] and stands["sway"] == 0 and stands["holding"] == 0
    assert stands["noticed"].alarmed < -100 and stands["noticed"].fell == 2.0
    aloft = seen(z=0.5, held=(BAR, BAR), time=3.0, fell=2.5)
    assert not aloft["ground"] and aloft["holding"] == 2
    assert aloft["noticed"].fell == 2.5  # it hangs since then
    one = seen(z=0.5, held=(BAR, NO_HOLD), time=3.0, fell=2.5)
    assert one["noticed"].fell == 3.0  # one hand is not enough


def test_hands_ask_for_what_they_reach_and_keep_what_they_hold(seen):
    free = seen()
    np.testing.assert_array_equal(free["asked"], NO_HOLD)  # hands hang far from all holds
    keeps = seen(held=(RIGHT, NO_HOLD))
    assert keeps["asked"].tolist() == [NO_HOLD, NO_HOLD, RIGHT, NO_HOLD]
    np.testing.assert_array_equal(keeps["none"], NO_HOLD)
    # moved so that the left hand is at the bar's height and place
    at = free["nearest"][0][0, BAR] - free["hands"][0]
    takes = seen(x=at[0], z=at[2])
    assert takes["asked"].tolist() == [NO_HOLD, NO_HOLD, BAR, BAR]


def test_hands_go_to_the_nearest_hold_in_reach(seen):
    found = seen()
    places, ends = found["nearest"]
    apart = np.linalg.norm(found["hands"][:, None] - places, axis=-1)
    for hand, error in enumerate(found["error"]):
        toward = found["hands"][hand] - ends[hand]
        assert min(np.linalg.norm(toward - error, axis=1)) < 1e-9
        k = int(np.argmin(np.linalg.norm(toward - error, axis=1)))
        assert apart[hand, k] >= apart[hand].min()
    held = seen(held=(BAR, NO_HOLD))
    assert not held["error"][0].any() and held["error"][1].any()
    assert not held["J"][:3].any() and held["J"][3:].any()
    away = seen(z=20.0)
    assert not away["error"].any() and not away["J"].any()


@pytest.mark.parametrize(
    "change, message",
    [
        ({"controller.alarm": 0.0}, "key 'alarm'.*above 0"),
        ({"controller.calm": -1.0}, "key 'calm'.*above 0"),
        ({"controller.alarms": 1.0}, "'alarms'"),
    ],
)
def test_numbers_that_make_no_sense_are_told(change, message):
    with pytest.raises(WorldError, match=message):
        scenario("cable_car", change)


def test_without_a_hold_it_says_so():
    with pytest.raises(WorldError, match=r"needs something to hold on to; .*\[\[hold\]\]"):
        scenario("stand", {"controller.name": "hold_on"})
