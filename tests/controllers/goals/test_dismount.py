"""When one who swings lets go of the bar, and where the feet are to land."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.goals.controller import GoalController
from controllers.goals.dismount import braking, feet_ahead, landing, lands_ahead
from controllers.goals.swing import hang
from jaxsim.io.toml_table import WorldError
from jaxsim.math.rotation import quat_to_matrix
from jaxsim.synthesis.holds import NO_HOLD
from optimize.scenarios.find import scenario
from tests.compiling import quick_jit

LETS_GO = "fly"


@pytest.fixture(scope="module")
def seen():
    """seen(deg, rate, **numbers): what there is to see of a body that turns stiffly about its bar
    with ``rate`` [rad/s], at an angle from that of the scenario, and where its machine is then."""
    with jax.enable_x64(True):
        made = scenario("swing_dismount", {"controller.start_deg": 0.0})
        scheme, model = made.scheme, made.model
        controller: GoalController = made.controller
        bar = np.asarray(model.shape_pos[model.topology.shape("bar")])
        names = controller.machine.state_names

        @quick_jit
        def program(q, v, memory, dismount, up):
            begun = scheme.init(model, made.state.replace(q=q, qd=v))
            q = q.at[2].add(up)
            held = begun.solver.grips.held
            grips = replace(begun.solver.grips, held=jnp.where(up == 0.0, held, NO_HOLD))
            state = begun.replace(q=q, solver=replace(begun.solver, grips=grips))
            obs = scheme.observe(model, state)
            first = controller.init(model, state, obs)
            outer = replace(first.variables.outer, **dismount)
            kept = replace(first, state=memory, variables=replace(first.variables, outer=outer))
            after = controller.machine.advance(kept, obs)
            found = {
                "angle": hang(obs).angle,
                "speed": hang(obs).speed,
                "landing": landing(obs, outer),
                "ahead": lands_ahead(obs, outer),
                "feet": feet_ahead(obs, outer),
                "tucks": braking(obs, outer),
                "com": obs.com,
                "velocity": obs.com_velocity,
                "height": obs.height,
                "soles": obs.conf.position[:10],
                "asks": controller.machine.states[LETS_GO].holds(obs, after.variables),
            }
            return found, after.state

        def look(deg=0.0, rate=0.0, state="wait", up=0.0, **numbers):
            angle = np.deg2rad(deg)
            c, s = np.cos(angle), np.sin(angle)
            turn = np.array([[c, 0, -s], [0, 1, 0], [s, 0, c]])  # forward, about the bar
            q = np.array(made.state.q, float)
            arm = turn @ (q[:3] - bar)
            w, x, y, z = q[3:7]
            a, b = np.cos(angle / 2), -np.sin(angle / 2)
            q[:3], q[3:7] = bar + arm, [a * w - b * y, a * x + b * z, a * y + b * w, a * z - b * x]
            spin = np.array([0.0, -rate, 0.0])
            v = np.zeros(model.topology.nv)
            v[:3] = np.cross(spin, arm)
            v[3:6] = np.asarray(quat_to_matrix(jnp.asarray(q[3:7]))).T @ spin
            given = {"least": 0.3, "most": 0.5, "back": 0.4, "ahead": 0.0, "tuck": 1.0}
            given |= {"reach": controller.variables.outer.reach} | numbers
            given = {name: np.array(x, float) for name, x in given.items()}  # one program for all
            found, after = program(q, v, np.array(names.index(state)), given, np.array(up, float))
            return jax.tree.map(np.asarray, found), names[int(after)]

        yield look


def test_where_feet_land_is_where_a_stiff_body_in_free_flight_has_them(seen):
    """Its centre of mass falls, and it turns about it as it did about the bar."""
    found, _ = seen(10.0, 1.2)
    (time, fall), com, velocity = found["landing"], found["com"], found["velocity"]
    lands = com + velocity * time + np.array([0.0, 0.0, -9.81]) * time**2 / 2
    assert lands[2] == pytest.approx(0.95 * found["height"], abs=1e-3)  # as ``Dismount.legs``
    assert fall == pytest.approx(9.81 * time - velocity[2], abs=1e-6)
    assert found["speed"] == pytest.approx(np.linalg.norm(velocity), rel=1e-6)
    turn = 1.2 * time
    feet = found["soles"].mean(axis=0) - com
    ahead = feet[0] * np.cos(turn) - feet[2] * np.sin(turn)
    assert found["ahead"] == pytest.approx(ahead - found["feet"][0], abs=1e-6)


def test_feet_are_to_land_where_what_is_left_of_the_velocity_comes_to_rest(seen):
    """Legs push along the line to the centre of mass until it falls no more."""
    found, _ = seen(10.0, 1.2, reach=1.0)
    height, fall = 0.95 * found["height"], found["landing"][1]
    x, v = found["feet"][0], found["velocity"][0]
    left = v - fall * x / height
    assert 0 < left < v
    assert x == pytest.approx(left * np.sqrt(found["height"] / 9.81), rel=1e-3)
    assert np.linalg.norm(seen()[0]["feet"]) == pytest.approx(0.0, abs=1e-9)  # at rest


def test_it_lets_go_on_the_way_forward_after_a_swing_back_that_was_far_enough(seen):
    assert seen(12.0, 1.0)[1] == "fly"
    assert seen(-20.0, 1.0)[1] == "wait"  # behind the bar
    assert seen(12.0, 1.0, ahead=0.5)[1] == "wait"  # feet are not ahead so far
    assert seen(12.0, -1.0)[1].startswith("swing.")  # on its way back it swings again
    assert seen(12.0, 1.0, state="swing.trySwing", back=0.2)[1].startswith("swing.")
    assert seen(-20.0, 0.1, state="swing.trySwing", back=0.2)[1] == "wait"
    assert (seen(12.0, 1.0)[0]["asks"] == NO_HOLD).all()


def test_who_has_swung_far_enough_brakes_until_he_swings_no_further_back_than_he_may(seen):
    far = {"least": 1.0, "back": 1.1}
    assert seen(-50.0, 0.1, state="swing.trySwing", **far)[1] == "brake"
    assert seen(-50.0, -0.1, state="swing.trySwing", **far)[1].startswith("swing.")
    assert seen(-20.0, 0.1, state="brake", back=0.8)[1] == "brake"
    assert seen(-20.0, -0.1, state="brake", back=0.3)[1] == "brake"  # still on the way back
    assert seen(-20.0, 0.1, state="brake", back=0.3)[1] == "wait"
    assert seen(12.0, 1.0, state="brake", back=0.8)[1] == "brake"  # does not let go


def test_legs_are_tucked_from_near_the_front_end_until_it_comes_back_through_the_lowest_point(seen):
    """So the centre of mass rises where it weighs little, and sinks where it weighs much."""
    way = [(5.0, 3.0), (45.0, 2.0), (45.0, 0.5), (45.0, -2.0), (5.0, -3.0), (-45.0, 0.5)]
    tucks = [float(seen(deg, rate, state="brake")[0]["tucks"]) for deg, rate in way]
    assert tucks == [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]


def test_in_flight_it_waits_for_the_ground_and_takes_no_step_while_it_falls(seen):
    down = {"state": "fly"}
    assert seen(up=-0.03, **down)[1] == "fly"
    soles = seen()[0]["soles"][:, 2].min()
    assert seen(up=-soles, **down)[1] == "stand.balance"  # it touches, and falls no more
    assert seen(up=-soles, state="land.upright")[1] == "stand.balance"
    assert seen(up=0.2, state="land.upright")[1] == "fly"  # off the ground again


@pytest.mark.parametrize(
    "change, message",
    [
        ({"controller.least_deg": 0.0}, "key 'least_deg'.*above 0"),
        ({"controller.most_deg": -5.0}, "key 'most_deg'.*above 0"),
        ({"controller.bar": "bra"}, "key 'bar'.*no bar 'bra'.*did you mean 'bar'"),
    ],
)
def test_numbers_that_make_no_sense_are_told(change, message):
    with pytest.raises(WorldError, match=message):
        scenario("swing_dismount", change)
