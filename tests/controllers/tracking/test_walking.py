"""Our own walks followed: on and on, in commanded directions, pushed with steps, on slopes, and as
a batch of which each member differs in all that may."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.tracking.outside import turns
from controllers.tracking.parts import parts
from controllers.tracking.reference import Reference, loop_reference, reference
from controllers.tracking.topple_free import ToppleFree
from docs.generate.motions import FOLDER
from jaxsim import Measure, TimeStepping, ball_joint_human, final, rollout
from jaxsim.fused import fuse
from jaxsim.io.toml_table import WorldError
from jaxsim.mocap.read import read_clip
from jaxsim.mocap.retarget import retarget
from jaxsim.mocap.schemes import detect_scheme
from jaxsim.mocap.stance import label_stance
from jaxsim.mocap.stance_file import write_stance
from jaxsim.model import ModelError
from optimize import scenario
from tests.compiling import quick_jit

SCHEME = TimeStepping(dt=0.002, contacts=16)
CYCLE, SPEED = 1.2, 0.45  # of the walk [s], [m/s]


def follows(model, name: str) -> Reference:
    motion = retarget(read_clip(FOLDER / f"{name}.bvh").repeated(3), model)
    return loop_reference(
        model, reference(model, motion.q, motion.rate, motion.stance, parts(model))
    )


@pytest.fixture(scope="module")
def body():
    model = ball_joint_human()
    return model, follows(model, "walk")


# ---- a reference that goes on


def test_a_loop_goes_on(body):
    model, ref = body
    np.testing.assert_allclose(ref.moves, [SPEED * CYCLE, 0.0, 0.0], atol=2e-3)
    now, later = (ref.at(model, jnp.asarray(t)) for t in (0.3, 0.3 + 5 * CYCLE))
    for name in ("com", "sole"):
        moved = getattr(later, name) - getattr(now, name)
        np.testing.assert_allclose(moved, np.broadcast_to(5 * ref.moves, moved.shape), atol=2e-5)
    for name in ("qd", "momentum", "com_velocity", "trunk", "stance"):
        np.testing.assert_allclose(getattr(later, name), getattr(now, name), atol=3e-4)
    # over the seam it moves on as it is told
    seam = [ref.at(model, jnp.asarray(CYCLE + dt)).com for dt in (-0.01, 0.01)]
    speed = (seam[1] - seam[0]) / 0.02
    np.testing.assert_allclose(speed, ref.at(model, jnp.asarray(CYCLE)).com_velocity, atol=0.05)


def test_a_clip_that_does_not_come_back_does_not_loop(body):
    model, _ = body
    motion = retarget(read_clip(FOLDER / "walk.bvh").take(slice(0, 31)).repeated(3), model)
    found = reference(model, motion.q, motion.rate, motion.stance, parts(model))
    with pytest.raises(ModelError, match=r"last pose is .* from the first one.*leave out loop"):
        loop_reference(model, found)


def test_turns_are_reached_evenly():
    model = ball_joint_human()
    found = turns(model, [(1.0, 0.5), (3.0, 1.5), (4.0, 1.5)])
    for time, angle, rate in ((0.0, 0.5, 0.0), (2.0, 1.0, 0.5), (3.5, 1.5, 0.0), (9.0, 1.5, 0.0)):
        np.testing.assert_allclose(found.at(jnp.asarray(time)), (angle, rate), atol=1e-6)
    for bad in ([(1.0, 0.0), (1.0, 1.0)], [(0.0, np.nan)], []):
        with pytest.raises(ModelError, match="times that rise"):
            turns(model, bad)


def test_a_scenario_takes_labels_turns_and_a_drift(body, tmp_path):
    clip = read_clip(FOLDER / "walk_in_place.bvh")
    labels = label_stance(clip, detect_scheme(clip.joint_names))
    stands = labels.stands.copy()
    stands[:, 0] = True
    write_stance(tmp_path / "stance.toml", clip, replace(labels, stands=stands))
    (tmp_path / "clip.bvh").write_bytes((FOLDER / "walk_in_place.bvh").read_bytes())
    text = """
        [character]
        model = "ball_joint_human"
        [controller]
        name = "topple_free"
        clip = "clip.bvh"
        stance = "stance.toml"
        loop = true
        drift = [0.1, 0.2, 0.0]
        [[controller.turn]]
        time = 1.0
        heading_deg = 90
        """
    file = tmp_path / "mine.toml"
    file.write_text(text)
    made = scenario(file).controller
    assert made.reference.stance[:, 0].all() and not made.reference.stance[:, 1].all()
    np.testing.assert_allclose(made.drift, [0.1, 0.2, 0.0], atol=1e-7)
    np.testing.assert_allclose(made.facing(jnp.zeros(()))[0], np.pi / 2, atol=1e-6)
    ghost, _ = made.reference_poses(body[0], np.array([0.0, 2.0]))
    still, _ = replace(made, drift=None).reference_poses(body[0], np.array([0.0, 2.0]))
    np.testing.assert_allclose((ghost - still)[:, 0], [[0.0, 0.0, 0.0], [0.2, 0.4, 0.0]], atol=1e-6)
    for line in ("time = 1.0", 'stance = "stance.toml"'):
        file.write_text(text.replace(line, line.split("=")[0] + '= "none"'))
        with pytest.raises(WorldError, match=r"mine.toml"):
            scenario(file)


# ---- what is walked


@pytest.mark.slow
def test_a_walk_turns_to_commanded_directions():
    """It goes where the reference faces, within 8 degrees, as fast as that."""
    made = scenario("walk_directions", {"world.dt": 0.002, "world.contacts": 16})
    times = np.array([0.5, 1.7, 6.4, 7.6, 13.5, 14.7])

    def one(seed):
        def place(carry, sample):
            now = jnp.abs(times - sample.state.time)[:, None] < 0.0011
            return jnp.where(now, sample.obs.com, carry)

        measures = {"places": Measure(jnp.zeros((len(times), 3)), place)}
        state = made.state.replace(qd=made.state.qd + 0.0 * seed)
        return rollout(
            made.model, made.controller, state, made.scheme, 7400, measures, backend="xla"
        ).measures["places"]

    found = np.asarray(fuse(one)(jnp.zeros(1)))[0]
    ways = (found[1::2] - found[::2])[:, :2]
    angles = np.degrees(np.arctan2(ways[:, 1], ways[:, 0]))
    np.testing.assert_allclose(angles, [0.0, 90.0, -45.0], atol=8.0)
    np.testing.assert_allclose(np.linalg.norm(ways, axis=1) / CYCLE, SPEED, atol=0.08)
    assert (found[:, 2] > 0.85).all()


DIRECTIONS = np.stack([np.cos(np.arange(8) * np.pi / 4), np.sin(np.arange(8) * np.pi / 4)], axis=1)


@pytest.mark.slow
def test_steps_carry_pushes_and_drift_in_all_directions():
    """One clip in place: 100 N for 1 s from eight sides, and eight directions commanded."""
    made = scenario("simbicon", {"world.dt": 0.002, "world.contacts": 16})
    given = replace(made.controller, drift=jnp.zeros(3))

    def one(force, drift, rate):
        controller = replace(given, drift=drift).set("step_d", rate)
        forces = replace(made.forces, force=force[None], duration=jnp.ones(1))
        return rollout(
            made.model, controller, made.state, made.scheme, 3500,
            {"end": final(lambda s: s.obs.com, jnp.zeros(3))}, pushes=forces, backend="xla",
        ).measures["end"]  # fmt: skip

    flat = np.concatenate([DIRECTIONS, np.zeros((8, 1))], axis=1)
    force = np.concatenate([100.0 * flat, 0.0 * flat])
    drift = np.concatenate([0.0 * flat, 0.3 * flat])
    rate = np.repeat([400.0, 140.0], 8)
    found = np.asarray(fuse(one)(*(jnp.asarray(x, jnp.float32) for x in (force, drift, rate))))
    assert (found[:8, 2] > 0.8).sum() >= 7
    assert (found[8:, 2] > 0.8).all()
    ways = found[8:, :2] - found[8:, :2].mean(axis=0)
    assert ((ways * DIRECTIONS).sum(axis=1) > 0.5).all()  # [m]


@pytest.mark.slow
def test_slopes_are_walked():
    made = scenario("slope", {"world.dt": 0.002})

    def one(pos, quat):
        model = made.model
        model = model.replace(
            shape_pos=model.shape_pos.at[-1].set(pos), shape_quat=model.shape_quat.at[-1].set(quat)
        )
        return rollout(
            model, made.controller, made.state, made.scheme, 3500,
            {"end": final(lambda s: s.obs.com, jnp.zeros(3))}, backend="xla",
        ).measures["end"]  # fmt: skip

    a = np.radians([-10.0, 8.0])
    zero = 0 * a
    pos = [0.5 + 6 * np.cos(a) + 0.1 * np.sin(a), zero, 6 * np.sin(a) - 0.1 * np.cos(a)]
    quat = [np.cos(a / 2), zero, -np.sin(a / 2), zero]
    args = (jnp.asarray(np.stack(x, axis=1), jnp.float32) for x in (pos, quat))
    found = np.asarray(fuse(one)(*args))
    high = found[:, 2] - (found[:, 0] - 0.5) * np.tan(a)  # over the slope
    assert (found[:, 0] > 2.4).all() and (high > 0.8).all()


# ---- batches and gradients


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
def test_members_may_differ_in_all():
    """Clip, start, threshold, gain, friction and mass: each is what it is alone, in float64."""
    model = ball_joint_human()
    assert model.mass.dtype == jnp.float64
    walks = [follows(model, name) for name in ("walk", "walk_in_place")]
    refs = jax.tree.map(lambda *x: jnp.stack([x[0], x[1], x[0]]), *walks)
    given = ToppleFree.of(model, walks[0], steps=True)

    def one(ref, begin, least, gain, friction, mass):
        own = model.replace(mass=model.mass * mass, friction=model.friction * friction)
        controller = replace(given, reference=ref, begin=begin)
        controller = controller.set("help_from", least).set("com_p", gain)
        state = ref.state(own, begin)
        return rollout(own, controller, state, SCHEME, 100, backend="xla").state.q

    numbers = [[0.0, 0.4, 0.8], [20.0, 5.0, 40.0], [450.0, 300.0, 600.0], [1.0, 0.4, 0.7],
               [1.0, 1.1, 0.9]]  # fmt: skip
    args = [jnp.array(x) for x in numbers]
    together = np.asarray(fuse(one)(refs, *args))
    alone = quick_jit(one)
    for k in range(3):
        single = alone(jax.tree.map(lambda x, k=k: x[k], refs), *(x[k] for x in args))
        np.testing.assert_allclose(together[k], single, atol=1e-8)
    assert np.abs(np.diff(together, axis=0)).max(axis=1).min() > 1e-3


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
def test_derivatives_are_those_of_differences():
    """Of 0.2 s on both feet by gains, where stance does not change."""
    model = ball_joint_human()
    ref = follows(model, "reach")
    given = ToppleFree.of(model, ref, begin=0.6)
    names = ("com_p", "trunk_p", "gravity", "pose_p")
    start = ref.state(model, 0.5)  # behind, so that there is something to do

    def where(numbers):
        controller = given
        for name, value in zip(names, numbers):
            controller = controller.set(name, value)
        end = rollout(model, controller, start, SCHEME, 100, backend="xla")
        return jnp.sum(end.state.qd**2)

    both = quick_jit(lambda at, way: jax.jvp(where, (at,), (way,)))
    at = jnp.array([450.0, 460.0, 1.0, 0.65])
    steps = (1e-2, 1e-3, 1e-4, 1e-4)  # wide for weak ones: the solver leaves 1e-12 of residual
    for k, way in enumerate(jnp.eye(4)):
        slope = float(both(at, way)[1])
        step = steps[k] * float(at[k])
        up, down = (float(both(at + sign * step * way, way)[0]) for sign in (1.0, -1.0))
        assert slope == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=0.0), names[k]
