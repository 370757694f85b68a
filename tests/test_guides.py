"""Guides and explanations do what they say: their blocks of code run, in order, in a folder of
their own.

A block with ``title="NAME"`` is the file NAME, and is loaded where it is TOML. A block of Python is
executed; of ``console`` each line is a command, made small by ``SMALL``. ``<!-- slow -->`` before a
block leaves it to the slow tests.
"""

import inspect
import re
import shlex
import sys
import tomllib
import webbrowser
from pathlib import Path

import jax
import pytest

from optimize.cli.main import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*sorted((ROOT / "docs" / "guides").glob("*.md")), ROOT / "README.md"]
BLOCK = re.compile(
    r'^(<!-- slow -->\n)?```(python|toml|console|text)(?: title="([^"]+)")?\n(.*?)^```$',
    re.M | re.S,
)
# Explanations show fragments: what stands before them, by page.
EXPLAINED = [
    *sorted((ROOT / "docs" / "explanation").glob("*.md")),
    ROOT / "docs" / "reference" / "models.md",
]
BEFORE = {
    "collision": """
        from jaxsim import ModelBuilder, ball, capsule, free, neutral_state, plane
        from jaxsim.collision.contacts import overlapping_pairs

        builder = ModelBuilder()
        for name, parent in (("upper", "world"), ("lower", "upper"), ("foot", "lower")):
            joint = free("root") if parent == "world" else ball(name)
            inertia = (0.01, 0.01, 0.01)
            builder.add_link(name, parent, mass=1.0, inertia=inertia, joints=[joint])
            builder.add_shape(name, capsule(0.1, 0.2))
        builder.add_shape("world", plane())
        """,
    "gradients": """
        import jax
        import jax.numpy as jnp

        import jaxsim
        from controllers import PoseController, load_script, script_controller
        from jaxsim import TimeStepping, planar_human, rollout, start

        human, numbers = planar_human(), jnp.asarray(1.0)
        script = load_script("sit_to_stand", human)
        controller = script_controller(script, human)


        def loss(size):
            state = start(human, "standing")
            scheme = TimeStepping(dt=0.001, derivative="implicit")
            result = rollout(human, PoseController(size * state.q), state, scheme, 2)
            return result.state.q[1], result
        """,
    "motion_capture": """
        import shutil
        from pathlib import Path

        import optimize

        shipped = Path(optimize.__file__).parent / "scenarios" / "shipped"
        shutil.copy(shipped / "motions" / "walk.bvh", "walk.bvh")
        """,
    "qp": """
        import jax
        import jax.numpy as jnp

        from jaxsim.solvers import qp, qp_levels

        (J0, r0), (J1, r1) = (jnp.eye(2)[:1], jnp.ones(1)), (jnp.eye(2), jnp.zeros(2))
        A, b, G, h = jnp.ones((1, 2)), jnp.ones(1), jnp.eye(2), jnp.zeros(2)
        lower, upper = jnp.full(2, -1.0), jnp.full(2, 2.0)
        one = qp.QuadraticProgram(J1, r1, A, b, G, h, lower, upper)
        problems = next_ones = jax.tree.map(lambda x: jnp.stack([x, x]), one)
        names = ["one", "two"]
        """,
    "synthesis": """
        from optimize import scenario

        made = scenario("push")
        model, config, pushes = made.model, made.scheme, made.forces
        effectors, units = config.effectors, config.unit
        state = config.init(model, made.state)
        seen = config.observe(model, state)
        memory = made.controller.init(model, state, seen)
        _, tasks = made.controller.update(memory, model, state, seen, config.dt)
        """,
}
SMALL = {
    "simulate": ["--seconds", "0.05", "--dt", "0.001", "--quiet"],  # as blocks of Python say
    "tune": ["--generations", "1", "--population", "4", "--seconds", "0.02", "--quiet"],
    "sweep": ["--seconds", "0.02", "--set", "scheme.dt=0.001", "--quiet"],
    "view": ["--quiet"],
    "env": ["--seconds", "0.1", "--members", "4", "--quiet"],
    "learn": ["--updates", "1", "--option", "members=8", "--option", "length=4",
              "--option", "hidden=[8]", "--set", "world.seconds=0.1",
              "--set", "environment.seconds=0.2", "--quiet"],
}  # fmt: skip


def blocks(page: Path) -> list[tuple[str, ...]]:
    return BLOCK.findall(page.read_text("utf-8"))


def small(command: str) -> list[str]:
    """The arguments of a command, with fewer and shorter steps."""
    program, *arguments = shlex.split(command)
    assert program == "jaxsim"
    if "--resume" in arguments:
        return [*arguments[: arguments.index("--generations")], "--generations", "2", "--quiet"]
    options = SMALL.get(arguments[0], [])
    if any("scene" in a or a in ("push", "wave.toml") for a in arguments):
        options = ["--seconds", "0.05", "--quiet"]
    if arguments[0] == "tune":
        options = [*options, "--final-dt", "0.001"]
    return [*arguments, *options]


def run(kind: str, title: str, text: str, names: dict) -> None:
    if title:
        Path(title).write_text(text, "utf-8")
        if title.endswith(".toml"):
            tomllib.loads(text)
        if title.endswith(".py"):
            compile(text, title, "exec")
    elif kind == "python":
        exec(compile(text, "block", "exec"), names)
    elif kind == "console":
        for line in text.splitlines():
            assert main(small(line)) == 0, line


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Blocks run here; no browser opens, and modules of the folder are forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(webbrowser, "open", lambda *_, **__: True)
    jax.devices()  # so that no command splits the CPU of the tests that follow
    before, wide = set(sys.modules), jax.config.read("jax_enable_x64")
    yield tmp_path
    for name in set(sys.modules) - before:
        if (tmp_path / f"{name}.py").exists():
            del sys.modules[name]
    jax.config.update("jax_enable_x64", wide)


def through(page: Path, slow: bool) -> None:
    names: dict = {"__name__": page.stem}
    exec(
        compile(
            inspect.cleandoc(BEFORE.get(page.stem, "") if page in EXPLAINED else ""),
            "before",
            "exec",
        ),
        names,
    )
    for late, kind, title, text in blocks(page):
        if slow or not late:
            run(kind, title, text, names)


@pytest.mark.parametrize("page", [*PAGES, *EXPLAINED], ids=lambda page: page.stem)
def test_a_page(page, folder, capsys):
    through(page, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [p for p in PAGES if any(b[0] for b in blocks(p))], ids=lambda p: p.stem
)
def test_a_page_with_its_slow_blocks(page, folder, capsys):
    through(page, slow=True)


def test_the_table_of_joints_is_that_of_the_model(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "generate"))
    import joints

    text = joints.PAGE.read_text("utf-8")
    assert joints.renewed(text) == text, "make it anew: python docs/generate/joints.py"


def test_the_tables_of_keys_are_those_of_the_reader(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "generate"))
    import keys

    text = keys.PAGE.read_text("utf-8")
    assert keys.renewed(text) == text, "make them anew: python docs/generate/keys.py"
