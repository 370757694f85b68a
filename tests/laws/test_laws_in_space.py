"""Laws that both steps must keep in space: impact, friction, flight, weight; float64.

A yard of bodies that do not touch one another serves all cases, which run as one batch a step.
MuJoCo, where it is installed, says the same of what rests and slides.
"""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.collision.slots import contact_slots
from jaxsim.io.mjcf import mjcf_q_index, mjcf_v_index, to_mjcf
from jaxsim.math.rotation import quat_to_matrix
from jaxsim.model import Model, ModelBuilder, box, free, plane, sphere
from jaxsim.simulation.events import EventDriven
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping
from jaxsim.solvers.status import Status
from tests.compiling import quick_jit
from tests.laws.bodies import G, Limp, add_ball, add_crate, begin, surface

pytestmark = pytest.mark.usefixtures("x64_module")

CONFIGS = {
    "time_stepping": TimeStepping(sweeps=600),
    "event_driven": EventDriven(
        iterations=1000,
        tolerance=1e-9,
    ),
}
STEPS, EVERY = {"time_stepping": 1200, "event_driven": 300}, 5
STEP = {"time_stepping": 0.001, "event_driven": 0.004}  # [s]: both take 1.2 s
by_both = pytest.mark.parametrize(
    "kind", ["time_stepping", pytest.param("event_driven", marks=pytest.mark.slow)]
)

MU = 0.4
HALF, RADIUS, FOOT, TIP = (0.15, 0.12, 0.1), 0.1, 0.05, 1e-3
FEET = np.array([[0.3, 0.2, -0.4], [0.3, -0.3, -0.4], [-0.4, 0.1, -0.4]])  # of the table
REACH = 0.5  # half the rod's length
BODIES = ("ball", "crate", "table", "rod")
HEIGHT = {"ball": RADIUS, "crate": HALF[2], "table": 0.4 + FOOT, "rod": TIP}
MASS = {"ball": 1.0, "crate": 2.0, "table": 3.0, "rod": 1.0}


def build_yard() -> Model:
    """A ball, a crate with a tiny twin of its shape within, a table with three feet and a rod."""
    b = ModelBuilder()
    add_ball(b, "ball", RADIUS, MASS["ball"])
    add_crate(b, "crate", HALF, MASS["crate"])
    b.add_shape("crate", box((0.01,) * 3, name="twin"))
    b.add_link("table", "world", mass=MASS["table"], inertia=(0.3, 0.4, 0.5), joints=[free("t")])
    for k, foot in enumerate(FEET):
        b.add_shape("table", sphere(FOOT, name=f"foot{k}", pos=tuple(foot)))
    I = MASS["rod"] * REACH**2 / 3
    b.add_link("rod", "world", mass=MASS["rod"], inertia=(1e-3 * I, I, I), joints=[free("r")])
    for x in (-REACH, REACH):
        b.add_shape("rod", sphere(TIP, name=f"tip{x:+}", pos=(x, 0, 0)))
    b.add_shape("world", plane(name="ground"))
    return b.build()


def place(model, **moves):
    """All bodies resting side by side; ``ball=((0, 0, 0.2), (1, 0, 0))`` moves one and throws it.

    A move is (how far from its place, velocity, spin, quaternion), as many of them as are given.
    """
    q, qd = np.zeros((4, 7)), np.zeros((4, 6))
    q[:, 1], q[:, 2], q[:, 3] = 3.0 * np.arange(4), [HEIGHT[name] for name in BODIES], 1
    for name, move in moves.items():
        k = BODIES.index(name)
        offset, velocity, spin, turn = [
            *move,
            *[(0, 0, 0), (0, 0, 0), (0, 0, 0), None][len(move) :],
        ]
        q[k, :3] += offset
        q[k, 3:] = q[k, 3:] if turn is None else turn
        qd[k] = [*velocity, *spin]
    return begin(model, q, qd)


def about_y(angle: float) -> tuple[float, ...]:
    return np.cos(angle / 2), 0.0, np.sin(angle / 2), 0.0


def tumbling(model: Model) -> Model:
    """The crate with a smaller and lopsided inertia."""
    inertia = jnp.array([[0.02, 0.003, 0.001], [0.003, 0.03, 0.002], [0.001, 0.002, 0.012]])
    return model.replace(inertia=model.inertia.at[1].set(inertia))


LEAN = np.arctan(2)  # of the rod [rad]: where the paradox needs the least friction, 4/3
RODS = {"no solution": (2.0, 0.0), "two solutions": (2.0, 8.0), "no paradox": (0.5, 0.0)}
THROW = ((0, 0, 50.0), (1.0, 0.5, 2.0), (4.0, 3.0, -5.0))
LANDING = ((0, 0, 0.1), (0.5, 0.2, 0), (0.3, 0.2, 0.1), (0.9, 0.3, 0.2, np.sqrt(0.06)))


def cases(model: Model, dt: float) -> dict:
    """Name -> model, state, time step, and below which speed contacts of the events stick."""
    out = {
        "level": (
            surface(model, MU),
            place(model, crate=((0, 0, 0), (2.4, 1.8, 0)), ball=((0, 0, 0), (1.12, -0.84, 0))),
            dt,
        ),
        "dropped": (
            surface(model, 0.8),
            place(model, ball=((0, 0, 0.03),), crate=((0, 0, 0.03), (0, 0, 0), (0, 0, 0),
                  about_y(0.1)), table=((0, 0, 0.02),), rod=((0, 0, 0.02),)),
            dt,
        ),
    }  # fmt: skip
    for part in (0.99, 1.01):
        slope = surface(model, MU, tilt=np.arctan(part * MU))
        out[f"slope {part}"] = slope, place(model), dt
    for e in (0.5, 0.8):
        for part in (1.0, 0.5):
            start = place(model, ball=((0, 0, 0.2),))
            out[f"bounce {e} {part}"] = surface(model, MU, restitution=e), start, part * dt
    for part in (1.0, 0.5):
        out[f"flight {part}"] = tumbling(surface(model)), place(model, crate=THROW), part * dt
    for name, half in (("once", (0.01,) * 3), ("twice", HALF)):
        shapes = model.shape_size.at[model.topology.shape("twin")].set(jnp.array(half))
        start = place(model, crate=LANDING)
        out[f"said {name}"] = surface(model, MU).replace(shape_size=shapes), start, dt
    for name, (mu, spin) in RODS.items():
        lean = place(model, rod=((0, 0, REACH * np.sin(LEAN)), (-2.0, 0, 0), (0, spin, 0),
                                 about_y(-LEAN)))  # fmt: skip
        # only its centre turns about the tip: the tip slides at 2 m/s and keeps its height
        arm = REACH * np.array([-np.cos(LEAN), 0, -np.sin(LEAN)])
        qd = np.array(lean.qd)
        qd[18:21] -= np.cross([0, spin, 0], arm)
        out[name] = surface(model, mu), lean.replace(qd=jnp.asarray(qd)), dt
    slow = dict.fromkeys((f"slope {part}" for part in (0.99, 1.01)), 0.02)  # above mu g dt
    return {name: (*case, slow.get(name, 1e-3)) for name, case in out.items()}


@pytest.fixture(scope="module")
def yard(x64_module) -> Model:
    return build_yard()


@pytest.fixture(scope="module")
def results(yard):
    """Of a kind of step: name of a case -> its rollout, with q, qd, forces and what was told."""

    @cache
    def of(kind: str) -> dict:
        chosen, config = cases(yard, STEP[kind]), CONFIGS[kind]

        def told(info):
            return info.status + 0.0 if kind == "event_driven" else info.residual

        def record(sample):
            info = sample.info
            return sample.state.q, sample.state.qd, info.contact_force, told(info)

        def one(model, state, dt, slip):
            by = replace(config, dt=dt, **({"slip_speed": slip} if kind == "event_driven" else {}))
            return rollout(model, Limp(), state, by, STEPS[kind], None, record, EVERY, "fused")

        stacked = jax.tree.map(lambda *x: jnp.stack([jnp.asarray(y) for y in x]), *chosen.values())
        found = jax.device_get(quick_jit(jax.vmap(one))(*stacked))
        return {name: jax.tree.map(lambda x, k=k: x[k], found) for k, name in enumerate(chosen)}

    return of


def motion(result, body: str) -> tuple[np.ndarray, np.ndarray]:
    """(frames, 7) poses and (frames, 6) velocities of a body, the last state at their end."""
    k = BODIES.index(body)
    q = np.concatenate([result.record[0], result.state.q[None]])
    qd = np.concatenate([result.record[1], result.state.qd[None]])
    return q.reshape(-1, 4, 7)[:, k], qd.reshape(-1, 4, 6)[:, k]


def on_shape(model: Model, force: np.ndarray, name: str) -> np.ndarray:
    """(..., 3) sum of the forces on a shape."""
    mine = contact_slots(model.topology).shape_a == model.topology.shape(name)
    return np.asarray(force)[..., mine, :].sum(axis=-2)


# ---- impact and friction ---------------------------------------------------------------------


@by_both
@pytest.mark.parametrize("e", [0.5, 0.8])
def test_a_ball_bounces_to_e_squared_of_its_height(results, kind, e):
    """What is missing falls with the step: an impact comes up to a step early or late."""
    for part in (1.0, 0.5):
        z = motion(results(kind)[f"bounce {e} {part}"], "ball")[0][:, 2] - RADIUS
        down = np.flatnonzero(z < 0.02)[0]
        speed, dt = np.sqrt(2 * G * 0.2), part * STEP[kind]
        between = 0.5 * G * (EVERY * dt / 2) ** 2 / (e**2 * 0.2)  # the top is between two frames
        allowed = (2 + 2 / e) * G * dt / speed + between
        np.testing.assert_allclose(z[down:].max(), e**2 * 0.2, rtol=allowed)


@by_both
def test_a_sliding_crate_stops_where_coulomb_says(results, kind):
    q, qd = motion(results(kind)["level"], "crate")
    way = q[-1, :2] - q[0, :2]
    np.testing.assert_allclose(np.hypot(*way), 3.0**2 / (2 * MU * G), rtol=0.01)
    np.testing.assert_allclose(way[1] / way[0], 0.75, rtol=1e-6)
    np.testing.assert_allclose(qd[-1], 0, atol=1e-6)


@by_both
def test_a_crate_on_a_slope_begins_to_slide_at_the_angle_of_friction(results, kind):
    """It rests at 0.99 of the friction's tangent, and slides as it must at 1.01."""
    q, qd = motion(results(kind)["slope 0.99"], "crate")
    assert np.abs(q[-1, 0]) < 1e-6 and np.abs(qd[-1]).max() < 1e-9
    q, qd = motion(results(kind)["slope 1.01"], "crate")
    pull = 0.01 * MU * G * np.cos(np.arctan(1.01 * MU))
    time = results(kind)["slope 1.01"].state.time
    np.testing.assert_allclose(qd[-1, 0], pull * time, rtol=0.01)
    np.testing.assert_allclose(q[-1, 0], 0.5 * pull * time**2, rtol=0.01)


@by_both
def test_a_sliding_ball_rolls_on_with_five_sevenths_of_its_speed(results, kind):
    _, qd = motion(results(kind)["level"], "ball")
    rolling = 5 / 7 * np.array([1.12, -0.84])
    np.testing.assert_allclose(qd[-1, :2], rolling, rtol=2e-3)
    at = results(kind)["level"].state.q[3:7]
    spin = np.asarray(quat_to_matrix(at)) @ qd[-1, 3:]
    np.testing.assert_allclose(spin, [-rolling[1] / RADIUS, rolling[0] / RADIUS, 0], atol=0.02)


# ---- flight ----------------------------------------------------------------------------------


@by_both
def test_flight_keeps_momentum_and_loses_energy_by_the_order_of_the_step(results, kind):
    """Linear momentum to rounding. Energy and angular momentum are half as far off at half a step.
    Time stepping turns single bodies by second order, and loses no energy of the spin.
    """
    inertia = np.asarray(tumbling(build_yard()).inertia[1])
    off = {}
    frame = len(results(kind)["flight 1.0"].record[0]) // 2 - 1
    for part, at in ((1.0, frame), (0.5, 2 * frame)):
        q, qd = motion(results(kind)[f"flight {part}"], "crate")
        time = at * EVERY * part * STEP[kind]
        np.testing.assert_allclose(qd[at, :3], qd[0, :3] - [0, 0, G * time], rtol=1e-10)
        turn = np.asarray(quat_to_matrix(jnp.asarray(q[:, 3:])))
        momentum = np.einsum("tij,jk,tk->ti", turn, inertia, qd[:, 3:])
        spin = 0.5 * np.einsum("ti,ij,tj->t", qd[:, 3:], inertia, qd[:, 3:])
        energy = spin + MASS["crate"] * (0.5 * np.sum(qd[:, :3] ** 2, axis=1) + G * q[:, 2])
        parts = (energy[at] - energy[0], spin[at] - spin[0])
        off[part] = np.abs([*parts, *(momentum[at] - momentum[0])])
    ratio = off[1.0] / off[0.5]
    if kind == "time_stepping":
        assert off[1.0][1] < 1e-10 * spin[0]
    np.testing.assert_allclose(ratio[: 1 if kind == "time_stepping" else 2], 2, rtol=0.15)
    turning = np.linalg.norm(off[1.0][2:]) / np.linalg.norm(off[0.5][2:])
    np.testing.assert_allclose(turning, 4 if kind == "time_stepping" else 2, rtol=0.15)


# ---- the rod of Painleve ---------------------------------------------------------------------


@by_both
@pytest.mark.parametrize("name", RODS)
def test_the_rod_of_painleve_gets_a_bounded_answer(yard, results, kind, name):
    """Sliding with the tip ahead, mu > 4/3: no acceleration satisfies contact and friction, or two.

    Without a solution both steps stop the tip at once, an impact without a collision. Of two
    solutions the velocities take this one as well, the events the one that lifts off.
    """
    result = results(kind)[name]
    q, qd = motion(result, "rod")
    assert result.finite
    I = MASS["rod"] * REACH**2 / 3
    energy = 0.5 * np.sum(qd[:, :3] ** 2, axis=1) + G * q[:, 2]
    energy += 0.5 * qd[:, 3:] ** 2 @ np.array([1e-3 * I, I, I])
    assert energy.max() < energy[0] + 0.05  # [J]
    impulse = np.asarray(on_shape(yard, result.record[2], "tip-0.5"))[0] * STEP[kind]
    arm = -REACH * np.asarray(quat_to_matrix(jnp.asarray(q[:, 3:])))[1, :, 0]
    slip = (qd[1, :3] + np.cross(qd[1, 3:], arm))[0]
    told = np.asarray(result.record[3])
    if name == "no paradox":
        # 1 / m (1 + 3 cos^2 - 3 mu sin cos) times the force is the weight over the mass
        force = impulse / STEP[kind]
        np.testing.assert_allclose(force[[0, 2]], [0.5 * G, G], rtol=5e-3)
        assert slip < -1.5
    elif (name, kind) == ("two solutions", "event_driven"):
        np.testing.assert_array_equal(impulse, 0)
    else:
        assert 0.5 < impulse[0] < 2 and 0.4 < impulse[2] < 2  # [N s], where a step's weight is 0.01
        assert impulse[0] < 2 * impulse[2] * (1 + 1e-9)  # within the cone
        assert name == "two solutions" or np.abs(slip) < 0.05  # [m/s]: it was 2
    if kind == "time_stepping":
        assert told.max() < 0.01  # [m/s]
    else:
        assert np.isin(told, [Status.OK, Status.UNFINISHED]).all()


# ---- contacts said twice ---------------------------------------------------------------------


@by_both
def test_contacts_said_twice_change_no_force_and_no_motion(yard, results, kind):
    """From the landing on a corner until a face meets the ground, and at rest.

    In between a crate turns on four corners, and how these share its weight, which decides the
    torque of their friction, is left open by the laws.
    """
    once, twice = (results(kind)[f"said {name}"] for name in ("once", "twice"))
    frames = round(0.4 / (EVERY * STEP[kind]))
    speeds = [motion(result, "crate")[1][:frames] for result in (once, twice)]
    np.testing.assert_allclose(*speeds, rtol=0, atol=1e-6 * np.abs(speeds[0]).max())
    force = [
        on_shape(yard, result.record[2], "crate") + on_shape(yard, result.record[2], "twin")
        for result in (once, twice)
    ]
    assert np.abs(on_shape(yard, twice.record[2], "twin")).max() > 5  # they share it
    largest = np.abs(force[0][:frames]).max()
    assert largest > 2 * MASS["crate"] * G  # it has landed
    np.testing.assert_allclose(force[0][:frames], force[1][:frames], atol=1e-6 * largest)
    weight = [0, 0, MASS["crate"] * G]
    for f in force:
        np.testing.assert_allclose(f[-1], weight, atol=1e-6 * weight[2])


# ---- MuJoCo ----------------------------------------------------------------------------------


def by_mujoco(model: Model, state, seconds: float):
    """Poses and forces on shapes after so long; its cone as round and contacts as hard as ours."""
    mujoco = pytest.importorskip("mujoco")
    timestep = 5e-4
    mj = mujoco.MjModel.from_xml_string(to_mjcf(model, timestep))
    mj.opt.cone, mj.opt.impratio = mujoco.mjtCone.mjCONE_ELLIPTIC, 100.0
    mj.geom_solref[:, 0] = 10 * timestep  # the time constant of a contact
    data = mujoco.MjData(mj)
    index = mjcf_q_index(model.topology), mjcf_v_index(model.topology)
    data.qpos[index[0]] = state.q
    mujoco.mj_step(mj, data, round(0.2 / timestep))  # what lies sinks in as far as it will
    data.qvel[index[1]] += state.qd
    mujoco.mj_step(mj, data, round(seconds / timestep))
    mujoco.mj_forward(mj, data)
    force, one = dict.fromkeys(model.topology.shape_names, 0.0), np.zeros(6)
    for c in range(data.ncon):
        mujoco.mj_contactForce(mj, data, c, one)
        force[mj.geom(int(data.contact[c].geom.max())).name] += one[0]
    return data.qpos[index[0]].reshape(-1, 7), force


@by_both
def test_mujoco_slides_as_far(yard, results, kind):
    result, (model, state, *_) = results(kind)["level"], cases(yard, STEP[kind])["level"]
    q, _ = by_mujoco(model, state, float(result.state.time))
    begun, ours = state.q.reshape(-1, 7)[:2, :2], result.state.q.reshape(-1, 7)[:2, :2]
    distance = (np.linalg.norm(end - begun, axis=1) for end in (ours, q[:2, :2]))
    np.testing.assert_allclose(*distance, rtol=0.01)  # of the ball, which rolls on, and the crate


@by_both
def test_mujoco_rests_as_high_and_on_the_same_forces(yard, results, kind):
    result, (model, state, *_) = results(kind)["dropped"], cases(yard, STEP[kind])["dropped"]
    q, force = by_mujoco(model, state, 2.0)
    ours = result.state.q.reshape(-1, 7)[:, 2]
    np.testing.assert_allclose(ours, q[:, 2], rtol=0.01, atol=1e-4)
    np.testing.assert_allclose(ours, [HEIGHT[name] for name in BODIES], rtol=0, atol=1e-4)
    upright = np.abs(result.state.q.reshape(-1, 7)[1:3, 3])
    np.testing.assert_allclose(upright, 1, atol=1e-4)
    for name, theirs in force.items():
        if name not in ("ground", "twin"):
            got = on_shape(yard, result.record[2][-1], name)
            np.testing.assert_allclose(got[2], theirs, rtol=0.01, err_msg=name)
    # and by levers: the feet of the table carry it about its centre of mass
    levers = np.vstack([np.ones(3), FEET[:, 0], FEET[:, 1]])
    wanted = np.linalg.solve(levers, [MASS["table"] * G, 0, 0])
    feet = [on_shape(yard, result.record[2][-1], f"foot{k}")[2] for k in range(3)]
    np.testing.assert_allclose(feet, wanted, rtol=1e-4)
