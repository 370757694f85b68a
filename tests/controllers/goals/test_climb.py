"""Climbing from hold to hold."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import optimize.scenarios.find
from controllers.goals.climbing_goals import CLEAR, clear_of_wall
from controllers.goals.climbing_moves import LIMBS
from controllers.goals.registered_climb import DEPTH_AT_START
from controllers.goals.sensors import pendulum_time
from jaxsim.io.toml_table import WorldError
from jaxsim.model import ModelError
from jaxsim.simulation.rollout import rollout
from jaxsim.synthesis.holds import NO_HOLD
from optimize.scenarios.find import scenario

SHIPPED = Path(optimize.scenarios.find.__file__).parent / "shipped"
CLIMB = (SHIPPED / "climb.toml").read_text()
SECONDS = 40.0
HUMAN = 'model = "articulated_human"\nbuild = "adult"\nbears = ["pelvis", "chest"]\n'
BAR = '[[hold]]\nname = "bar"\npos = [{}, 0, 1.25]\nhalf_length = 0.6\n[[fixed]]'


def written(folder, *changes):
    """The scenario ``climb`` in a file, with (old, new) of its text changed."""
    text = CLIMB
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "climb.toml"
    path.write_text(text)
    return path


def beginning(left, right):
    """On holds by name: of both hands, and of the feet two that are low."""
    feet = 'leftFoot = "low_1", rightFoot = "low_2"'
    return f'name = "climb"\nbegin = {{ leftHand = "{left}", rightHand = "{right}", {feet} }}'


FOUR = """
[[hold]]
name = "low"
pos = [0.44, 0.15, 0.5]
repeat = { count = 2, offset = [0, -0.3, 0] }
[[hold]]
name = "high"
pos = [0.44, 0.25, 1.75]
repeat = { count = 2, offset = [0, -0.5, 0] }
[[hold]]
name = "far"
pos = [0.44, 0.25, 4.0]
"""
WALL = CLIMB[CLIMB.index("[[wall]]") :]
ON_FOUR = (WALL, FOUR), ('name = "climb"', beginning("high_1", "high_2"))


@pytest.mark.parametrize(
    "changes, error, message",
    [
        (
            [(WALL, FOUR), ('name = "climb"', beginning("far", "high_2"))],
            ModelError,
            "hold 'far' is out of reach of 'leftHand' while the other limbs .* misses its hold by",
        ),
        (
            [(WALL, FOUR), ('name = "climb"', beginning("high_1", "high_1"))],
            WorldError,
            "key 'leftHand': is 'high_1', and so is another's; give each its own",
        ),
        (
            [(WALL, FOUR), ('name = "climb"', beginning("hihg_1", "high_2"))],
            WorldError,
            "no leftHand 'hihg_1'; did you mean 'high_1'",
        ),
        (
            [*ON_FOUR, ("[[fixed]]", BAR.format(0.08))],
            ModelError,
            "hold 'low_1' is 0.36 m off the plane of 'bar'",
        ),
        (
            [("density = 8", "density = 0.5")],
            WorldError,
            "finds no four holds to begin on within reach",
        ),
        ([(WALL, "")], WorldError, r"climbs, and the world has 0 holds; give it a \[\[wall\]\]"),
        (
            [
                (HUMAN, 'model = "ball_joint_human"\n'),
                (CLIMB[CLIMB.index("[character.pose]") : CLIMB.index("[controller]")], ""),
            ],
            ModelError,
            "the controller 'climb' needs the role.? leftHand",
        ),
        (
            [('name = "climb"', 'name = "climb"\nreach = []')],
            WorldError,
            "key 'reach': contradicts climbing",
        ),
        ([('["pelvis", "chest"]', '"pelvis"')], WorldError, "key 'bears': is 'pelvis'; give names"),
        ([('"chest"]', '"chset"]')], WorldError, r"\[character\]: bears: .*chset"),
    ],
    ids=[
        "far",
        "twice",
        "unknown",
        "off_plane",
        "sparse",
        "none",
        "handless",
        "contradiction",
        "bears",
        "bears_unknown",
    ],
)
def test_what_cannot_climb_is_told_before_it_runs(tmp_path, changes, error, message):
    with pytest.raises(error, match=message):
        scenario(written(tmp_path, *changes))


def test_a_bar_through_the_body_at_the_start_is_told(tmp_path):
    """It stands out of the wall where the trunk is."""
    path = written(tmp_path, *ON_FOUR, ("[[fixed]]", BAR.format(0.44)))
    with pytest.raises(ModelError, match=r"hold 'bar' goes .* m deep through '(chest|abdomen)'"):
        scenario(path)


@pytest.mark.parametrize("seed", [2, 46])
def test_it_begins_further_out_where_a_hold_would_be_inside_the_body(seed):
    """An upper arm and the head, of a climber at ``DEPTH_AT_START``."""
    made = scenario("climb", {"wall.seed": seed})
    climb = made.controller.variables
    scheme = made.scheme
    obs = scheme.observe(made.model, scheme.init(made.model, made.state))
    out = (obs.com - climb.origin) @ climb.frame[2] / climb.limbs.height
    assert DEPTH_AT_START + 0.01 < out < 0.45
    hands = obs.conf.position[np.array(scheme.holds.grippers)]
    names = [scheme.effectors.group_names.index(limb) for limb in LIMBS]
    there = made.model.shape_pos[np.array(scheme.holds.shapes)[np.asarray(climb.asked)]]
    assert np.linalg.norm(hands[np.array(names)] - there, axis=1).max() < 0.06


def test_it_begins_on_the_holds_that_are_named(tmp_path):
    made = scenario(written(tmp_path, *ON_FOUR))
    names = [made.model.topology.shape_names[s] for s in made.scheme.holds.shapes]
    asked = [names[k] for k in np.asarray(made.controller.variables.asked)]
    assert asked == ["low_1", "low_2", "high_1", "high_2"]


def test_knees_are_kept_off_the_wall_before_they_are_in_it():
    """The left knee is 1 cm in front of where it may be, others are wherever they are."""
    made = scenario("climb")
    climb, goal, knee = made.controller.variables, clear_of_wall(), CLEAR.index("leftShank")
    out = climb.frame[2]

    @jax.jit
    def rows(speed, gap):
        root = jnp.zeros(made.model.topology.nv).at[:3].set(-speed * out)
        state = made.scheme.init(made.model, made.state)
        obs = made.scheme.observe(made.model, state.replace(qd=state.qd + root))
        place = obs.conf.kin.link_pos[obs.conf.link("leftShank")]
        off = ((place - climb.origin) @ out - gap) / climb.limbs.height
        now = replace(climb, pace=replace(climb.pace, off=off))
        time = climb.pace.ahead * pendulum_time(obs, climb.limbs.height)
        error, J = goal.rows(obs, now)
        return jnp.stack([error[knee], J[knee] @ obs.conf.v, time])

    error, _, time = rows(0.0, 0.01).tolist()
    assert error == 0 and 0.05 < time < 0.2
    error, speed, _ = rows(0.05, 0.01).tolist()  # not there in this time
    assert error == 0 and speed == 0
    error, speed, _ = rows(0.5, 0.01).tolist()
    assert speed == pytest.approx(-0.5, abs=1e-4)
    assert error == pytest.approx(0.01 / time, rel=1e-3)  # it approaches with this speed
    error, speed, _ = rows(0.0, -0.03).tolist()
    assert error == pytest.approx(-0.03 / time, rel=1e-3)  # it comes out with this one


def climbed(name, seconds, sets):
    """By wall and frame: the centre of mass, what is held, which state, holds gained, info."""
    with jax.enable_x64(True):
        made = [scenario(name, each) for each in sets]
        one = made[0]

        def keep(sample):
            memory = sample.memory
            return dict(
                com=sample.obs.com,
                held=sample.state.solver.grips.held,
                place=sample.obs.conf.position[sample.obs.conf.holds.grippers],
                state=memory.state,
                moves=memory.variables.moves,
                info=sample.info,
            )

        def run(model, controller, state):
            steps = round(seconds / 0.01)
            options = dict(record=keep, backend="xla")
            return rollout(model, controller, state, one.scheme, steps, **options).record

        def stacked(part):
            """Of all walls; what is static is the first's."""
            leaves = [jax.tree.leaves(getattr(m, part)) for m in made]
            tree = jax.tree.structure(getattr(one, part))
            return jax.tree.unflatten(tree, [jnp.stack(x) for x in zip(*leaves)])

        parts = map(stacked, ("model", "controller", "state"))
        return jax.tree.map(np.asarray, jax.jit(jax.vmap(run))(*parts)), one


@pytest.fixture(scope="module")
def climb():
    """The shipped wall, in float64."""
    kept, made = climbed("climb", SECONDS, [{}])
    return jax.tree.map(lambda x: x[0], kept), made


@pytest.mark.slow
def test_every_frame_is_physical(climb):
    info = climb[0]["info"]
    assert (info.status == 0).all() and not info.lost.any()
    assert info.root_residual.max() < 1e-6
    assert info.cone_excess.max() < 1e-6


@pytest.mark.slow
def test_limbs_do_not_pull_against_each_other():
    """Without limits torques are near to them all the same: without ``effort`` 3 times and more."""
    kept, _ = climbed("climb", 6.0, [{"world.torque_limits": False}])
    assert np.median(kept["info"].effort) < 1.2


@pytest.mark.slow
def test_torques_are_within_their_limits(climb):
    assert climb[0]["info"].effort.max() < 1.001


@pytest.mark.slow
def test_it_goes_up_hold_by_hold_and_one_limb_at_a_time(climb):
    kept, made = climb
    assert kept["moves"][-1] >= 10
    assert kept["com"][-1, 2] > kept["com"][0, 2] + 0.8
    free = (kept["held"][1:] == NO_HOLD).sum(axis=1)
    assert free.max() == 1
    names = np.array(made.controller.phase_names)[kept["state"]]
    seen = set(names)
    assert {"allSupport", "moveHand", "moveFoot"} <= seen
    away = np.char.startswith(names[1:], "move")
    assert (free[~away] == 0).all()


@pytest.mark.slow
def test_what_holds_stays_where_it_took_hold(climb):
    kept = climb[0]
    held, place = kept["held"], kept["place"]
    same = (held[1:] == held[:-1]) & (held[1:] != NO_HOLD)
    moved = np.linalg.norm(place[1:] - place[:-1], axis=-1)
    assert np.median(moved[same]) < 1e-6 and moved[same].max() < 5e-3
