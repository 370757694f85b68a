"""The command line: results on stdout, all else on stderr, exit codes, nothing half-done."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest

from jaxsim import compilation, threads
from optimize import session as cli_setup
from optimize.cli.main import main
from optimize.results.folder import RunFolder

ROOT = Path(__file__).resolve().parents[3]
# As in test_simulate: one compiled function serves both.
WALK = ["simulate", "walk_printed", "--seconds", "0.08", "--dt", "0.001", "--precision", "float32"]


@pytest.fixture(autouse=True, scope="module")
def _jax_has_started():
    """So that no command splits the CPU of the tests that follow."""
    jax.devices()


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "optimize.cli.main", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )


# ---- help and usage


def test_help_is_quick_and_names_the_commands():
    code = "import sys; from optimize.cli.main import main\ntry: main(['--help'])\n"
    code += "except SystemExit: sys.exit('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in ("simulate", "tune", "check", "view", "demo", "gallery"):
        assert name in done.stdout


@pytest.mark.parametrize(
    "name, words",
    [
        ("simulate", ("--set", "jaxsim list", "examples:", "--no-cache")),
        ("tune", ("--resume", "quick-rise", "examples:", "--tune PATH=LOWER:UPPER")),
        ("check", ("example:",)),
        ("view", ("examples:", "--at")),
        ("demo", ("example:",)),
        ("gallery", ("examples:", "rotating_platform", "dodge_tennis_ball")),
    ],
)
def test_every_command_has_help_with_examples(name, words, capsys):
    with pytest.raises(SystemExit) as stop:
        main([name, "--help"])
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in words)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["simulate", "walk", "--dt", "nan"], "--dt: got 'nan'; give a number from 1e-06"),
        (["simulate"], "required: NAME"),
        (["tune", "walk"], "required: --out"),
        (["tune", "walk", "--out", "x", "--population", "3"], "at least 4, got '3'"),
        (["tune", "walk", "--out", "x", "--tune", "model.mass"], "PATH=LOWER:UPPER"),
        (["tune", "walk", "--out", "x", "--tune", "a=1:inf"], "PATH=LOWER:UPPER"),
        (["tune", "walk", "--out", "x", "--gen", "3"], "unrecognized arguments: --gen"),
        (["dance"], "invalid choice: 'dance'"),
    ],
)
def test_wrong_usage_is_told(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["simulate", "box_stak"], "did you mean 'box_stack'?"),
        (["simulate", "none.toml"], "there is no such world file"),
        (["simulate", "box_stack", "--start", "prone"], "[character], key 'model': is missing"),
        (["simulate", "articulated_humna"], "did you mean 'articulated_human'?"),
        (["simulate", "walk", "--set", "character.friction=-1"], "key 'friction': is -1"),
        (["simulate", "walk", "--set", "friction"], "expected PATH=VALUE, as in"),
        (["simulate", "push", "--set", "gait.tme=1"], "no number 'gait.tme'"),
        (["simulate", "push", "--numbers", "none.json"], "none.json"),
        (["list", "pusch"], "no scenario, script or character of this name"),
        (["gallery", "--only", "stak", "--out", "OUT"], "no shipped scenario 'stak'"),
        (["simulate", "wlak"], "did you mean 'walk'?"),
        (["simulate", "walk", "--start", "flying"], "choose from standing, supine"),
        (["simulate", "walk", "--objective", "stnd"], "choose from: athletic-kip-up"),
        (["tune", "walk", "--objective", "stnd", "--out", "OUT"], "choose from: athletic"),
        (["tune", "walk", "--objective", "stand", "--out", "OUT"], "--free all"),
        (["tune", "walk", "--out", "OUT"], "a new run needs an objective"),
        (["tune", "--out", "OUT", "--resume"], "no run folder"),
        (["tune", "walk", "--out", "OUT", "--accept-changes"], "belongs to --resume"),
        (["view", "OUT"], "no folder"),
        (["check", "none.scl"], "there is no such file"),
    ],
)
def test_bad_input_is_told_without_a_traceback(arguments, message, tmp_path, capsys):
    out = tmp_path / "out"
    assert main([str(out) if word == "OUT" else word for word in arguments]) == 2
    shown = capsys.readouterr()
    assert message in shown.err and "Traceback" not in shown.err and not shown.out
    assert not out.exists()


def test_debug_shows_where_an_error_comes_from():
    with pytest.raises(KeyError):
        main(["simulate", "walk", "--objective", "stnd", "--debug"])


def test_no_gpu_is_told(capsys):
    if jax.default_backend() != "cpu":
        pytest.skip("there is a GPU")
    assert main([*WALK, "--device", "gpu"]) == 2
    assert "jaxsim-characters[cuda12]" in capsys.readouterr().err


# ---- check


def test_check(capsys):
    assert main(["check", "walk_printed", "sit_to_stand_arms"]) == 0
    shown = capsys.readouterr()
    assert "walk_printed: 2 phases, 23 numbers, 0 of them free" in shown.out
    assert "warning: hips: 120 deg is outside" in shown.err


def test_check_of_a_broken_script_shows_the_place(tmp_path):
    broken = tmp_path / "broken.scl"
    broken.write_text("{\n[hipz 20]\n}\n")
    done = command("check", broken)
    assert done.returncode == 2 and not done.stdout
    assert done.stderr.splitlines() == [
        f"{broken}:2:2: error: unknown joint 'hipz'",
        "[hipz 20]",
        " ^",
        "hint: did you mean 'hips'?",
    ]


# ---- simulate


def test_simulate_prints_json_alone(capsys, tmp_path):
    assert main([*WALK, "--json", "--out", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr()
    summary = json.loads(shown.out)
    assert summary["precision"] == "float32" and summary["finite"]
    assert {"compile_seconds", "run_seconds", "steps_per_second"} <= set(summary)
    assert "motion.html" in shown.err
    assert json.loads((tmp_path / "out" / "summary.json").read_text()) == summary
    assert not jax.config.jax_enable_x64


def test_simulate_prints_a_table(capsys):
    assert main(WALK) == 0
    shown = capsys.readouterr()
    assert "head height at the end [m]" in shown.out and "right_swing" in shown.out
    assert "--out DIR" in shown.err


def test_simulate_spares_a_tuning_run(tmp_path, capsys):
    (tmp_path / "config.json").write_text("{}")
    assert main([*WALK, "--out", str(tmp_path)]) == 2
    assert "tuning run" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


@pytest.mark.parametrize("finite, interrupted, code", [(True, False, 0), (False, False, 1)])
def test_exit_codes_of_simulate(finite, interrupted, code, monkeypatch, capsys):
    summary = {"finite": finite, "phases": [], "seconds": 1.0}
    done = SimpleNamespace(summary=summary, notes=("why",), interrupted=interrupted)
    monkeypatch.setattr("optimize.running.simulate.simulate", lambda *_, **__: done)
    assert main(["simulate", "walk"]) == code
    assert "note: why" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["--dt 5", "--dt 0.1", "--dt 1e-300", "--seconds 1e300"])
def test_numbers_out_of_range_are_refused_with_the_reason(words, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["simulate", "walk", *words.split()])
    option, number = words.split()
    error = capsys.readouterr().err
    assert f"argument {option}: got '{number}'; give a number from 1e-06 to" in error


def test_a_motion_that_means_nothing_is_an_error(monkeypatch, capsys):
    summary = {
        "finite": True,
        "phases": [],
        "seconds": 1.0,
        "failed_at": 0.3,
        "verdict": "too fast",
    }
    done = SimpleNamespace(summary=summary, notes=(), interrupted=False)
    monkeypatch.setattr("optimize.running.simulate.simulate", lambda *_, **__: done)
    assert main(["simulate", "walk"]) == 1
    assert "error: the motion diverges at 0.3 s: too fast" in capsys.readouterr().err


# ---- tune


class Tune:
    """Stands in for tune: notes its options, makes a folder, and returns what it was told to."""

    def __init__(self, interrupted=False, judged=True):
        self.interrupted, self.judged = interrupted, judged
        self.options = {}

    def __call__(self, scenario, objective, **options):
        self.options = {"scenario": scenario, "objective": objective, **options}
        config = dict(seed=0, dt=0.001, seconds=1.0, objective="stand", weights={"time": 1.0})
        folder = RunFolder.create(options["out"], {**config, "command": options["command"]}, "{}")
        folder.write_json("result.json", {"units": {"time": "s"}})
        (folder / RunFolder.BEST_SCRIPT).touch()
        score = {"name": "stand", "total": 2.5, "parts": {"time": 2.5}}
        return SimpleNamespace(
            folder=folder.path,
            evolution=SimpleNamespace(interrupted=self.interrupted),
            before=score if self.judged else None,
            after=score if self.judged else None,
            motion=object(),
            notes=("a note",),
        )


def test_tune_passes_its_options_on(tmp_path, monkeypatch, capsys):
    stub = Tune()
    monkeypatch.setattr("optimize.tuning.tune.tune", stub)
    arguments = ["tune", "walk", "--objective", "stand", "--out", str(tmp_path / "run")]
    arguments += ["--generations", "7", "--seed", "3", "--free", "all"]
    arguments += ["--tune", "model.friction=0.4:1.2", "--tune", "model.mass[0]=5:6:0.5"]
    arguments += ["--variant", "character.build=child", "pushes=90,120"]
    assert main(arguments) == 0
    assert stub.options["generations"] == 7 and stub.options["seed"] == 3
    assert "population" not in stub.options and stub.options["free"] == "all"
    assert stub.options["numbers"] == {
        "model.friction": (0.4, 1.2),
        "model.mass[0]": (5.0, 6.0, 0.5),
    }
    assert stub.options["variant"] == [
        {"set": {"character.build": "child"}, "pushes": (90.0, 120.0)}
    ]
    assert stub.options["command"][:3] == ["jaxsim", "tune", "walk"]
    shown = capsys.readouterr()
    assert "time" in shown.out and "2.5" in shown.out and "best.scl" in shown.out
    assert "page" not in shown.out  # which this folder does not have
    assert "a note" in shown.err


def test_an_interrupted_tune_tells_how_to_go_on(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("optimize.tuning.tune.tune", Tune(interrupted=True, judged=False))
    out = str(tmp_path / "run")
    assert main(["tune", "walk", "--objective", "stand", "--out", out]) == 130
    assert f"jaxsim tune --out {out} --resume" in capsys.readouterr().err


def test_a_tune_in_which_all_failed_has_its_exit_code(tmp_path, monkeypatch):
    monkeypatch.setattr("optimize.tuning.tune.tune", Tune(judged=False))
    assert main(["tune", "walk", "--objective", "stand", "--out", str(tmp_path / "run")]) == 1


def test_an_interrupt_before_anything_began(monkeypatch, tmp_path, capsys):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("optimize.tuning.tune.tune", interrupt)
    assert main(["tune", "walk", "--objective", "stand", "--out", str(tmp_path / "run")]) == 130
    assert "--resume" not in capsys.readouterr().err


# ---- view


@pytest.fixture
def browser(monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    return opened


def test_view_opens_the_page(tmp_path, browser, capsys):
    (tmp_path / "motion.html").write_text("")
    assert main(["view", str(tmp_path)]) == 0
    address = (tmp_path / "motion.html").resolve().as_uri()
    assert browser == [address] and capsys.readouterr().out.strip() == address


def test_view_without_a_display_prints(tmp_path, browser, monkeypatch, capsys):
    monkeypatch.delenv("DISPLAY")
    (tmp_path / "motion.html").write_text("")
    assert main(["view", str(tmp_path / "motion.html")]) == 0
    shown = capsys.readouterr()
    assert not browser and "motion.html" in shown.out and "no display" in shown.err


def test_view_of_a_folder_without_a_page(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("")
    assert main(["view", str(tmp_path)]) == 2
    assert "it holds notes.txt" in capsys.readouterr().err


# ---- demo


def test_demo_begins_anew_in_its_own_folder(tmp_path, monkeypatch, browser, capsys):
    stub = Tune()
    monkeypatch.setattr("optimize.tuning.tune.tune", stub)
    monkeypatch.delenv("CI", raising=False)
    out = tmp_path / "demo"
    for seed in ("0", "1"):
        assert main(["demo", "--out", str(out), "--seed", seed]) == 0
        (out / "motion.html").write_text("")
        (out / ".best.scl.123.tmp").write_text("")
    assert stub.options["seed"] == 1 and len(browser) == 2
    assert (stub.options["scenario"], stub.options["objective"]) == (
        "sit_to_stand_quick",
        "quick-rise",
    )
    assert "before" in capsys.readouterr().out
    monkeypatch.setenv("CI", "1")
    assert main(["demo", "--out", str(out)]) == 0 and len(browser) == 2


@pytest.mark.parametrize(
    "command, foreign",
    [(["jaxsim", "tune"], []), (["jaxsim", "demo"], ["thesis.txt"]), (None, ["thesis.txt"])],
)
def test_demo_refuses_a_folder_of_others(command, foreign, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("optimize.tuning.tune.tune", Tune())
    if command is not None:
        (tmp_path / "config.json").write_text(json.dumps({"command": command}))
    for name in foreign:
        (tmp_path / name).write_text("mine")
    before = sorted(tmp_path.iterdir())
    assert main(["demo", "--out", str(tmp_path)]) == 2
    assert "not of a demonstration" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


# ---- JAX's settings


def test_a_session_sets_precision_and_cache_and_puts_them_back(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    try:
        with cli_setup.session(None, "float64"):
            assert jax.config.jax_compilation_cache_dir == str(tmp_path / "jaxsim" / "xla")
            assert jax.numpy.zeros(()).dtype == "float64"
        assert jax.config.jax_compilation_cache_dir is None
        with cli_setup.session(None, "float32", cache=False):
            assert not jax.config.jax_enable_compilation_cache
            assert jax.numpy.zeros(()).dtype == "float32"
        assert jax.config.jax_enable_compilation_cache
    finally:
        jax.config.update("jax_compilation_cache_dir", before)


@pytest.mark.parametrize("words, after", [((), compilation.LONG), (("--quiet",), None)])
def test_quiet_commands_say_nothing_of_long_compilations(words, after, run_all_by):
    seen, before = [], compilation._notices.after
    run_all_by(lambda _: seen.append(compilation._notices.after) or 0)
    assert main(["check", "walk", *words]) == 0
    assert seen == [after] and compilation._notices.after == before


def test_a_cache_that_cannot_be_is_noted(monkeypatch, tmp_path):
    (tmp_path / "jaxsim").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    try:
        with cli_setup.session(None, None) as notes:
            assert any("cannot be made" in note and "anew" in note for note in notes)
    finally:
        jax.config.update("jax_compilation_cache_dir", before)


def test_a_cache_folder_of_the_users_is_kept(tmp_path):
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    try:
        with cli_setup.session(None, None):
            assert jax.config.jax_compilation_cache_dir == str(tmp_path)
    finally:
        jax.config.update("jax_compilation_cache_dir", before)


def test_a_session_that_comes_too_late_for_devices_says_so():
    with cli_setup.session(None, None, cpu_devices=jax.local_device_count() + 1) as notes:
        assert any("already started" in note for note in notes)


@pytest.mark.parametrize(
    ("given", "cores", "inside"), [(None, 2, "8"), (None, 64, None), ("1", 2, "1")]
)
def test_small_machines_get_more_threads(monkeypatch, given, cores, inside):
    """With two threads XLA can hang on batched factorisations."""
    monkeypatch.setattr(threads, "cores", lambda: cores)
    if given is None:
        monkeypatch.delenv("NPROC", raising=False)
    else:
        monkeypatch.setenv("NPROC", given)
    with cli_setup.session(None, None):
        assert os.environ.get("NPROC") == inside
    assert os.environ.get("NPROC") == given
