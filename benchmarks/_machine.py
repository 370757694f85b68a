"""Where and when a measurement was taken."""

import datetime
import platform
import subprocess
from functools import cache
from pathlib import Path

import jax

from optimize.session import cores

ROOT = Path(__file__).resolve().parents[1]


def machine() -> str:
    """The processor and its cores, and the accelerators that JAX uses."""
    parts = [f"{_processor()}, {cores()} cores"]
    if jax.default_backend() != "cpu":
        devices = jax.devices()
        parts.append(f"{len(devices)} x {devices[0].device_kind}")
    return "; ".join(parts)


def _processor() -> str:
    """Its name; with family and model, for some machines name many processors alike."""
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return platform.processor() or platform.machine()
    pairs = (line.partition(":") for line in path.read_text().split("\n\n")[0].splitlines())
    facts = {key.strip(): value.strip() for key, _, value in pairs}
    name = facts.get("model name", platform.machine())
    if "cpu family" in facts:
        name += f" (family {facts['cpu family']}, model {facts.get('model')})"
    return name


def versions(*modules) -> str:
    """Python's and each module's version."""
    names = [f"{module.__name__} {module.__version__}" for module in modules]
    return ", ".join([f"Python {platform.python_version()}", *names])


@cache
def commit() -> str:
    """The short hash of the checkout when this module was loaded, with a word if files differed
    from it; "unknown" without."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short", "HEAD") + (" with changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


commit()  # now, for files may change while a benchmark runs


def today() -> str:
    """The date, as 2030-12-31."""
    return datetime.date.today().isoformat()


def table(header: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown, its columns aligned."""
    width = [max(len(row[k]) for row in [header, *rows]) for k in range(len(header))]
    lines = [header, ["-" * w for w in width], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(line, width)) + " |" for line in lines
    )


def si(value: float) -> str:
    """Three digits and a letter: 12300 -> 12.3 k."""
    for factor, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g}{letter}"
    return f"{value:.3g}"


def publish(text: str, record: bool) -> str:
    """Print a section, append it to RESULTS.md where asked for, and return it."""
    print(f"\n{text}")
    if record:
        with open(Path(__file__).with_name("RESULTS.md"), "a") as file:
            file.write(f"\n{text}")
    return text
