"""Several characters in one optimisation: each as alone, and together as mechanics says."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.dynamics.effectors import effectors
from jaxsim.dynamics.jacobians import center_of_mass, com_jacobian
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.dynamics.rigid import mass_matrix
from jaxsim.model import ModelBuilder, ModelError, State, plane
from jaxsim.model.adopt import add_model
from jaxsim.model.part import character_parts
from jaxsim.simulation.pushes import push
from jaxsim.solvers.lcp import SOLVED
from jaxsim.synthesis.config import SynthesisConfig
from jaxsim.synthesis.scheme import PerStepOptimisation
from jaxsim.synthesis.several import SeveralCharacters
from jaxsim.synthesis.tasks import Tasks, position_rows, stack_rows, velocity_rows
from tests.compiling import quick_jit
from tests.synthesis.hopper import BENT, DT, JOINTS, crouched, hopper, hopper_effectors

pytestmark = pytest.mark.usefixtures("x64_module")

G, APART = 9.81, 0.3  # how far apart two begin [m]
NAMES = ("one", "two")
STEPS = 60


def points(model):
    """Those of the hopper, and a hand on either side of the trunk."""
    corners = [(f"corner{x}{y}", "foot", "foot", (x, y, -1)) for x in (-1, 1) for y in (-1, 1)]
    hands = [(f"{side}Hand", f"{side}Hand", "trunk", (0, y, 0)) for side, y in
             (("left", 1.5), ("right", -1.5))]  # fmt: skip
    return effectors(model, [*corners, *hands])


@cache
def two(ground: bool = True):
    """Two hoppers, ``APART`` along y, with their left and right hands in one place."""
    b = ModelBuilder()
    add_model(b, hopper(), world_shapes=False)
    add_model(b, hopper(), world_shapes=False, prefix="two.")
    b.add_shape("world", plane(name="floor", pos=(0, 0, 0 if ground else -100.0)))
    return b.build()


def beside(model, height: float = 0.0) -> State:
    """Both at rest, ``height`` over the ground."""
    own, top = crouched(hopper(), height), model.topology
    q, qd = jnp.zeros(top.nq), jnp.zeros(top.nv)
    for k, part in enumerate(character_parts(top)):
        q = q.at[part.q].set(own.q.at[1].add(k * APART))
    return State(q, qd, own.time)


def scheme_of(model, hands=((("one", "leftHand"), ("two", "rightHand")),), **more):
    config = SynthesisConfig(iterations=40)
    return SeveralCharacters.of_all(model, NAMES, config, hands, points=points, **more)


def stays(conf, at_v, unit, joints=BENT, clasp=None) -> Tasks:
    """The joints stay and all comes to rest."""
    top, eye = conf.model.topology, jnp.eye(conf.v.shape[0])
    dofs = np.array([top.dof(j) for j in JOINTS])
    at = np.array([top.q_start[top.joint(j)] for j in JOINTS])
    goals = stack_rows(
        position_rows(conf, conf.q[at] - jnp.array(joints), eye[dofs], at_v, 3.0, DT),
        velocity_rows(eye, jnp.zeros(len(eye)), 0.3 / unit.rate),
    )
    one = jnp.ones(conf.effectors.count)
    asks = None if clasp is None else jnp.full(1, clasp)
    return Tasks(goals, relax=0.0 * one, still=one, torque=jnp.asarray(0.1), clasp=asks)


def run(model, scheme, state, until=np.inf, joints=(BENT, BENT), forces=None):
    """States after each of ``STEPS`` steps, and infos. until: when the hands are let go [s]; all
    runs of schemes of one kind share a program."""
    if forces is None:
        forces = push(model, "trunk", (0.0, 0.0, 0.0))
    return program()(model, scheme, state, until, jnp.array(joints), forces)


@cache
def program():
    def all_steps(model, scheme, state, until, joints, forces):
        def step(state, _):
            obs, clasp = scheme.observe(model, state), state.time < until - DT / 2

            def command(k):
                unit = jax.tree.map(lambda x: x[k], scheme.unit)
                return lambda conf, at_v: stays(conf, at_v, unit, joints[k], clasp)

            after, info = scheme.step(model, state, obs, [command(0), command(1)], forces)
            return after, (after, info)

        return jax.lax.scan(step, scheme.init(model, state), None, length=STEPS)[1]

    return quick_jit(all_steps)


def momenta(model, states):
    """(T, 3) each: linear, and angular about the origin, of both together."""
    parts = character_parts(model.topology)

    def of(q, qd):
        linear, angular = jnp.zeros(3), jnp.zeros(3)
        for part in parts:
            body = part.of(model)
            kin = forward_kinematics(body, q[part.q], qd[part.dofs])
            M = mass_matrix(body, kin) @ qd[part.dofs]
            p = body.mass.sum() * (com_jacobian(body, kin) @ qd[part.dofs])
            root = kin.link_pos[0]
            # of a free joint: forces along the world's axes, moments about its link's origin
            turn = kin.link_rot[0] @ M[3:6]
            linear, angular = linear + p, angular + turn + jnp.cross(root, p)
        return linear, angular

    return map(np.asarray, quick_jit(jax.vmap(of))(states.q, states.qd))


@pytest.mark.slow
def test_two_who_do_not_hold_each_other_are_as_each_alone():
    model = two()
    scheme = scheme_of(model, hands=())
    pushed = push(model, "two.trunk", (0.0, 40.0, 0.0), 0.1, 0.2)
    states, infos = run(model, scheme, beside(model), forces=pushed)
    assert (infos.status == SOLVED).all() and infos.root_residual.max() < 1e-6

    alone = hopper()
    single = PerStepOptimisation.of(alone, points(alone), SynthesisConfig(iterations=40))
    for k, (part, force) in enumerate(zip(character_parts(model.topology), (0.0, 40.0))):
        forces = push(alone, "trunk", (0.0, force, 0.0), 0.1, 0.2)

        def step(state, _, forces=forces):
            obs = single.observe(alone, state)
            after, _ = single.step(
                alone, state, obs, lambda conf, at_v: stays(conf, at_v, single.unit), forces
            )
            return after, after

        begun = crouched(alone)
        begun = begun.replace(q=begun.q.at[1].add(k * APART))
        wanted = quick_jit(
            lambda s, step=step: jax.lax.scan(step, single.init(alone, s), None, length=STEPS)[1]
        )(begun)
        np.testing.assert_allclose(states.q[:, part.q], wanted.q, atol=1e-6)
        np.testing.assert_allclose(states.qd[:, part.dofs], wanted.qd, atol=1e-5)
    assert np.abs(states.q[-1, 1]) < 1e-3 < states.q[-1, 10 + 1] - APART


@pytest.fixture(scope="module")
def in_flight():
    """Two in the air who hold each other, and bend and stretch against each other."""
    with jax.enable_x64(True):
        model = two(ground=False)
        scheme = scheme_of(model)
        joints = (0.9, -1.5, 0.6), (0.0, -0.2, 0.1)
        states, infos = run(model, scheme, beside(model, 2.0), joints=joints)
        return model, states, infos


@pytest.mark.slow
def test_in_flight_two_who_hold_each_other_keep_their_momentum(in_flight):
    model, states, infos = in_flight
    assert (infos.status == SOLVED).all() and infos.root_residual.max() < 1e-6
    assert infos.clasped.all()
    force = np.linalg.norm(infos.clasp_force[:, 0], axis=-1)
    assert force.max() > 20.0  # they do pull on each other
    linear, angular = momenta(model, states)
    mass, time = 80.0, np.asarray(states.time)[:, None]
    fallen = mass * np.array([0.0, 0.0, -G]) * time
    given = force.max() * float(time[-1, 0])  # what an unequal pair of forces would have come to
    assert np.abs(linear - fallen).max() < 2e-3 * given
    middle = np.asarray(quick_jit(jax.vmap(lambda q: _middle(model, q)))(states.q))
    about = angular - np.cross(middle, linear)
    assert np.abs(about - about[0]).max() < 2e-2 * force.max() * APART * time[-1, 0]


def _middle(model, q):
    parts = character_parts(model.topology)
    own = [(part.of(model), q[part.q]) for part in parts]
    return sum(
        center_of_mass(body, forward_kinematics(body, at, jnp.zeros(body.topology.nv))) / 2
        for body, at in own
    )


def test_hands_that_hold_each_other_stay_together(in_flight):
    model, states, _ = in_flight
    parts = character_parts(model.topology)

    def hands(q):
        found = []
        for part, hand in zip(parts, (4, 5)):
            body = part.of(model)
            kin = forward_kinematics(body, q[part.q], jnp.zeros(body.topology.nv))
            found.append(points(body).positions(kin)[hand])
        return found[0] - found[1]

    apart = np.asarray(quick_jit(jax.vmap(hands))(states.q))
    turned = np.linalg.norm(apart - apart[0], axis=1)
    assert turned.max() < 2e-3  # an interval is linear in the velocity: dt^2 of turning is left


def test_who_is_lifted_by_the_hand_presses_less_on_the_ground():
    """What the hands carry is missing under the feet, and is there under the other's."""
    model = two()
    pushed = push(model, "two.trunk", (0.0, 0.0, 100.0), 0.2)
    _, infos = run(model, scheme_of(model), beside(model), forces=pushed)
    assert (infos.status == SOLVED).all() and infos.root_residual.max() < 1e-6
    pressed = np.asarray(infos.force).reshape(60, 2, -1, 3).sum(axis=2)[..., 2]
    own = infos.clasp_force[:, 0, 2]  # on the first
    np.testing.assert_allclose(pressed[-1, 0], 40.0 * G - own[-1], rtol=1e-3)
    np.testing.assert_allclose(pressed[-1, 1], 40.0 * G + own[-1] - 100.0, rtol=1e-3)
    np.testing.assert_allclose(pressed[-1].sum(), 80.0 * G - 100.0, rtol=1e-4)


def test_a_clasp_begins_in_reach_ends_when_nobody_asks_and_breaks_under_too_much():
    model = two()
    apart = beside(model)
    apart = apart.replace(q=apart.q.at[10 + 1].add(0.1))
    _, infos = run(model, scheme_of(model, reach=0.05), apart)
    assert not infos.clasped.any()
    _, infos = run(model, scheme_of(model), beside(model), 0.1)
    assert infos.clasped[:10].all() and not infos.clasped[10:].any()
    assert not np.asarray(infos.clasp_force)[10:].any()
    pulled = push(model, "two.trunk", (0.0, 150.0, 0.0), 0.05)
    weak = scheme_of(model, strength=20.0)
    _, infos = run(model, weak, beside(model), forces=pulled)
    held = np.asarray(infos.clasped[:, 0])
    assert held[0] and not held[-1]
    last = int(np.flatnonzero(held)[-1])
    assert np.linalg.norm(infos.clasp_force[last, 0]) > 20.0 and not held[last + 1 :].any()


def test_how_fast_hands_meet_is_told_and_stopped():
    model = two()
    state = beside(model)
    state = state.replace(qd=state.qd.at[9 + 1].set(-0.5))  # the second comes closer
    states, infos = run(model, scheme_of(model), state)
    np.testing.assert_allclose(infos.grip_speed[0], 0.5, atol=0.02)
    assert infos.grip_speed[1] == 0
    assert np.abs(states.qd[0, 9 + 1] - states.qd[0, 1]) < 0.1


@pytest.mark.parametrize(
    "hands, says",
    [
        ((("one", "leftHand"), ("three", "rightHand")), "no character 'three'; there are one, two"),
        ((("one", "tail"), ("two", "rightHand")), "no 'tail' that could hold; there are foot"),
        ((("one", "leftHand"), ("one", "rightHand")), "'one' cannot hold itself"),
    ],
)
def test_hands_that_cannot_hold_each_other_are_named(hands, says):
    with pytest.raises(ModelError, match=says):
        scheme_of(two(), hands=(hands,))


def test_what_is_not_for_several_is_told():
    with pytest.raises(ModelError, match="2 characters are named and 1 are built like the first"):
        SeveralCharacters.of_all(hopper(), NAMES, points=points)
    with pytest.raises(ModelError, match="the central form takes one character"):
        SeveralCharacters.of_all(two(), NAMES, SynthesisConfig(form="central"), points=points)
    with pytest.raises(ModelError, match="reach is -1"):
        scheme_of(two(), reach=-1.0)
    model = two()
    scheme = scheme_of(model)

    def one_command(state):
        state = scheme.init(model, state)
        return scheme.step(model, state, scheme.observe(model, state), lambda *_: None)

    with pytest.raises(TypeError, match="take tasks of each of the 2"):
        jax.eval_shape(one_command, beside(model))


def test_hopper_points_are_those_of_the_hopper():
    model = hopper()
    np.testing.assert_array_equal(points(model).point[:4], hopper_effectors(model).point[:4])
