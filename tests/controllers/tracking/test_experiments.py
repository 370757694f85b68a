"""Experiments of the topple-free-foot paper with a body that stands without a reference, as members
of one kernel: pushed, drawn by its hands, on ice, dropped, let fall; and the shipped ones, which
are slow."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from controllers.tracking.level import level, way_up
from controllers.tracking.outside import pull, pulls_together
from controllers.tracking.topple_free import ToppleFree
from jaxsim import TimeStepping, ball_joint_human, final, largest, push, rollout
from jaxsim.characters.human import TURNS
from jaxsim.characters.poses import posed
from jaxsim.collision.contacts import lowest_point
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.fused import fuse
from jaxsim.model import ModelError
from optimize import scenario, simulate
from optimize.problems.starts import start_states

SECONDS, DT, EVERY = 6.0, 0.002, 10
NEVER = 1e6
STILL = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Member:
    """What is done to the body; the forearm is bent and its hand kept level in all of them."""

    link: str = "chest"
    force: tuple[float, float, float] = STILL  # [N], for 0.2 s
    at: float = 0.5  # [s]
    drawn: tuple[float, float, float] = STILL  # velocity of both hands' points [m/s]
    back: tuple[float, float, float] = STILL  # from 3 s on
    friction: float = 1.0
    help_to: float = 200.0  # [N m]
    help_until: float = NEVER  # [s]
    start: int = 0  # of deviating ones
    lift: float = 0.0  # [m]


MEMBERS = {
    "pelvis": Member("pelvis", (212.0, 212.0, 0.0)),
    "head": Member("head", (0.0, 200.0, 0.0)),
    "arm": Member("leftUpperArm", (0.0, -300.0, 0.0)),
    "shank": Member("rightShank", (-300.0, 0.0, 0.0)),
    "chest": Member("chest", (-200.0, 0.0, 0.0)),
    "forward": Member(drawn=(0.06, 0.0, 0.04)),
    "sideways": Member(drawn=(0.0, 0.2, 0.0), back=(0.0, -0.2, 0.0)),
    "ice": Member(drawn=(0.2, 0.0, 0.0), friction=0.05),
    "ice of the paper": Member(drawn=(0.3, 0.0, 0.0), friction=0.09),
    "ground": Member(drawn=(0.2, 0.0, 0.0), friction=0.2),
    **{f"dropped {k}": Member(start=k, lift=0.01 * k) for k in range(2, 6)},
    "later without help": Member(force=(0.0, 50.0, 0.0), at=3.0, help_until=1.5, lift=0.03),
    **{
        f"falls {k}": Member(force=(*force, 0.0), help_to=60.0)
        for k, force in enumerate([(350.0, 0.0), (0.0, 350.0), (-350.0, 0.0), (247.0, -247.0)])
    },
}


@pytest.fixture(scope="module")
def runs():
    """By member: samples over time."""
    model = ball_joint_human(hands=True)
    top = model.topology
    state = posed(model, {"leftElbow": (0.0, -90.0, 0.0)})
    low = lowest_point(model, forward_kinematics(model, state.q, state.qd))
    state = state.replace(q=state.q.at[top.root_height].add(-low))
    kin = forward_kinematics(model, state.q, state.qd)
    hands = [top.link("leftHand"), top.link("rightHand")]
    pulls = pulls_together(
        *(
            pull(model, top.link_names[hand], kin.com[hand], STILL, *times)
            for times in ((0.5, 2.5), (3.0, 5.0))
            for hand in hands
        )
    )
    given = ToppleFree.of(
        model, pose=state.q, pulls=pulls, levels=level(model, "leftHand", kin.link_rot[hands[0]][2])
    )
    feet, chest = np.array(given.parts.feet), given.parts.trunk
    members = MEMBERS.values()
    starts = start_states(model, state, 6, 3, (0.15, 0.1))

    def of(name, dtype=jnp.float32):
        return jnp.asarray([getattr(member, name) for member in members], dtype)

    def record(sample):
        kin, memory = sample.obs.kin, sample.memory
        up = given.levels.up[0]
        return {
            "time": sample.state.time,
            "q": sample.state.q,
            "com": sample.obs.com,
            "feet": kin.com[feet],
            "hand": kin.com[hands[0]],
            "tilt": jnp.linalg.norm(way_up(kin, hands[0], up)),
            "lean": jnp.linalg.norm(way_up(kin, chest, jnp.array([0.0, 0.0, 1.0]))),
            "turn": kin.velocity[:, :3],
            "standing": memory.standing,
            "fallen": memory.fallen,
            "help": jnp.sum(jnp.linalg.norm(memory.help, axis=-1)),
        }

    def one(given_numbers):
        n = given_numbers
        velocity = jnp.stack([n["drawn"], n["drawn"], n["back"], n["back"]])
        draws = jnp.any(velocity != 0, axis=-1)
        controller = replace(
            given.set("help_to", n["help_to"]).set("help_until", n["help_until"]),
            pulls=replace(
                pulls, velocity=velocity, start=jnp.where(draws, pulls.start, NEVER), end=pulls.end
            ),
        )
        pushed = push(model, "chest", STILL, duration=0.2)
        pushed = replace(
            pushed,
            link=n["link"][None],
            point=model.com[n["link"]][None],
            force=n["force"][None],
            start=n["at"][None],
        )
        return rollout(
            model.replace(friction=jnp.ones_like(model.friction) * n["friction"]),
            controller,
            state.replace(q=n["q"].at[top.root_height].add(n["lift"]), qd=n["qd"]),
            TimeStepping(dt=DT, contacts=16),
            int(SECONDS / DT),
            record=record,
            record_every=EVERY,
            pushes=pushed,
            backend="xla",
        ).record

    begin = np.array([member.start for member in members])
    numbers = {
        name: of(name)
        for name in (
            "force",
            "at",
            "drawn",
            "back",
            "friction",
            "help_to",
            "help_until",
            "lift",
        )
    }
    links = jnp.asarray([top.link(member.link) for member in members], jnp.int32)
    numbers |= {"link": links, "q": starts.q[begin], "qd": starts.qd[begin]}
    found = jax.device_get(fuse(one)(numbers))
    return model, {
        name: {key: value[k] for key, value in found.items()} for k, name in enumerate(MEMBERS)
    }


def stands(run) -> bool:
    height = run["com"][:, 2] - run["feet"][:, :, 2].min(axis=1)
    return bool(not run["fallen"].any() and (height > 0.8).all())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pelvis", "head", "arm", "shank", "chest"])
def test_pushes_of_200_to_300_newtons_on_any_link_are_survived(runs, name):
    assert stands(runs[1][name])


@pytest.mark.slow
def test_a_hand_is_level_while_the_body_is_pushed(runs):
    run = runs[1]["chest"]
    tilt, lean = (np.rad2deg(run[key]) for key in ("tilt", "lean"))
    assert lean.max() > 5.0
    assert tilt.max() < 2.0


def over_support(run) -> np.ndarray:
    """(T, 2) the centre of mass from the middle of the feet [m]."""
    return run["com"][:, :2] - run["feet"][:, :, :2].mean(axis=1)


@pytest.mark.slow
def test_hands_go_forward_and_the_body_stays_over_its_feet(runs):
    run = runs[1]["forward"]
    assert stands(run)
    drawn = (run["time"] > 0.5) & (run["time"] < 2.5)
    moved = run["hand"][drawn] - run["hand"][0]
    assert moved[-1, 0] > 0.04 and moved[-1, 2] > 0.01
    assert np.abs(over_support(run)[drawn]).max() < 0.06


@pytest.mark.slow
def test_hands_bring_the_body_over_one_foot_and_over_the_other(runs):
    run = runs[1]["sideways"]
    assert stands(run)
    states = [tuple(run["standing"][0])]
    for now in map(tuple, run["standing"]):
        if now != states[-1]:
            states.append(now)
    left, right, both = (True, False), (False, True), (True, True)
    assert states[:4] == [both, left, both, right] and len(states) <= 5


def slid(run) -> float:
    return float(run["feet"][-1, :, 0].mean() - run["feet"][0, :, 0].mean())


@pytest.mark.slow
def test_on_ice_it_slides_and_stands_and_with_more_friction_it_bends_further(runs):
    ice, slower, ground = (runs[1][k] for k in ("ice of the paper", "ice", "ground"))
    assert all(map(stands, (ice, slower, ground)))
    assert slid(ice) > 0.2 and slid(slower) > 0.03 > abs(slid(ground))
    drawn = (ice["time"] > 1.5) & (ice["time"] < 2.5)
    assert ground["lean"][drawn].mean() > 1.3 * slower["lean"][drawn].mean()


@pytest.mark.slow
@pytest.mark.parametrize("name", [f"dropped {k}" for k in range(2, 6)])
def test_a_start_needs_no_adjustment(runs, name):
    assert stands(runs[1][name])


@pytest.mark.slow
def test_after_a_while_it_needs_no_help(runs):
    run = runs[1]["later without help"]
    assert stands(run)
    assert run["help"][run["time"] > 1.5].max() == 0.0


# ---- falls

FALLS = [name for name in MEMBERS if name.startswith("falls")]
# (end of a name, axis of the ball): which of TURNS that is, positive as the axis (1) or not (-1)
BOUNDED = {
    ("Knee", "y"): ("kneeFlexion", 1),
    ("Hip", "y"): ("hipFlexion", -1),
    ("Ankle", "y"): ("ankleFlexion", -1),
    ("waist", "y"): ("waistFlexion", 1),
    ("waist", "x"): ("waistBend", 1),
    ("spine", "y"): ("spineFlexion", 1),
    ("neck", "y"): ("neckFlexion", 1),
    ("neck", "x"): ("neckBend", 1),
    ("Elbow", "y"): ("elbowFlexion", -1),
    ("Shoulder", "y"): ("shoulderFlexion", -1),
}
BEYOND = 5.0  # by which balls, which have no limits, may exceed those of hinges [deg]


@pytest.mark.slow
@pytest.mark.parametrize("name", FALLS)
def test_a_fall_looks_natural(runs, name):
    model, run = runs[0], runs[1][name]
    assert not run["fallen"][0] and run["fallen"][-1] and run["com"][-1, 2] < 0.4
    assert run["help"][run["fallen"]].max() == 0.0
    assert np.linalg.norm(run["turn"], axis=-1).max() < 35.0  # [rad/s]
    top = model.topology
    for (end, axis), (turn, sign) in BOUNDED.items():
        for joint in range(top.n_joints):
            if top.joint_names[joint].endswith(end):
                at = top.q_start[joint]
                turned = Rotation.from_quat(np.roll(run["q"][:, at : at + 4], -1, axis=1))
                angle = sign * np.rad2deg(turned.as_rotvec())[:, "xyz".index(axis)]
                least, most = TURNS[turn].range
                assert least - BEYOND < angle.min() and angle.max() < most + BEYOND, turn


# ---- level links


def test_a_link_that_cannot_be_level_is_told():
    model = ball_joint_human(hands=True)
    with pytest.raises(ModelError, match="pelvis cannot be kept level"):
        level(model, "pelvis", (0.0, 0.0, 1.0))
    with pytest.raises(ModelError, match=r"up is \[0\.0, 0\.0, 0\.0\]; give a direction"):
        level(model, "leftHand", (0.0, 0.0, 0.0))


@pytest.mark.slow
def test_a_hand_is_level_while_the_body_walks():
    made = scenario("walk_cup")
    top, levels = made.model.topology, made.controller.levels
    kin = forward_kinematics(made.model, made.state.q, made.state.qd)

    def tilt(link):
        up = jnp.asarray(np.asarray(kin.link_rot[top.link(link)])[2])
        return largest(lambda s: jnp.linalg.norm(way_up(s.obs.kin, top.link(link), up)))

    assert levels.links == (top.link("leftHand"),)
    measures = {
        "hand": tilt("leftHand"),
        "arm": tilt("leftForearm"),
        "height": final(lambda sample: sample.obs.com[2]),
    }
    found = rollout(
        made.model, made.controller, made.state, made.scheme, 1500, measures, pushes=made.forces
    ).measures
    assert found["height"] > 0.8
    assert np.rad2deg(found["hand"]) < 3.0 and np.rad2deg(found["arm"]) > 30.0


# ---- the shipped experiments

SHIPPED = {
    "stand_pushed_anywhere": True,
    "stand_spheres": True,
    "stand_hands_forward": True,
    "stand_hands_sideways": True,
    "stand_cup": True,
    "walk_cup": True,
    "stand_platform": True,
    "stand_ice": True,
    "stand_rough": True,
    "stand_dropped": True,
    "stand_falls": False,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_experiment_ends_as_it_says(name):
    result = simulate(name)
    assert result.summary["failed_at"] is None
    assert result.summary["standing"] == SHIPPED[name]
