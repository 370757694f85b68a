"""Holds bear, break, move and are let go as mechanics says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.dynamics.effectors import effectors
from jaxsim.io.toml_table import WorldError
from jaxsim.model import ModelBuilder, ModelError, Shape, box, free, neutral_state, plane, slide
from jaxsim.model.drives import Drive
from jaxsim.synthesis.config import SynthesisConfig
from jaxsim.synthesis.holds import NO_HOLD, Holds, check_holds
from jaxsim.synthesis.scheme import PerStepOptimisation
from jaxsim.synthesis.tasks import Tasks, velocity_rows
from optimize.scenarios.find import scenario
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64_module")

MASS, LENGTH, G, DT = 8.0, 0.5, 9.81, 0.01
INERTIA = (0.4, 0.4, 0.05)
TURNED = (np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5))  # a capsule along y


def rod(drive: Drive | None = None):
    """A rod that hangs by its two upper ends from a bar, which a drive may move."""
    b = ModelBuilder()
    b.add_link(
        "rod", "world", mass=MASS, com=(0, 0, -LENGTH), inertia=INERTIA, joints=[free("rod")]
    )
    b.add_shape("rod", box((0.05, 0.1, LENGTH), name="rod", pos=(0, 0, -LENGTH)))
    b.add_shape("world", plane(name="ground", pos=(0, 0, -20.0)))
    on = "world"
    if drive is not None:
        on = "lift"
        b.add_link(
            on, "world", mass=1.0, inertia=(1, 1, 1), joints=[slide("up", (0, 0, 1), drive=drive)]
        )
    bar = Shape("capsule", (0.02, 0.02, 0.5), quat=TURNED, name="bar", group=0, mask=0)
    b.add_shape(on, bar)
    return b.build()


def hands(model):
    return effectors(
        model, [("left", "leftHand", "rod", (0, 1, 1)), ("right", "rightHand", "rod", (0, -1, 1))]
    )


def hang(model, steps, angle=0.0, until=np.inf, form="backward", height=0.0, asks=True, **numbers):
    """States before each step, and infos, of a rod without any motor; both hands ask for the bar
    until a time [s]."""
    points = hands(model)
    config = SynthesisConfig(form=form, dt=DT, sequence=4)
    holds = Holds.of(model, points, ("bar",), **numbers)
    scheme = PerStepOptimisation.of(model, points, config, holds)
    state = neutral_state(model)
    q = state.q.at[2].set(height).at[3].set(np.cos(angle / 2)).at[5].set(-np.sin(angle / 2))

    def tasks(time):
        def of(conf, at_v):
            nv = conf.v.shape[0]
            return Tasks(
                goals=velocity_rows(jnp.zeros((1, nv)), jnp.zeros(1), 1.0),
                relax=jnp.full(2, 1e-4),
                still=jnp.zeros(2),
                torque=jnp.ones(()),
                hold=jnp.where(time < until, jnp.zeros(2, int), NO_HOLD) if asks else None,
            )

        return of

    def run(model, state):
        def step(state, _):
            obs = scheme.observe(model, state)
            after, info = scheme.step(model, state, obs, tasks(state.time + DT / 2))
            place = points.positions(obs.conf.kin)
            return after, (obs.com, place, after.solver.grips, info)

        return jax.lax.scan(step, scheme.init(model, state), None, length=steps)[1]

    return quick_jit(run)(model, state.replace(q=q))


def test_what_hangs_at_rest_is_borne():
    _com, place, grips, info = hang(rod(), 20)
    assert (np.asarray(grips.held) == 0).all()
    np.testing.assert_allclose(info.force.sum(axis=1)[-1], [0, 0, MASS * G], atol=1e-6)
    np.testing.assert_allclose(place, np.broadcast_to(place[0], place.shape), atol=1e-12)
    assert info.root_residual.max() < 1e-6


@pytest.mark.slow
def test_a_free_swing_keeps_its_energy_over_ten_swings():
    """Released at 60 degrees; the central form. Amplitudes as heights of the centre of mass."""
    about = INERTIA[0] + MASS * LENGTH**2
    period = 2 * np.pi * np.sqrt(about / (MASS * G * LENGTH)) * 1.073  # K at 60 degrees
    com, place, _, info = hang(rod(), int(10.5 * period / DT), angle=np.pi / 3, form="central")
    z = np.asarray(com[:, 2])
    peaks = np.array([z[0], *(z[k] for k in range(1, len(z) - 1) if z[k - 1] < z[k] >= z[k + 1])])
    assert len(peaks) >= 20  # twice a swing
    energy = peaks - (-LENGTH)  # over the lowest point, in m g
    assert np.abs(energy / energy[0] - 1).max() < 0.01
    crossed = np.flatnonzero(np.diff(np.sign(np.asarray(com[:, 0]))) != 0)
    np.testing.assert_allclose(np.diff(crossed).mean() * DT, period / 2, rtol=5e-3)
    assert np.abs(np.asarray(place) - place[0]).max() < 1e-9
    assert info.root_residual.max() < 1e-6


@pytest.mark.slow
def test_a_hold_breaks_under_more_than_it_bears():
    strong = hang(rod(), 10, strength=1.01 * MASS * G)[2]
    assert not np.asarray(strong.broken).any()
    com, _, weak, _ = hang(rod(), 40, strength=0.99 * MASS * G)
    assert np.asarray(weak.broken).all() and (np.asarray(weak.held[1:]) == NO_HOLD).all()
    np.testing.assert_allclose(np.diff(np.asarray(com[2:, 2]), n=2) / DT**2, -G, rtol=1e-6)


def test_who_lets_go_falls():
    com, _, grips, info = hang(rod(), 40, until=0.1)
    held = np.asarray(grips.held)
    assert (held[:10] == 0).all() and (held[10:] == NO_HOLD).all()
    assert np.abs(info.force[10:]).max() == 0
    np.testing.assert_allclose(np.diff(np.asarray(com[11:, 2]), n=2) / DT**2, -G, rtol=1e-6)


def test_a_bar_that_is_driven_up_bears_more():
    _com, _, _, info = hang(rod(Drive(acceleration=3.0, begin=0.05)), 40)
    np.testing.assert_allclose(info.force.sum(axis=1)[20:, 2], MASS * (G + 3.0), rtol=1e-6)


def test_one_who_falls_past_a_bar_catches_it_in_a_step():
    """The impulse is the momentum lost; the speed is told."""
    com, place, grips, info = hang(rod(), 60, height=0.2, reach=0.05)
    held = np.asarray(grips.held)[:, 0]
    at = int(np.flatnonzero(held == 0)[0])
    falls = -np.diff(np.asarray(com[:, 2]))[at - 1] / DT
    assert at > 10 and falls > 1.5
    np.testing.assert_allclose(info.grip_speed[at], falls, rtol=1e-6)
    assert np.asarray(info.grip_speed)[np.arange(60) != at].max() == 0
    impulse = DT * float(info.force[at].sum(axis=0)[2])
    np.testing.assert_allclose(impulse, MASS * (falls + G * DT), rtol=1e-4)
    assert np.abs(np.asarray(place[at + 1 :]) - place[at + 1]).max() < 1e-9


def test_holds_that_cannot_be_are_told():
    model = rod()
    points = hands(model)
    with pytest.raises(ModelError, match="hold 'rod' is a box; holds are sphere or capsule"):
        Holds.of(model, points, ("rod",))
    with pytest.raises(ModelError, match="strength is -1"):
        check_holds(model, points, Holds.of(model, points, ("bar",), strength=-1.0))


def test_tasks_that_say_nothing_of_holds_hold_nothing():
    com, _, grips, info = hang(rod(), 20, asks=False)
    assert (np.asarray(grips.held[1:]) == NO_HOLD).all() and info.grip_speed.max() == 0
    np.testing.assert_allclose(np.diff(np.asarray(com[2:, 2]), n=2) / DT**2, -G, rtol=1e-6)


def test_a_bar_of_a_scenario_is_where_it_is_carried(tmp_path):
    """And what cannot be is told: on what, by which scheme."""
    text = """
    [world]
    scheme = "per_step_optimisation"
    [character]
    model = "articulated_human"
    [controller]
    name = "balance"
    [[driven]]
    name = "cabin"
    shape = "box"
    half_extents = [1, 1, 0.1]
    pos = [0, 0, -0.1]
    [[driven.motion]]
    slide = [0, 0, 1]
    acceleration = 2
    [[hold]]
    name = "bar"
    pos = [0.3, 0, 2]
    half_length = 0.5
    on = "cabin"
    strength = 900
    """
    path = tmp_path / "cabin.toml"
    path.write_text(text)
    made = scenario(path)
    holds, model = made.scheme.holds, made.model
    assert holds.strength.tolist() == [900.0] and sum(holds.hands) == 2
    now = holds.at(model, jnp.asarray(1.0), DT, holds.begin(model.mass.dtype))
    np.testing.assert_allclose(now.pos, [[0.3, 0.0, -0.1 + 2 + 1.0]], atol=1e-6)
    np.testing.assert_allclose(now.end_pos - now.pos, [[0, 0, 2.01 * DT]], atol=1e-6)
    path.write_text(text.replace('on = "cabin"', 'on = "cabni"'))
    with pytest.raises(WorldError, match=r"\[\[hold\]\] 'bar', key 'on'.*did you mean 'cabin'"):
        scenario(path)
    path.write_text(text.replace("per_step_optimisation", "time_stepping"))
    with pytest.raises(WorldError, match="only per-step optimisation holds on to these"):
        scenario(path)
