"""Simulating a script: what is measured, kept and written, and what bad input is told."""

import json
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers import Controller
from controllers.scl.ast import ContactCondition, Number, Transition
from controllers.scl.controller import ScriptController
from controllers.scl.errors import ScriptError, Span
from controllers.scl.registered import cause_text
from jaxsim.characters.planar_human import planar_human
from jaxsim.io.motion_file import load_motion
from jaxsim.io.toml_table import WorldError
from jaxsim.model import ModelError
from jaxsim.simulation.pushes import push
from jaxsim.simulation.records import Control
from jaxsim.viewer import read_page
from optimize.running.recording import PIECE, shapes_of
from optimize.running.simulate import frame_step, simulate, write_simulation
from optimize.running.summary import json_safe, phases_of, steps_taken, table
from optimize.scenarios.find import default_start, scenario

# As in the docstring of simulate: one compiled function serves both.
OPTIONS = dict(seconds=0.08, dt=0.001)


@pytest.fixture(scope="module")
def short():
    """A short walk: too short for a change of phase."""
    return simulate("walk_printed", **OPTIONS)


@pytest.fixture(scope="module")
def long():
    """More than one piece of the same, judged."""
    return simulate("walk_printed", seconds=0.4, dt=0.001, objective=None)


# ---- what is measured and kept


def test_summary_tells_what_happened(short):
    summary = short.summary
    json.dumps(summary, allow_nan=False)
    # the head stays above 1.8 m, so this counts the steps that were measured: 80, no more
    assert summary["time_above_1.8"] == pytest.approx(0.08, rel=1e-5)
    assert summary["final_head_height"] == pytest.approx(short.motion.heights["head"][-1])
    assert summary["max_head_height"] >= short.motion.heights["head"].max() - 1e-6
    assert summary["total_mass"] == pytest.approx(89.49, rel=1e-5)
    assert summary["finite"] and summary["failed_at"] is None
    assert 0 <= summary["largest_penetration"] < 1e-3
    assert 0 <= summary["largest_residual"] < 0.1
    assert 0 < summary["max_torque_ratio"] <= 1 + 1e-6
    assert summary["airborne_time"] == 0 and summary["energy"] > 0
    assert set(summary["contacts_at_end"]) <= set(short.motion.link_names)
    assert (summary["scenario"], summary["start"]) == ("walk_printed", "standing")
    assert summary["character"] == "planar_human" and "chair_height" not in summary
    assert (summary["seconds"], summary["dt"], summary["precision"]) == (0.08, 0.001, "float32")
    assert summary["compile_seconds"] >= 0 and summary["steps_per_second"] > 0
    assert summary["versions"]["jax"]


def test_motion_begins_and_ends_where_it_was_asked_to(short):
    motion = short.motion
    np.testing.assert_allclose(motion.time, np.arange(11) * 0.008, atol=1e-12)
    assert motion.planar and motion.link_names[0] == "head"
    assert motion.joint_names[:3] == ("neckTop", "neckBottom", "waist")
    assert set(motion.heights) == {"head", "pelvis", "com"}
    assert (np.abs(motion.torque) <= motion.torque_limit * (1 + 1e-6)).all()
    np.testing.assert_allclose(np.linalg.norm(motion.link_quat, axis=-1), 1.0, atol=1e-5)
    weight = 89.49 * 9.81
    assert motion.contact_force[1:, :, 2].sum(axis=1).mean() == pytest.approx(weight, rel=0.5)
    assert motion.phase_events == ((0.0, "right_swing", "start"),)


def test_a_longer_motion_continues_the_short_one(short, long):
    assert long.motion.n_frames == 51 > PIECE
    np.testing.assert_array_equal(long.motion.q[:11], short.motion.q)
    assert long.summary["time_above_1.8"] == pytest.approx(0.4, rel=1e-5)
    assert long.summary["energy"] > short.summary["energy"]
    assert [phase["name"] for phase in long.summary["phases"]] == ["right_swing"]


def test_shapes_are_the_models():
    shapes = shapes_of(planar_human(0.5))
    assert [s.kind for s in shapes[-2:]] == ["plane", "box"]
    assert shapes[-1].link == -1 and shapes[-1].size == pytest.approx((0.2, 0.25, 0.25))
    head = shapes[0]
    assert head.kind == "tapered_capsule" and head.size == pytest.approx((0.13, 0.11, 0.175))


def test_a_motion_that_breaks_down_says_when(short):
    broken = simulate("walk_printed", set={"model.gravity": -1e38}, **OPTIONS)
    assert not broken.summary["finite"]
    assert broken.summary["failed_at"] == broken.motion.time[-1] == pytest.approx(0.008)
    assert broken.summary["final_head_height"] is None
    assert any("diverges at 0.0080 s: values are not finite" in n for n in broken.notes)
    json.dumps(broken.summary, allow_nan=False)
    assert "values are not finite" in broken.summary["verdict"]
    assert "diverges at [s]" in table(broken.summary)


def test_an_interrupt_keeps_what_is_simulated(monkeypatch, long):
    count = []

    def interrupt(controller, before, memory):
        count.append(before)
        if len(count) == 2:
            raise KeyboardInterrupt
        return []

    monkeypatch.setattr(ScriptController, "phase_changes", interrupt)
    broken = simulate("walk_printed", seconds=0.4, dt=0.001)
    assert broken.interrupted and broken.summary["interrupted"]
    assert broken.motion.n_frames == PIECE
    np.testing.assert_array_equal(broken.motion.q, long.motion.q[:PIECE])
    assert any("interrupted at 0.1920 s" in note for note in broken.notes)


def test_phases_and_what_ended_them():
    frames = SimpleNamespace(phase=np.zeros(3, int))
    phases = phases_of(scenario("walk_printed"), frames, [(0.5, 1), (1.2, 0)], 0.0, 2.0)
    assert [(p["name"], p["start"], p["end"]) for p in phases] == [
        ("right_swing", 0.0, 0.5),
        ("left_swing", 0.5, 1.2),
        ("right_swing", 1.2, 2.0),
    ]
    causes = [phase["ended_by"] for phase in phases]
    assert causes == ["contact rightFoot after 0.3 s", "contact leftFoot after 0.3 s", None]


def test_steps_are_counted_from_contacts():
    """A foot that is off for long, and comes down elsewhere; not one that trembles or hops."""
    time = 0.01 * np.arange(100)
    on, place = np.ones((100, 2), bool), np.zeros((100, 2, 3))
    on[20:40, 0], place[30:, 0, 0] = False, 0.3  # a step of the left foot
    on[50:52, 1] = False  # trembles
    on[60:80, 1] = False  # comes down where it was
    frames = SimpleNamespace(touching=on, link_com=place)
    assert steps_taken([[0], [1]], frames, time) == 1
    assert steps_taken([[], []], frames, time) is None


def test_cause_texts():
    time = Number(0.6, False, 0, Span(0, 3, 1, 1))
    feet = ("leftFoot", "rightFoot")
    assert cause_text(Transition(time, None, 1)) == "after 0.6 s"
    contact = ContactCondition("touching", "all", feet)
    assert cause_text(Transition(None, contact, 1)) == "contact leftFoot and rightFoot"
    contact = ContactCondition("lost", "any", feet)
    assert cause_text(Transition(None, contact, 1)) == "contact lost leftFoot or rightFoot"
    assert cause_text(None) == ""


def test_json_safe():
    value = {"a": np.float32(np.nan), "b": [jnp.inf, True, 3], "c": np.array([0.1, 2.0])}
    assert json_safe(value) == {"a": None, "b": [None, True, 3], "c": [0.1, 2.0]}


@pytest.mark.parametrize(
    "seconds, dt, every",
    [(5, 0.00025, 32), (2, 0.00025, 32), (0.08, 0.001, 8), (0.05, 0.001, 10), (0.001, 0.001, 1)],
)
def test_frames_divide_the_steps(seconds, dt, every):
    assert frame_step(seconds, dt, 120.0) == every
    assert round(seconds / dt) % every == 0


def test_a_prime_number_of_steps_is_rounded_up():
    assert frame_step(0.097, 0.001, 120.0) == 8


# ---- scenes


def test_the_start_follows_from_the_name():
    names = ("sit_to_stand_arms", "walk", "kip_up_printed", "prone_to_stand_printed", "dance")
    starts = [default_start(name) for name in names]
    assert starts == ["sitting", "standing", "supine", "prone", None]


def test_sitting_brings_a_chair_and_says_so():
    made = scenario("sit_to_stand")
    assert (made.conditions["start"], made.conditions["chair_height"]) == ("sitting", 0.45)
    assert "chair" in made.model.topology.shape_names
    assert any("0.45" in note for note in made.notes)


def test_a_chair_is_left_out_where_nobody_sits():
    made = scenario("kip_up_printed", {"character.chair_height": 0.45})
    assert made.conditions["start"] == "supine"
    assert "chair" not in made.model.topology.shape_names
    assert any("no chair" in note for note in made.notes)


def test_a_state_may_be_given(short):
    state = scenario("walk_printed").state
    again = simulate("walk_printed", start=state, **OPTIONS)
    assert again.summary["start"] == "given"
    np.testing.assert_array_equal(again.motion.q, short.motion.q)
    with pytest.raises(ModelError, match="qd"):
        simulate("walk_printed", start=state.replace(qd=jnp.zeros(2)))


def test_numbers_of_a_script_go_by_label(short):
    label = "right_swing: vf trunk by leftKnee force x"
    moved = simulate("walk_printed", set={f"controller.{label}": 0.0}, **OPTIONS)
    assert moved.scenario.get(label) == 0.0
    assert np.abs(moved.motion.q - short.motion.q).max() > 1e-5


# ---- a controller of the user's own


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Swing(Controller):
    """Torques that swing."""

    size: jax.Array

    def init(self, model, state, obs):
        return None

    def update(self, memory, model, state, obs, dt):
        torque = (
            jnp.zeros(model.topology.nv)
            .at[model.topology.actuated_dofs]
            .set(self.size * jnp.sin(6.0 * state.time))
        )
        return None, Control(torque=torque, damping=jnp.zeros_like(torque))


def test_a_controller_of_ones_own_is_simulated_and_shown():
    human = planar_human()
    run = simulate(human, Swing(jnp.asarray(2.0)), seconds=0.08, dt=0.001)
    assert run.summary["finite"] and run.motion.phase_names == ()
    assert np.abs(run.motion.torque).max() == pytest.approx(2 * np.sin(0.48), rel=0.02)
    inline = run._repr_html_()
    assert inline.startswith("<iframe srcdoc=") and "&lt;!DOCTYPE html&gt;" in inline
    pushed = simulate(
        human,
        Swing(jnp.asarray(2.0)),
        seconds=0.08,
        dt=0.001,
        forces=push(human, "trunk", (200.0, 0.0, 0.0)),
    )
    assert pushed.summary["distance"] > run.summary["distance"]


# ---- files


def test_write_simulation(short, tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "summary.json").write_text("old")
    written = write_simulation(tmp_path, short)
    names = {"motion.html", "trajectory.npz", "summary.json", "script.scl"}
    names |= {"plots.png", "filmstrip.png"}
    assert {file.name for file in written.files} == names and not written.missing
    assert {file.name for file in tmp_path.iterdir()} == {*names, "notes.txt"}
    assert json.loads((tmp_path / "summary.json").read_text()) == short.summary
    assert (tmp_path / "script.scl").read_text() == short.scenario.files["script.scl"]
    np.testing.assert_array_equal(load_motion(tmp_path / "trajectory.npz").q, short.motion.q)
    page = read_page(tmp_path / "motion.html")
    assert page["title"] == "walk_printed: 0.08 s, start: standing"
    assert page["phases"][0] == "right_swing"
    text = (tmp_path / "motion.html").read_text()
    assert "head height at the end [m]" in text and "src=" not in text


def test_without_matplotlib_the_rest_is_written(short, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    written = write_simulation(tmp_path / "new", short, with_files=False)
    names = {file.name for file in (tmp_path / "new").iterdir()}
    assert names == {"motion.html", "trajectory.npz", "summary.json"}
    assert len(written.missing) == 2
    assert all("jaxsim-characters[viewer]" in line for line in written.missing)


# ---- bad input


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(seconds=float("nan")), "seconds is nan"),
        (dict(seconds=-1.0), "seconds is -1"),
        (dict(dt=0.0), "dt is 0"),
        (dict(dt=1.0, seconds=0.5), "longer than the whole simulation"),
        (dict(dt=0.1), r"dt is 0.1 s; give a number from 1e-06 to 0.05 s"),
        (dict(dt=1e-300), r"steps, 5 s in 1e-300 s, is|dt is 1e-300 s; give a number from 1e-06"),
        (dict(seconds=1e300), "seconds is 1e[+]300 s; give a number from"),
        (dict(seconds=1e5), "the number of frames, 120 a second, is 12500001"),
        (dict(fps=0.0), "fps is 0"),
        (dict(set={"character.friction": float("nan")}), "key 'friction': is nan"),
        (
            dict(set={"character.chair_height": -0.1}, start="sitting"),
            "key 'chair_height': is -0.1",
        ),
        (dict(set={"character.frictn": 1.0}), "did you mean 'friction'"),
        (dict(start="flying"), "choose from standing, supine, prone, sitting"),
        (dict(objective="stnd"), "choose from: athletic-kip-up"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises((ValueError, KeyError), match=message):
        simulate("walk_printed", **options)


def test_a_model_by_itself_needs_what_its_start_needs():
    with pytest.raises(ModelError, match="needs a chair"):
        simulate(planar_human(), start="sitting")


def test_bad_scripts_are_named(tmp_path):
    with pytest.raises(WorldError, match="did you mean 'walk'"):
        simulate("wlak")
    with pytest.raises(ScriptError, match="there is no such file"):
        simulate(tmp_path / "none.scl")
    broken = tmp_path / "broken.scl"
    broken.write_text("{\n[hipz 20]\n}\n")
    with pytest.raises(ScriptError, match=r"broken\.scl:2:2"):
        simulate(broken)


@pytest.mark.slow
def test_phases_and_motion_are_the_same_on_both_backends():
    """Past two changes of phase; the frames of the fused one come out of its branches."""
    with jax.enable_x64(True):
        ours, reference = (
            simulate("kip_up", seconds=0.6, dt=0.001, backend=backend)
            for backend in ("fused", "xla")
        )
    assert len(reference.summary["phases"]) == 3
    assert ours.summary["phases"] == reference.summary["phases"]
    np.testing.assert_array_equal(ours.motion.phase, reference.motion.phase)
    np.testing.assert_allclose(ours.motion.q, reference.motion.q, rtol=0, atol=1e-9)
    np.testing.assert_allclose(ours.motion.torque, reference.motion.torque, rtol=0, atol=1e-6)
    assert ours.summary["energy"] == pytest.approx(reference.summary["energy"], rel=1e-9)
