"""Driven bodies, grips, limits of ball joints, and the choice of contacts; float64, both steps."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.dynamics.rigid import inverse_dynamics
from jaxsim.math.rotation import quat_log
from jaxsim.model import Drive, ModelBuilder, ball, box, free, hinge, plane, slide
from jaxsim.model.state import neutral_state
from jaxsim.simulation.events import EventDriven
from jaxsim.simulation.records import MotionControl, no_control
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64_module")

G, HALF, MASS, DT = 9.81, 0.1, 2.0, 1e-3
CRATE = dict(mass=MASS, inertia=[2.0 / 3 * MASS * HALF**2] * 3)
STEPS = {"time_stepping": TimeStepping(dt=DT, sweeps=30), "event_driven": EventDriven(dt=2 * DT)}
by_both = pytest.mark.parametrize("config", STEPS.values(), ids=STEPS.keys())


@jax.tree_util.register_static
class Limp:
    """No torque; closed grips, but those of ``hold``."""

    def __init__(self, hold=None):
        self.hold = hold

    def init(self, model, state, obs):
        return ()

    def update(self, memory, model, state, obs, dt):
        return memory, no_control(model)


def begin(model, **changes):
    state = neutral_state(model)
    return state.replace(**{name: jnp.asarray(value) for name, value in changes.items()})


@partial(quick_jit, static_argnames=("steps", "controller", "backend"))
def compiled(model, state, config, steps, controller, backend):
    def record(sample):
        return sample.state, sample.info

    return rollout(model, controller, state, config, steps, backend=backend, record=record)


LIMP = Limp()


def simulate(model, state, config, seconds, controller=LIMP, backend="xla"):
    return compiled(model, state, config, round(seconds / config.dt), controller, backend)


@pytest.fixture(scope="module")
def cart(x64_module):
    """A crate on a driven platform of infinite mass, which rocks about three axes."""
    b = ModelBuilder()
    joints = [
        slide("x", (1, 0, 0), drive=Drive(rate=0.5, begin=0.1)),
        hinge("roll", (1, 0, 0), drive=Drive(amplitude=0.05, frequency=1.0)),
        hinge("pitch", (0, 1, 0), drive=Drive(amplitude=0.05, frequency=1.3)),
        hinge("yaw", (0, 0, 1), drive=Drive(amplitude=0.3, frequency=0.5)),
    ]
    b.add_link("platform", "world", mass=1.0, inertia=(1, 1, 1), joints=joints)
    b.add_shape("platform", box((1, 1, 0.05), name="deck", pos=(0, 0, -0.05)))
    b.add_link("crate", "world", joints=[free("root")], **CRATE)
    b.add_shape("crate", box([HALF] * 3, name="crate"))
    b.add_pair("crate", "deck")
    return b.build()


@pytest.mark.slow
@by_both
def test_a_crate_rides_on_a_driven_platform(cart, config):
    result = simulate(cart, begin(cart, q=[0, 0, 0, 0, 0, 0, HALF, 1, 0, 0, 0]), config, 0.6)
    state, info = result.record
    driven = cart.drive.position(state.time[:, None])
    np.testing.assert_allclose(state.q[:, :4], driven, atol=1e-9)
    top = forward_kinematics(cart, result.state.q, result.state.qd)
    local = top.link_rot[0].T @ (top.link_pos[1] - top.link_pos[0])
    assert abs(local[2] - HALF) < 2e-3  # on the deck
    assert np.abs(local[:2]).max() < 0.02  # at its place
    assert result.state.q[4] > 0.2  # which has moved on
    assert info.penetration.max() < 2e-3


@pytest.mark.slow
@by_both
def test_a_driven_wall_gives_a_body_its_speed(config):
    """An elastic impact of an infinite mass at speed v leaves with 2 v."""
    b = ModelBuilder((0, 0, 0))
    joints = [slide("x", (1, 0, 0), drive=Drive(rate=1.5))]
    b.add_link("wall", "world", mass=1e-3, inertia=(1e-3,) * 3, joints=joints)
    b.add_shape("wall", box((0.1, 1, 1), name="wall", friction=0))
    b.add_link("crate", "world", joints=[free("root")], **CRATE)
    b.add_shape("crate", box([HALF] * 3, name="crate"))
    b.add_pair("crate", "wall")
    model = b.build()
    start = begin(model, q=[0, 0.5, 0, 0, 1, 0, 0, 0])
    for restitution, speed in ((0.0, 1.5), (1.0, 3.0)):
        bouncy = model.replace(restitution=jnp.full(2, restitution))
        result = simulate(bouncy, start, config, 0.3)
        np.testing.assert_allclose(result.state.qd[1:], [speed, 0, 0, 0, 0, 0], atol=5e-3)


@pytest.fixture(scope="module")
def hanger(x64_module):
    """A rod held by its end to the world, and a crate held by the rod's other end."""
    b = ModelBuilder()
    rod = dict(mass=1.0, com=(0.25, 0, 0), inertia=(1e-3, 1 / 48, 1 / 48))
    b.add_link("rod", "world", joints=[free("rod_root")], **rod)
    b.add_link("crate", "world", joints=[free("crate_root")], **CRATE)
    b.add_grip("bar", "rod", (0, 0, 0), other_point=(0, 0, 2))
    b.add_grip("hand", "rod", (0.5, 0, 0), "crate", (0, 0, HALF))
    return b.build()


LEVEL = [0, 0, 2, 1, 0, 0, 0, 0.5, 0, 2 - HALF, 1, 0, 0, 0]
HANGING = [0, 0, 2, np.sqrt(0.5), 0, np.sqrt(0.5), 0, 0, 0, 1.5 - HALF, 1, 0, 0, 0]


@by_both
def test_grips_carry_what_hangs_on_them(hanger, config):
    result = simulate(hanger, begin(hanger, q=HANGING), config, 0.1)
    force = result.record[1].grip_force[-1]
    np.testing.assert_allclose(force[0], [0, 0, 3 * G], atol=1e-3 * G)
    np.testing.assert_allclose(force[1], [0, 0, -MASS * G], atol=1e-3 * G)
    np.testing.assert_allclose(result.state.q, HANGING, atol=1e-4)


@by_both
def test_what_is_held_swings_and_keeps_its_energy(hanger, config):
    result = simulate(hanger, begin(hanger, q=LEVEL), config, 0.4)
    kin = forward_kinematics(hanger, result.state.q, result.state.qd)
    end = kin.link_pos[0] + kin.link_rot[0] @ jnp.array([0.5, 0, 0])
    held = kin.link_pos[1] + kin.link_rot[1] @ jnp.array([0, 0, HALF])
    np.testing.assert_allclose(kin.link_pos[0], [0, 0, 2], atol=2e-3)
    np.testing.assert_allclose(held, end, atol=2e-3)
    assert end[2] < 1.9  # it swings
    spin = kin.velocity[:, :3]
    point = kin.velocity[:, 3:] + jnp.cross(spin, kin.com - kin.reference)
    turning = jnp.einsum("lij,ljk,lmk->lim", kin.link_rot, hanger.inertia, kin.link_rot)
    kinetic = 0.5 * jnp.sum(hanger.mass * jnp.sum(point**2, -1))
    kinetic += 0.5 * jnp.einsum("li,lij,lj->", spin, turning, spin)
    fallen = jnp.sum(hanger.mass * G * (jnp.array([2, 2 - HALF]) - kin.com[:, 2]))
    np.testing.assert_allclose(kinetic, fallen, rtol=0.03)


@by_both
def test_a_grip_breaks_at_its_strength_and_stays_broken(hanger, config):
    weak = hanger.replace(grip_strength=jnp.array([np.inf, 0.5 * MASS * G]))
    result = simulate(weak, begin(weak, q=HANGING), config, 0.1)
    assert result.state.broken.tolist() == [False, True]
    assert (result.record[1].grip_force[-1][1] == 0).all()
    np.testing.assert_allclose(result.state.qd[8], -G * 0.1, rtol=0.05)  # it falls
    np.testing.assert_allclose(result.state.q[:7], HANGING[:7], atol=1e-3)  # the rod stays


@by_both
def test_a_controller_opens_a_grip(hanger, config):
    @jax.tree_util.register_static
    class LetsGo(Limp):
        def update(self, memory, model, state, obs, dt):
            hold = jnp.stack([jnp.array(True), state.time < 0.05 - 1e-9])
            return memory, replace(no_control(model), closed=hold)

    result = simulate(hanger, begin(hanger, q=HANGING), config, 0.1, LetsGo())
    np.testing.assert_allclose(result.state.qd[8], -G * 0.05, rtol=0.01)
    assert not result.state.broken.any()


@by_both
def test_a_ball_joint_turns_no_further_than_its_limit(config):
    b = ModelBuilder((1.0, 2.0, -9.0))
    rod = dict(mass=1.0, com=(0, 0, 0.5), inertia=(0.1, 0.1, 0.01))
    b.add_link("rod", "world", joints=[ball("neck", limits=(0, 0.5), damping=1.0)], **rod)
    model = b.build()
    result = simulate(model, begin(model, qd=[0.3, 0.2, 1.0]), config, 1.5)
    angle = np.linalg.norm(jax.vmap(quat_log)(result.record[0].q), axis=-1)
    assert angle.max() < 0.5 + np.deg2rad(0.5)
    assert angle[-1] > 0.5 - 1e-2  # it leans on the limit
    # and the limit carries what gravity asks of it: m g x arm along the axis
    torque = np.abs(result.record[1].limit_torque[-1])
    kin = forward_kinematics(model, result.state.q, result.state.qd)
    axis = kin.link_rot[0] @ quat_log(result.state.q) / angle[-1]
    pull = np.dot(axis, np.cross(kin.com[0], np.array(model.gravity)))
    np.testing.assert_allclose(torque, [abs(pull)], rtol=0.02)


@pytest.fixture(scope="module")
def acrobat(x64_module):
    """A body with an arm of two links, on the ground by its feet."""
    b = ModelBuilder()
    b.add_link("body", "world", joints=[free("root")], **CRATE)
    b.add_shape("body", box([HALF] * 3, name="body"))
    rod = dict(mass=0.5, com=(0, 0, 0.2), inertia=(0.01, 0.01, 0.001))
    b.add_link("arm", "body", pos=(0, 0, HALF), joints=[hinge("shoulder", (0, 1, 0))], **rod)
    b.add_link("hand", "arm", pos=(0, 0, 0.4), joints=[hinge("elbow", (1, 0, 0))], **rod)
    b.add_shape("world", plane(name="ground"))
    return b.build()


@jax.tree_util.register_static
class Moves(Limp):
    """Shoulder at 3 rad/s^2, elbow free."""

    def update(self, memory, model, state, obs, dt):
        on = jnp.arange(model.topology.nv) == 6
        motion = MotionControl(jnp.where(on, 3.0, 0.0), on)
        return memory, replace(no_control(model), motion=motion)


@pytest.mark.slow
@by_both
@pytest.mark.parametrize("height", [HALF, 1.0], ids=["standing", "falling"])
def test_motion_control_meets_the_acceleration_whatever_else_happens(acrobat, config, height):
    seconds = 0.1
    q = [0, 0, height, 1, 0, 0, 0, 0.3, -0.4]
    state, info = simulate(acrobat, begin(acrobat, q=q), config, seconds, Moves()).record
    np.testing.assert_allclose(state.qd[:, 6], 3.0 * state.time, atol=1e-9)
    assert np.abs(np.diff(state.qd[:, 7])).max() > 0  # the elbow swings

    # Its force is what inverse dynamics asks for, with the contact forces, at the step's start.
    k = -2
    kin = forward_kinematics(acrobat, state.q[k], state.qd[k])
    qdd = (state.qd[k + 1] - state.qd[k]) / config.dt
    needed = inverse_dynamics(acrobat, kin, qdd)  # the contacts do no work on the shoulder
    np.testing.assert_allclose(info.motion_force[k, 6], needed[6], rtol=1e-6, atol=1e-8)
    assert (info.motion_force[:, :6] == 0).all() and (info.motion_force[:, 7] == 0).all()


@pytest.fixture(scope="module")
def crates(x64_module):
    """Two crates on the ground and one in the air: 12 places for a contact."""
    b = ModelBuilder()
    for name in ("a", "b", "c"):
        b.add_link(name, "world", joints=[free(name)], **CRATE)
        b.add_shape(name, box([HALF] * 3, name=name))
    b.add_shape("world", plane(name="ground"))
    return b.build()


CRATES = [0, 0, HALF, 1, 0, 0, 0, 1, 0, HALF + 0.02, 1, 0, 0, 0, 2, 0, 2, 1, 0, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", STEPS)
def test_the_nearest_contacts_are_as_good_as_all(crates, kind):
    """Of 12 places 8 touch at a time: a step that solves for 8 does the same."""
    seconds, config = 0.25, STEPS[kind]
    all_ = simulate(crates, begin(crates, q=CRATES), config, seconds)
    few = type(config)(**{**vars(config), "contacts": 8})
    chosen = simulate(crates, begin(crates, q=CRATES), few, seconds)
    np.testing.assert_allclose(chosen.state.q, all_.state.q, atol=1e-5)
    force = chosen.record[1].contact_force[-1].sum(axis=0)
    np.testing.assert_allclose(force, [0, 0, 2 * MASS * G], rtol=1e-3, atol=0.1)
    assert (chosen.record[1].dropped_contacts == 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", STEPS)
def test_contacts_without_a_place_are_counted(crates, kind):
    config = STEPS[kind]
    few = type(config)(**{**vars(config), "contacts": 5})
    result = simulate(crates, begin(crates, q=CRATES), few, 0.1)
    dropped_contacts = result.record[1].dropped_contacts
    assert (
        dropped_contacts[-1] == 3 and dropped_contacts.max() == 3
    )  # two crates stand on eight corners
    assert np.isfinite(result.state.q).all()


@pytest.mark.slow
def test_places_that_are_empty_are_left_out_of_a_kernel(crates):
    """Side by side 0, 4, 8 and 11 contacts, of two packs of places: all as by XLA."""
    config = TimeStepping(dt=DT, contacts=11)
    q = np.tile(CRATES, (4, 1))
    for member in range(4):
        q[member, [2, 9, 16]] = [HALF if k < member else 2.0 for k in range(3)]

    def ends(backend):
        def one(q):
            result = simulate(crates, begin(crates, q=q), config, 0.02, backend=backend)
            return result.state.q, result.record[1]

        return jax.vmap(one)(q)

    (places, info), (by_kernel, as_well) = ends("xla"), ends("fused")
    pushes = (np.asarray(info.contact_force)[..., 2] > 0).any(axis=1).sum(axis=1)
    assert (pushes[:3] == [0, 4, 8]).all() and pushes[3] > 8
    np.testing.assert_array_equal(info.dropped_contacts[:, 0], [0, 0, 0, 1])
    np.testing.assert_allclose(by_kernel, places, atol=1e-10)
    np.testing.assert_allclose(as_well.contact_force, info.contact_force, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["xla", "fused"])
def test_a_world_without_a_freedom_stands_still(backend):
    """Contacts and a grip of what cannot move; the steps have no unknown."""
    b = ModelBuilder()
    b.add_link("post", "world", pos=(0, 0, HALF - 0.01), **CRATE)
    b.add_shape("post", box([HALF] * 3, name="post"))
    b.add_shape("world", plane(name="ground"))
    b.add_grip("bar", "post", (0, 0, 0.5))
    model = b.build()
    implicit = TimeStepping(dt=DT, derivative="implicit", bounded_start=True)
    for config in (*STEPS.values(), implicit):
        result = simulate(model, begin(model), config, 0.01, backend=backend)
        assert result.finite and result.state.q.shape == (0,)
        assert (result.record[1].contact_force == 0).all()
        np.testing.assert_allclose(result.record[1].penetration, 0.01)


def test_a_world_of_all_this_is_one_kernel(cart, hanger, crates):
    """Fused and XLA agree to rounding."""
    few = TimeStepping(dt=DT, sweeps=8, contacts=7)
    scenes = [
        (cart, [0, 0, 0, 0, 0, 0, HALF, 1, 0, 0, 0], TimeStepping(dt=DT)),
        (hanger, LEVEL, TimeStepping(dt=DT)),
        (crates, CRATES, few),
    ]
    for model, q, config in scenes:
        both = [
            simulate(model, begin(model, q=q), config, 0.05, backend=b) for b in ("xla", "fused")
        ]
        np.testing.assert_allclose(both[1].state.q, both[0].state.q, atol=1e-10)
        for name in ("contact_force", "grip_force", "dropped_contacts"):
            a, b = (np.asarray(getattr(result.record[1], name)) for result in both)
            np.testing.assert_allclose(b, a, atol=1e-6)
