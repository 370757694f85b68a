"""What holds for the project as a whole: imports without side effects, extras, pins."""

import os
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("jaxsim", "controllers", "optimize")
OPTIONAL = (
    *("mujoco", "matplotlib", "PIL", "brax", "xarray", "zarr", "IPython", "pytest"),
    *("ezc3d", "pygltflib", "SALib", "sklearn", "moocore", "distributed", "gymnasium"),
)


def run_python(code: str, *args: str, **own: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new interpreter at the repository root, without JAX settings but ``own``."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("JAX_")}
    env |= {"JAX_PLATFORMS": "cpu", **own}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *args],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )


def assert_ok(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_every_module_imports_without_extras_and_leaves_jax_alone():
    """Without the optional libraries each module imports, or its error names the extra.

    No import changes the precision: jax_enable_x64 belongs to the user.
    """
    code = """
        import importlib, pkgutil, sys

        packages, optional = sys.argv[1].split(","), set(sys.argv[2].split(","))

        class Blocker:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in optional:
                    raise ModuleNotFoundError(f"No module named {name!r} (blocked)", name=name)

        sys.meta_path.insert(0, Blocker())

        import jax

        problems = []

        def load(name):
            try:
                importlib.import_module(name)
            except ImportError as error:
                if name in packages or "jaxsim-characters[" not in str(error):
                    problems.append(f"{name}: {error!r}")
            if jax.config.jax_enable_x64:
                problems.append(f"{name}: sets jax_enable_x64")
                jax.config.update("jax_enable_x64", False)

        for package in packages:
            load(package)
            if package in sys.modules:
                found = pkgutil.walk_packages(
                    sys.modules[package].__path__, package + ".", onerror=lambda name: None
                )
                for module in found:
                    if not module.name.endswith(".__main__"):
                        load(module.name)
        sys.exit("\\n".join(problems) or None)
    """
    assert_ok(run_python(code, ",".join(PACKAGES), ",".join(OPTIONAL)))


@pytest.mark.parametrize("package", PACKAGES)
def test_import_time_is_shown(package):
    """The time is printed, not judged: it depends on the machine (see it with pytest -s)."""
    code = """
        import importlib, sys, time

        import jax

        start = time.perf_counter()
        importlib.import_module(sys.argv[1])
        print(f"import {sys.argv[1]}: {time.perf_counter() - start:.2f} s beyond jax")
    """
    done = run_python(code, package)
    assert_ok(done)
    print(done.stdout)


def test_constraints_hold_no_address():
    text = (ROOT / "constraints.txt").read_text()
    assert "://" not in text
    assert "jax==" in text


def test_core_dependencies_are_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = {line.partition("==")[0] for line in (ROOT / "constraints.txt").read_text().split()}
    core = {requirement.partition(">=")[0] for requirement in project["dependencies"]}
    assert core <= pinned


def test_the_oldest_versions_are_those_that_are_allowed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    tried = ("viewer", "models", "mocap", "results", "compatibility", "cluster")
    named = [line for extra in tried for line in extras[extra]]
    wanted = [*project["dependencies"], *named]
    allowed = dict(re.match(r"([\w-]+)>=([\d.]+)", line).groups() for line in wanted)
    lines = (ROOT / "constraints-oldest.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert pins.keys() == allowed.keys()
    for name, version in allowed.items():
        assert (pins[name] + ".").startswith(version + "."), name


def test_command_line_shows_its_help():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, function = project["scripts"]["jaxsim"].split(":")
    code = f"""
        import sys

        from {module} import {function}

        sys.argv = ["jaxsim", "--help"]
        sys.exit({function}())
    """
    done = run_python(code)
    assert_ok(done)
    assert "demo" in done.stdout
