"""Laws that the time step must keep: impact, friction, weight, energy, momentum, damping; float64.

One scene of separate bodies serves the closed-form cases, the planar human the rest.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.pose.pd import PoseController
from jaxsim.characters.planar_human import planar_human, posed, set_chair_height
from jaxsim.characters.registry import start
from jaxsim.collision.slots import contact_slots
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.dynamics.momentum import kinetic_energy, potential_energy
from jaxsim.model import (
    Model,
    ModelBuilder,
    State,
    ball,
    box,
    hinge,
    neutral_state,
    plane,
    slide,
    sphere,
)
from jaxsim.simulation.measures import final, largest, total
from jaxsim.simulation.records import Control
from jaxsim.simulation.rollout import failed_members, rollout
from jaxsim.simulation.step import TimeStepping
from tests.compiling import quick_jit
from tests.laws.bodies import G, surface

pytestmark = pytest.mark.usefixtures("x64_module")

DT = 0.001
STEPS, EVERY = 600, 10  # of the scene
RADIUS = 0.1
HALF = {"slider": (0.2, 0.2, 0.05), "lower": (0.2, 0.2, 0.1), "upper": (0.1, 0.1, 0.1)}
MASS = {"ball": 1.0, "slider": 2.0, "lower": 2.0, "upper": 1.0, "wheel": 1.0}
PLACE = {"ball": 0.0, "slider": 3.0, "lower": -3.0, "upper": -3.0, "wheel": -6.0}  # x [m]
WHEEL = 0.005  # inertia about its axle, about that of a hand [kg m^2]


def build_scene() -> Model:
    """A ball, a block, two stacked boxes and a wheel on an axle, in the x-z plane."""
    b = ModelBuilder()
    for name, mass in MASS.items():
        turn = hinge(f"{name}Turn", (0, -1, 0))
        if name == "wheel":
            b.add_link(name, "world", pos=(-6, 0, 2), mass=mass, inertia=[WHEEL] * 3, joints=[turn])
            continue
        joints = [slide(f"{name}X", (1, 0, 0)), slide(f"{name}Z", (0, 0, 1)), turn]
        if name == "ball":
            inertia, shape = [0.4 * mass * RADIUS**2] * 3, sphere(RADIUS, name=name)
        else:
            x, y, z = HALF[name]
            inertia = [mass / 3 * s for s in (y * y + z * z, x * x + z * z, x * x + y * y)]
            shape = box(HALF[name], name=name)
        b.add_link(name, "world", mass=mass, inertia=inertia, joints=joints)
        b.add_shape(name, shape)
    b.add_shape("world", plane(name="ground"))
    b.add_pair("upper", "lower")
    return b.build()


@pytest.fixture(scope="module")
def scene(x64_module) -> Model:
    return build_scene()


@pytest.fixture(scope="module")
def simulate():
    """``simulate(model, state, config)``: q, qd, forces every EVERY steps, and the last state."""

    def record(sample):
        return sample.state.q, sample.state.qd, sample.info.contact_force, sample.info.penetration

    def one(model, state, config):
        controller = PoseController(jnp.zeros(model.topology.nq))
        return rollout(model, controller, state, config, STEPS, record=record, record_every=EVERY)

    return quick_jit(one)


def at_rest(model: Model, **moves: dict) -> State:
    """All bodies resting in their places; ``ball=dict(z=0.3)`` lifts one, ``dict(vx=1)`` throws."""
    top = model.topology
    state = neutral_state(model)
    height = {"ball": RADIUS, "slider": 0.05, "lower": 0.1, "upper": 0.3}
    q, qd = np.zeros(top.nq), np.zeros(top.nv)
    for name in height:
        q[top.dof(f"{name}X")] = PLACE[name]
        q[top.dof(f"{name}Z")] = height[name]
    for name, values in moves.items():
        for key, value in values.items():
            (qd if key[0] == "v" else q)[top.dof(name + key.removeprefix("v").title())] += value
    return state.replace(q=jnp.asarray(q), qd=jnp.asarray(qd))


def forces_on(model: Model, force: np.ndarray, name: str, other: str) -> np.ndarray:
    """(frames, 3) sum of the contact forces on ``name`` from ``other``."""
    slots, top = contact_slots(model.topology), model.topology
    mine = (slots.shape_a == top.shape(name)) & (slots.shape_b == top.shape(other))
    return np.asarray(force)[:, mine].sum(axis=1)


# ---- impact ----------------------------------------------------------------------------------


@pytest.mark.parametrize("restitution", [0.0, 0.5, 0.8])
def test_dropped_ball_bounces_to_e_squared_of_its_height(scene, simulate, restitution):
    height = 0.2
    model = surface(scene, restitution=restitution)
    record = simulate(model, at_rest(model, ball=dict(z=height)), TimeStepping(dt=DT)).record
    z = np.asarray(record[0])[:, model.topology.dof("ballZ")] - RADIUS
    impact = np.sqrt(2 * height / G)  # [s]
    after = z[int((impact + 2 * DT) / DT / EVERY) + 1 :]
    assert z.min() > -0.002
    if restitution == 0:
        assert after.max() < 1e-3
    else:
        wanted = restitution**2 * height
        # one step's fall and one step's weight are what the time step leaves open
        open_by = np.sqrt(2 * G * height) * DT + 2 * G * DT * np.sqrt(2 * wanted / G)
        np.testing.assert_allclose(after.max(), wanted, atol=open_by)


def test_ball_at_rest_does_not_bounce(scene, simulate):
    """The weight of one step is slower than bounce_speed, whatever the restitution."""
    model = surface(scene, restitution=0.9)
    record = simulate(model, at_rest(model), TimeStepping(dt=DT)).record
    z = np.asarray(record[0])[:, model.topology.dof("ballZ")]
    np.testing.assert_allclose(z, RADIUS, atol=1e-4)


# ---- friction --------------------------------------------------------------------------------


def test_sliding_block_loses_mu_g_and_stops(scene, simulate):
    model = surface(scene, friction=0.4)
    record = simulate(model, at_rest(model, slider=dict(vx=1.5)), TimeStepping(dt=DT)).record
    speed = np.asarray(record[1])[:, model.topology.dof("sliderX")]
    time = np.arange(len(speed)) * EVERY * DT
    np.testing.assert_allclose(speed, np.maximum(1.5 - 0.4 * G * time, 0), atol=0.01)
    assert np.abs(speed[time > 0.4]).max() < 1e-6


def test_sliding_ball_ends_up_rolling_with_five_sevenths_of_its_speed(scene, simulate):
    model = surface(scene, friction=0.4)
    top = model.topology
    record = simulate(model, at_rest(model, ball=dict(vx=1.4)), TimeStepping(dt=DT)).record
    speed = np.asarray(record[1])[:, top.dof("ballX")]
    spin = np.asarray(record[1])[:, top.dof("ballTurn")]
    time = np.arange(len(speed)) * EVERY * DT
    early = time < 2 / 7 * 1.4 / (0.4 * G) - 0.01
    np.testing.assert_allclose(speed[early], (1.4 - 0.4 * G * time)[early], atol=0.01)
    np.testing.assert_allclose(speed[-1], 1.0, atol=0.01)
    np.testing.assert_allclose(speed[-1] + RADIUS * spin[-1], 0, atol=1e-6)


@pytest.mark.parametrize("angle", [18.0, 26.0])
def test_block_on_a_slope_holds_below_the_friction_angle(scene, simulate, angle):
    """arctan 0.4 is 21.8 degrees."""
    tilt = np.deg2rad(angle)
    model = surface(scene, friction=0.4, tilt=tilt)
    record = simulate(model, at_rest(model), TimeStepping(dt=DT)).record
    speed = np.asarray(record[1])[:, model.topology.dof("sliderX")]
    time = np.arange(len(speed)) * EVERY * DT
    pull = G * (np.sin(tilt) - 0.4 * np.cos(tilt))
    if pull < 0:
        assert np.abs(speed).max() < 1e-6
    else:
        np.testing.assert_allclose(speed, pull * time, atol=0.01 * pull * time.max())


# ---- weight and momentum ---------------------------------------------------------------------


def test_forces_of_a_stack_at_rest_are_its_weights(scene, simulate):
    record = simulate(surface(scene), at_rest(scene), TimeStepping(dt=DT)).record
    _, qd, force, penetration = record
    weight = {name: mass * G for name, mass in MASS.items()}
    stack = weight["upper"] + weight["lower"]
    for name, wanted in (("lower", stack), ("slider", weight["slider"]), ("ball", weight["ball"])):
        total_force = forces_on(scene, force, name, "ground")[-10:]
        np.testing.assert_allclose(
            total_force, np.tile([0, 0, wanted], (10, 1)), atol=1e-3 * wanted
        )
    between = forces_on(scene, force, "upper", "lower")[-10:]
    np.testing.assert_allclose(between[:, 2], weight["upper"], rtol=1e-3)
    assert np.abs(np.asarray(qd)[-1]).max() < 1e-5
    assert np.asarray(penetration).max() < 1e-4


def test_momentum_changes_by_the_impulses(scene, simulate):
    """Each body's, over the whole flight, impact and slide: from forces summed at every step."""
    model = surface(scene, friction=0.4, restitution=0.3)
    top = model.topology

    def body_forces(sample):
        slots, force = contact_slots(top), sample.info.contact_force
        on = [
            jnp.where((slots.link_a == k)[:, None], force, 0).sum(0)
            - jnp.where((slots.link_b == k)[:, None], force, 0).sum(0)
            for k in range(4)
        ]
        return jnp.stack(on)

    state = at_rest(model, ball=dict(z=0.1, vx=1), upper=dict(z=0.05, vx=0.3), slider=dict(vx=-2))

    def run(state):
        controller = PoseController(jnp.zeros(top.nq))
        measures = {"impulse": total(body_forces)._replace(initial=jnp.zeros((4, 3)))}
        return rollout(model, controller, state, TimeStepping(dt=DT), 300, measures)

    result = quick_jit(run)(state)
    for k, name in enumerate(top.link_names[:4]):
        dofs = np.array([top.dof(name + "X"), top.dof(name + "Z")])
        gained = MASS[name] * np.asarray(result.state.qd - state.qd)[dofs]
        impulse = np.asarray(result.measures["impulse"])[k, ::2]
        weight = MASS[name] * np.asarray(model.gravity)[::2] * 300 * DT
        np.testing.assert_allclose(gained, impulse + weight, atol=1e-9)
        assert np.abs(impulse).max() > 1


# ---- implicit damping ------------------------------------------------------------------------


@pytest.mark.parametrize("damping", [1.0, 11.0, 1000.0])
def test_damped_wheel_slows_down_as_implicit_euler_does(scene, simulate, damping):
    """v / (1 + h c / I)^n: monotone at any h c / I; at 11 N m s/rad that is 2.2 in 1 ms."""
    model = scene.replace(damping=scene.damping.at[-1].set(damping))
    state = at_rest(model, wheel=dict(vturn=5.0))
    result = simulate(model, state, TimeStepping(dt=DT))
    speed = np.asarray(result.record[1])[:, -1]
    steps = np.arange(len(speed)) * EVERY
    np.testing.assert_allclose(speed, 5.0 * (1 + DT * damping / WHEEL) ** -steps, atol=1e-12)


# ---- what the integration makes ---------------------------------------------------------------


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Twist:
    """The same torque all the time."""

    torque: Any

    def init(self, model, state, obs):
        return ()

    def update(self, memory, model, state, obs, dt):
        return memory, Control(torque=self.torque, damping=jnp.zeros_like(self.torque))


def test_energy_rises_by_the_work_of_the_torques_and_the_error_of_the_integration():
    """At every step, to rounding; the error is of second order in the step."""
    b, rod = ModelBuilder(), dict(mass=1.3, com=(0.5, 0, 0), inertia=(0.01, 0.1, 0.11))
    b.add_link("upper", "world", joints=[ball("shoulder", damping=0.2)], **rod)
    b.add_link("lower", "upper", pos=(1, 0, 0), joints=[hinge("elbow", (0, 1, 0))], **rod)
    model, torque = b.build(), jnp.array([1.0, 2.0, -3.0, 0.5])
    state = neutral_state(model).replace(
        q=jnp.array([1.0, 0, 0, 0, 0.4]), qd=jnp.array([0.3, -2.0, 1.0, 9.0])
    )

    def record(sample):
        return energy(sample), sample.state.qd, sample.info.energy_error

    @quick_jit
    def run(dt):
        return rollout(model, Twist(torque), state, TimeStepping(dt=dt), 50, record=record).record

    dt, first = 0.001, []
    for h in (dt, dt / 2):
        total_energy, qd, made = map(np.asarray, run(h))
        middle = (qd[1:] + qd[:-1]) / 2
        work = h * np.sum(
            middle * (np.asarray(torque) - np.asarray(model.damping) * qd[1:]), axis=1
        )
        np.testing.assert_allclose(np.diff(total_energy) - work, made[:-1], atol=1e-12)
        first.append(made[0])
    assert abs(first[0]) > 1e-5
    np.testing.assert_allclose(first[0] / first[1], 4, rtol=0.1)


# ---- the planar human ------------------------------------------------------------------------

HUMAN_STEPS = 50
MEMBERS = 4


@pytest.fixture(scope="module")
def human(x64_module) -> Model:
    return planar_human()


@pytest.fixture(scope="module")
def standing(human) -> State:
    return quick_jit(lambda model: start(model, "standing"))(human)


def energy(sample):
    model, state, kin = sample.model, sample.state, sample.obs.kin
    return kinetic_energy(model, kin, state.qd) + potential_energy(model, kin)


def past_limit(sample):
    """How far the worst joint is beyond its range [rad]."""
    model, top = sample.model, sample.model.topology
    joints = np.array(top.limited_joints)
    angle = sample.state.q[np.array(top.q_start)[joints]]
    beyond = jnp.maximum(model.joint_lower[joints] - angle, angle - model.joint_upper[joints])
    return jnp.max(beyond)


MEASURES = {
    "impulse": total(lambda sample: sample.info.contact_force.sum(0))._replace(initial=np.zeros(3)),
    "energy": largest(energy),
    "past limit": largest(past_limit),
    "touches": total(lambda sample: jnp.any(sample.obs.touching)),
    "height": final(lambda sample: sample.obs.com[2]),
}


@pytest.fixture(scope="module")
def hold():
    """HUMAN_STEPS of a batch of characters with PD towards a target: model, target, state, dt."""

    def one(model, target, state, dt):
        controller, config = PoseController(target), TimeStepping(dt=dt)
        return rollout(model, controller, state, config, HUMAN_STEPS, MEASURES)

    return quick_jit(jax.vmap(one, (None, 0, 0, 0)))


@pytest.fixture(scope="module")
def mechanics():
    """Total energy and velocity of the centre of mass of a batch of states."""

    def one(model, state):
        kin = forward_kinematics(model, state.q, state.qd)
        total_energy = kinetic_energy(model, kin, state.qd) + potential_energy(model, kin)
        speed = kin.velocity[:, 3:] + jnp.cross(kin.velocity[:, :3], kin.com - kin.reference)
        return total_energy, (model.mass[:, None] * speed).sum(0) / model.mass.sum()

    return quick_jit(jax.vmap(one, (None, 0)))


def batch_of(state: State, seed: int = 0, tilt: float = 0.0, speed: float = 0.0, up: float = 0.0):
    """MEMBERS copies, tilted and moving at random."""
    rng = np.random.default_rng(seed)
    many = jax.tree.map(lambda x: jnp.stack([x] * MEMBERS), state)
    q = np.array(many.q)
    q[:, 2] += tilt * rng.normal(size=MEMBERS)
    q[:, 1] += up
    return many.replace(q=jnp.asarray(q), qd=jnp.asarray(speed * rng.normal(size=q.shape)))


def test_passive_fall_gains_no_energy_and_obeys_impulse(human, standing, hold, mechanics):
    """From standing, tilted and with random speeds, to the ground; joints run into their limits."""
    limp = human.replace(torque_limit=0 * human.torque_limit)
    state = batch_of(standing, tilt=0.2, speed=1.0, up=0.05)
    dt = jnp.full(MEMBERS, DT)
    before, velocity = mechanics(limp, state)
    impulse, most, beyond = np.zeros((MEMBERS, 3)), np.full(MEMBERS, -np.inf), -np.inf
    at, rounds = state, 12
    for _ in range(rounds):
        result = hold(limp, at.q, at, dt)
        at = result.state
        impulse += np.asarray(result.measures["impulse"])
        most = np.maximum(most, result.measures["energy"])
        beyond = max(beyond, float(result.measures["past limit"].max()))
    after, velocity_after = mechanics(limp, at)
    assert (most <= np.asarray(before) * 1.001).all()
    assert (np.asarray(after) < np.asarray(before)).all()
    assert 0 < beyond < 0.05
    mass = float(human.mass.sum())
    gravity = np.asarray(human.gravity) * rounds * HUMAN_STEPS * DT
    gained = mass * np.asarray(velocity_after - velocity)
    assert np.abs(impulse).max() > 50
    np.testing.assert_allclose(gained, impulse + mass * gravity, atol=0.02 * mass * G * 0.6)


@pytest.mark.parametrize("dt", [0.001, 0.00025])
def test_pd_gains_of_table_4_2_are_stable(human, standing, hold, dt):
    """0.3 s of free fall from random velocities: every joint comes to rest in the pose."""
    state = batch_of(standing, seed=1, speed=3.0, up=5.0)
    target = state.q
    at, steps = state, jnp.full(MEMBERS, dt)
    for _ in range(round(0.3 / dt / HUMAN_STEPS)):
        result = hold(human, target, at, steps)
        at = result.state
    assert result.finite.all() and not result.measures["touches"].any()
    joints = slice(3, None)
    assert np.abs(np.asarray(state.qd)[:, joints]).max() > 5
    assert np.abs(np.asarray(at.qd)[:, joints]).max() < 1.0
    assert np.abs(np.asarray(at.q - target)[:, joints]).max() < 0.3
    np.testing.assert_allclose(at.time, 0.3, rtol=1e-9)


def test_joint_limits_hold_against_the_actuators(human, hold):
    """Every joint is driven half a radian beyond its upper, and then its lower limit."""
    top = human.topology
    middle = np.zeros(top.nq)
    joints = np.array(top.limited_joints)
    lower, upper = np.asarray(human.joint_lower)[joints], np.asarray(human.joint_upper)[joints]
    dofs = np.array(top.q_start)[joints]
    middle[dofs], middle[1] = (lower + upper) / 2, 10.0
    state = batch_of(posed(human, {}).replace(q=jnp.asarray(middle)))
    target = np.stack([middle] * MEMBERS)
    target[0::2, dofs], target[1::2, dofs] = upper + 0.5, lower - 0.5
    at, beyond = state, []
    for _ in range(12):
        result = hold(human, jnp.asarray(target), at, jnp.full(MEMBERS, DT))
        at = result.state
        beyond.append(float(result.measures["past limit"].max()))
    assert beyond[-1] < 0.005
    assert max(beyond) < 0.05
    end = np.asarray(at.q)[:, dofs]
    reached = np.minimum(np.abs(end - upper), np.abs(end - lower)) < 0.02
    assert reached.mean() > 0.8


# ---- batches ---------------------------------------------------------------------------------


def test_a_member_that_fails_is_named_and_leaves_the_others_alone(human, standing, hold):
    state = batch_of(standing, seed=2, tilt=0.1, speed=0.5)
    dt = jnp.full(MEMBERS, DT)
    whole = hold(human, state.q, state, dt)
    broken = state.replace(qd=state.qd.at[2, 5].set(jnp.nan))
    with_nan = hold(human, state.q, broken, dt)
    assert failed_members(whole) == []
    assert failed_members(with_nan) == [2]
    others = np.array([0, 1, 3])
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(with_nan), strict=True):
        np.testing.assert_array_equal(np.asarray(a)[others], np.asarray(b)[others])
    assert np.isnan(np.asarray(with_nan.state.q)[2]).any()


@pytest.mark.slow
def test_a_batch_may_vary_friction_and_chair_height():
    """And each member is what it is alone."""
    seated = planar_human(chair_height=0.45)

    def one(friction, height):
        model = set_chair_height(seated, height)
        model = model.replace(friction=jnp.full_like(model.friction, friction))
        state = start(model, "sitting")
        state = state.replace(qd=state.qd.at[0].set(1.0))  # it slides off
        speed = {"speed": final(lambda sample: sample.obs.com_velocity[0])}
        result = rollout(model, PoseController(state.q), state, TimeStepping(dt=DT), 20, speed)
        return result.state, result.measures["speed"]

    run = quick_jit(jax.vmap(one))
    friction, height = jnp.array([0.1, 0.9, 0.1]), jnp.array([0.4, 0.4, 0.3])
    together, speed = run(friction, height)
    assert np.isfinite(together.q).all()
    assert speed[0] > speed[1] + 0.05  # less friction, more speed
    np.testing.assert_allclose(together.q[2, 1], together.q[0, 1] - 0.1, atol=0.01)
    again, _ = run(friction[::-1], height[::-1])
    for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(again), strict=True):
        np.testing.assert_allclose(a, b[::-1], rtol=1e-9, atol=1e-9)


# ---- rollouts --------------------------------------------------------------------------------


def falling_ball() -> tuple[Model, State]:
    """A model that compiles fast."""
    b = ModelBuilder()
    joints = [slide("x", (1, 0, 0)), slide("z", (0, 0, 1))]
    b.add_link("ball", "world", mass=1.0, inertia=[1, 1, 1], joints=joints)
    b.add_shape("ball", sphere(0.1, name="ball", restitution=0.5))
    b.add_shape("world", plane(name="ground"))
    model = b.build()
    state = neutral_state(model)
    return model, state.replace(q=jnp.array([0.0, 0.15]), qd=jnp.array([1.0, 0.0]))


def test_measures_are_what_the_record_gives():
    model, state = falling_ball()
    height = {
        "integral": total(lambda sample: sample.obs.com[2]),
        "lowest": largest(lambda sample: -sample.state.q[1]),
        "last": final(lambda sample: sample.obs.touching[0], initial=False),
        "force": total(lambda sample: sample.info.contact_force[0, 2]),
    }

    def record(sample):
        return (
            sample.state.q[1],
            sample.obs.touching[0],
            sample.info.contact_force[0, 2],
            sample.state.time,
        )

    def run(state, every):
        controller, config = PoseController(jnp.zeros(2)), TimeStepping(dt=0.002)
        # One back end, whose bits do not depend on what else a program computes.
        return rollout(model, controller, state, config, 120, height, record, every, "xla")

    run = quick_jit(run, static_argnums=1)
    result = run(state, 1)
    z, touching, force, time = (np.asarray(x) for x in result.record)
    assert z.shape == (120,)
    measures = result.measures
    np.testing.assert_allclose(measures["integral"], 0.002 * z.sum(), rtol=1e-12)
    np.testing.assert_allclose(measures["lowest"], -z.min(), rtol=1e-12)
    np.testing.assert_allclose(measures["force"], 0.002 * force.sum(), rtol=1e-12)
    assert bool(measures["last"]) == touching[-1]
    assert touching.any() and not touching.all()
    np.testing.assert_allclose(time, np.arange(120) * 0.002, atol=1e-12)
    np.testing.assert_allclose(result.state.time, 0.24)

    thin = run(state, 8)
    np.testing.assert_array_equal(thin.record[0], z[::8])
    np.testing.assert_array_equal(thin.state.q, result.state.q)
    with pytest.raises(ValueError, match="record_every=7 does not divide steps=120"):
        run(state, 7)


def test_memory_does_not_grow_with_the_length():
    model, state = falling_ball()
    measures = {"height": largest(lambda sample: sample.state.q[1])}

    def run(state, steps):
        controller = PoseController(jnp.zeros(2))
        return rollout(model, controller, state, TimeStepping(dt=DT), steps, measures)

    short, long = (jax.eval_shape(lambda s, n=n: run(s, n), state) for n in (10, 100_000))
    assert short.record is None
    assert jax.tree.map(lambda x: x.shape, short) == jax.tree.map(lambda x: x.shape, long)
    quick = quick_jit(run, static_argnums=1)
    sizes = [quick.lower(state, n).compile().memory_analysis() for n in (10, 100_000)]
    assert sizes[0].temp_size_in_bytes == sizes[1].temp_size_in_bytes


def test_numbers_compile_nothing_anew():
    model, state = falling_ball()
    count = []

    def run(model, target, state, config):
        count.append(1)  # runs once a trace
        return rollout(model, PoseController(target), state, config, 3).state

    run = quick_jit(run)
    target = jnp.zeros(2)
    run(model, target, state, TimeStepping(dt=0.001))
    run(model.replace(mass=2 * model.mass), target + 1, state, TimeStepping(dt=0.002))
    run(
        model.replace(friction=model.friction / 2),
        target,
        state.replace(q=state.q + 1),
        TimeStepping(dt=0.001, stabilization_time=0.1, bounce_speed=0.2),
    )
    assert len(count) == 1 and run._cache_size() == 1
    run(model, target, state, TimeStepping(dt=0.001, sweeps=4))  # this one is a constant
    assert len(count) == 2


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match=r"dt is -0\.1 s"):
        TimeStepping(dt=-0.1)
    with pytest.raises(ValueError, match="sweeps is 0"):
        TimeStepping(sweeps=0)
    with pytest.raises(ValueError, match=r"warm_start is 1\.5"):
        TimeStepping(warm_start=1.5)
