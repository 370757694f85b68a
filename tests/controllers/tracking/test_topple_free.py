"""A human follows a squat on feet that are kept from toppling, is pushed, and falls when let."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.tracking.balance import Balance
from controllers.tracking.outside import pull
from controllers.tracking.parts import parts
from controllers.tracking.reference import Reference, reference
from controllers.tracking.support import share_of_weight, standing_feet, towards_other_foot
from controllers.tracking.topple_free import ToppleFree, ToppleFreeMemory
from jaxsim import TimeStepping, ball_joint_human, final, largest, push, rollout, total
from jaxsim.characters.poses import posed
from jaxsim.collision.contacts import lowest_point
from jaxsim.dynamics.kinematics import forward_kinematics, integrate
from jaxsim.fused import fuse
from jaxsim.model import ModelError
from tests.compiling import quick_jit

RATE, SECONDS = 60.0, 2.5
FLEXED = {
    "hip": -50.0,
    "knee": 70.0,
    "ankle": -20.0,
    "waist": 35.0,
}  # about y [deg]


def squat(model) -> Reference:
    """Down and up twice in a second and a quarter, the feet where they are."""
    frames = int(SECONDS * RATE) + 1
    depth = (1 - np.cos(2 * np.pi * np.arange(frames) / (1.25 * RATE))) / 2
    top, zero = model.topology, jnp.zeros(model.topology.nv)
    poses = []
    for part in 0.5 * depth:
        angles = {k: (0.0, part * v, 0.0) for k, v in FLEXED.items()}
        poses.append(np.asarray(posed(model, angles).q))
    q = jnp.asarray(np.stack(poses))

    @quick_jit
    @jax.vmap
    def feet(q):
        kin = forward_kinematics(model, q, zero)
        return lowest_point(model, kin), kin.link_pos[top.link("leftFoot"), 0]

    low, ahead = feet(q)
    q = q.at[:, 2].add(-low).at[:, 0].add(ahead[0] - ahead)
    return reference(model, np.asarray(q), RATE, np.ones((frames, 2), bool), parts(model))


@pytest.fixture(scope="module")
def body():
    model = ball_joint_human()
    return model, squat(model)


MEMBERS = {  # force at the chest [N], help_from, help_to [N m]
    "alone": (0.0, 20.0, 200.0),
    "pushed": (100.0, 20.0, 200.0),
    "without help": (0.0, 200.0, 200.0),
    "let fall": (350.0, 10.0, 60.0),
}


@pytest.fixture(scope="module")
def runs(body):
    """The members as one kernel."""
    model, ref = body
    given = ToppleFree.of(model, ref)
    neck = np.array(model.topology.dof_joint) == model.topology.joint("neck")

    def one(force, least, most):
        controller = given.set("help_from", least).set("help_to", most)

        def error(sample):
            now = ref.at(model, sample.state.time)
            there = forward_kinematics(model, now.q, jnp.zeros_like(now.qd)).link_pos
            here = sample.obs.kin.link_pos
            apart = (here - here[0]) - (there - there[0])
            return jnp.mean(jnp.sqrt(jnp.sum(apart**2, axis=-1) + 1e-12))

        measures = {
            "error": total(error),
            "height": final(lambda sample: sample.obs.com[2]),
            "help": largest(lambda s: jnp.max(jnp.linalg.norm(s.memory.help, axis=-1))),
            "torque": largest(lambda s: jnp.max(s.memory.foot_torque)),
            "turn": largest(lambda s: jnp.max(jnp.abs(s.state.qd[6:]))),
            "limbs": largest(lambda s: jnp.max(jnp.where(neck, 0.0, jnp.abs(s.state.qd))[6:])),
        }
        pushes = push(model, "chest", (0.0, 1.0, 0.0), start=0.5, duration=0.2)
        pushes = replace(pushes, force=force * pushes.force)
        scheme = TimeStepping(dt=0.002, contacts=16)
        steps = int(SECONDS / 0.002)
        result = rollout(
            model, controller, ref.state(model), scheme, steps, measures, pushes=pushes,
            backend="xla",
        )  # fmt: skip
        return result.measures, result.memory

    numbers = np.array(list(MEMBERS.values()), np.float32).T
    measures, memory = jax.device_get(fuse(one)(*map(jnp.asarray, numbers)))
    return {
        name: {**{key: value[k] for key, value in measures.items()}, "fallen": memory.fallen[k]}
        for k, name in enumerate(MEMBERS)
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["alone", "pushed", "without help"])
def test_the_squat_is_followed(runs, name):
    found = runs[name]
    assert not found["fallen"] and found["height"] > 0.9
    assert found["error"] / SECONDS < 0.03


def test_help_is_what_exceeds_the_threshold(runs):
    for name in ("alone", "pushed"):
        found = runs[name]
        assert found["torque"] > 20.0
        assert found["help"] == pytest.approx(min(found["torque"] - 20.0, 180.0), rel=1e-4)
    assert runs["without help"]["help"] == 0.0


def test_beyond_the_upper_threshold_it_falls_without_wild_limbs(runs):
    found = runs["let fall"]
    assert found["fallen"] and found["height"] < 0.7
    # the head strikes the ground at 5 m/s, a neck's length from its joint, whatever the gains
    assert found["limbs"] < 20.0 and found["turn"] < 35.0  # [rad/s]


def test_the_reference_is_the_motion(body):
    model, ref = body
    state = ref.state(model, 0.4)
    ahead = ref.at(model, 0.41)
    moved = integrate(model, state.q, state.qd, 0.01)
    np.testing.assert_allclose(moved, ahead.q, atol=2e-3)
    assert abs(float(state.qd[2])) > 0.1  # on its way down


def test_a_turned_reference_is_turned(body):
    model, ref = body
    now = ref.at(model, 0.3)
    turned = now.turned(jnp.asarray(np.pi / 2, jnp.float32))
    np.testing.assert_allclose(turned.com, [-now.com[1], now.com[0], now.com[2]], atol=1e-6)
    np.testing.assert_allclose(turned.q, now.q)


@pytest.mark.slow
def test_fused_and_xla_agree(body):
    model, ref = body
    controller = ToppleFree.of(model, ref, pulls=pull(model, "head", (0.1, 0.0, 1.7)), steps=True)
    scheme = TimeStepping(dt=0.002, contacts=16)
    state = ref.state(model)
    ends = [
        rollout(model, controller, state, scheme, 20, backend=backend).state.q
        for backend in ("fused", "xla")
    ]
    np.testing.assert_allclose(*ends, atol=2e-5)


# ---- the supervisor


BOTH, LEFT, NONE = np.array([True, True]), np.array([True, False]), np.array([False, False])
FEET = jnp.array([[0.0, 0.1, 0.0], [0.0, -0.1, 0.0]])


def test_with_a_reference_a_foot_stands_if_it_touches_and_is_to():
    com = jnp.zeros(3)
    for touching, planned in ((BOTH, LEFT), (LEFT, BOTH), (NONE, BOTH)):
        found = standing_feet(touching, planned, com, FEET, 0.06)
        np.testing.assert_array_equal(found, touching & planned)


@pytest.mark.parametrize(
    ("y", "stands"), [(0.0, [True, True]), (0.09, [True, False]), (-0.12, [False, True])]
)
def test_without_one_it_is_where_the_body_is(y, stands):
    found = standing_feet(BOTH, None, jnp.array([0.0, y, 0.9]), FEET, 0.06)
    np.testing.assert_array_equal(found, stands)


def test_weight_is_shared_by_the_lever():
    share = share_of_weight(FEET, jnp.array([0.3, 0.05, 1.0]), BOTH)
    np.testing.assert_allclose(share, [0.75, 0.25], atol=1e-6)
    np.testing.assert_allclose(share_of_weight(FEET, jnp.zeros(3), LEFT), [1.0, 0.0])
    np.testing.assert_allclose(share_of_weight(FEET, jnp.zeros(3), NONE), 0.0)


@pytest.mark.parametrize(
    ("force", "standing", "kept"),
    [
        ((5.0, 9.0, 0.0), LEFT, (5.0, 0.0, 0.0)),  # figure 6b: away from the other foot
        ((5.0, -9.0, 0.0), LEFT, (5.0, -9.0, 0.0)),  # 6a: towards it
        ((5.0, 9.0, 0.0), BOTH, (5.0, 9.0, 0.0)),
    ],
)
def test_a_force_does_not_keep_the_body_off_its_other_foot(force, standing, kept):
    found = towards_other_foot(jnp.array(force), jnp.zeros(3), FEET, standing)
    np.testing.assert_allclose(found, kept, atol=1e-6)


# ---- bad input


def test_numbers_without_sense_are_told(body):
    model, ref = body
    with pytest.raises(ModelError, match=r"help_from is 50.* and help_to 40"):
        ToppleFree.of(model, ref, balance=Balance(help_from=50.0, help_to=40.0))
    with pytest.raises(ModelError, match=r"balance\.com_p is -1"):
        ToppleFree.of(model, ref, balance=Balance(com_p=-1.0))
    with pytest.raises(ModelError, match="target is not finite"):
        ToppleFree.of(model, pose=np.full(model.topology.nq, np.nan))
    with pytest.raises(ModelError, match="a reference or a pose"):
        ToppleFree.of(model)
    with pytest.raises(ModelError, match="choose from threshold, capacity, none"):
        ToppleFree.of(model, ref, help="some")


def test_a_reference_without_sense_is_told(body):
    model, ref = body
    q, stance, own = np.array(ref.q), np.array(ref.stance), parts(model)
    with pytest.raises(ModelError, match="T at least 2"):
        reference(model, q[:1], RATE, stance[:1], own)
    with pytest.raises(ModelError, match=r"stance has shape \(3, 2\)"):
        reference(model, q, RATE, stance[:3], own)
    q[7, 8] = np.nan
    with pytest.raises(ModelError, match="the pose of frame 7 is not finite"):
        reference(model, q, RATE, stance, own)


def test_what_is_watched_is_listed_in_order(body):
    model, followed = body
    zero, feet = jnp.zeros(()), jnp.array([True, False])
    memory = ToppleFreeMemory(
        feet, feet, zero, feet[1], jnp.array([3.0, 4.0]), jnp.zeros((2, 3)), feet, ~feet
    )
    following = ToppleFree.of(model, followed)
    found = following.gauges(memory)
    assert list(following.gauge_limits()) == [
        *("left foot", "right foot", "help", "left foot stands in the reference"),
        *("left foot touches", "right foot stands in the reference", "right foot touches"),
    ]
    assert found.keys() == following.gauge_limits().keys()
    assert found["left foot touches"] and not found["left foot stands in the reference"]
    assert found["right foot touches"].dtype == bool and float(found["right foot"]) == 4.0
    standing = ToppleFree.of(model, pose=followed.q[0])
    assert standing.gauges(memory).keys() == standing.gauge_limits().keys()
    assert len(standing.gauge_limits()) == 5
