"""The first half hour on a GPU as one script: does it run, is it right, how fast, how much memory.

    python benchmarks/gpu.py                     ends within eight minutes
    python benchmarks/gpu.py --out FOLDER        writes table.md and table.json there as it goes
    python benchmarks/gpu.py --record            and append the tables to benchmarks/RESULTS.md
    python benchmarks/gpu.py --quick             few steps and parts, to see that it runs
    python benchmarks/gpu.py --only "speed human" mjx --at-most 200      those parts alone

Where JAX finds no GPU it says so and uses the CPU. Each part runs in a process of its own, which
may fail, hang or be ended by the driver: its rows until then, and what it last said, are kept, and
the next part begins. See benchmarks/README.md.
"""

import argparse
import json
import os
import queue
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

from benchmarks._machine import ROOT, commit, machine, publish, table, today

BATCHES = (33, 4096, 65536, 1)  # the most telling first, for a part may run out of time
BUDGET = 460.0  # [s] of all parts
AT_MOST = {"fused": 110.0, "xla": 60.0}  # [s] of a part; the assembler takes a minute for a human
# JAX takes three quarters of a GPU; a kernel of QPs needs 36 GiB of an H100 beside it.
MEMORY = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.4"}


def _speed(work: str, backend: str) -> tuple[str, dict]:
    return "speed", {"work": work, "backend": backend}


# The most telling first: what no time is left for is left out.
PLAN = (
    ("versions", {}),
    ("accuracy", {}),
    *(_speed("planar", "fused"), _speed("planar", "xla")),
    *(_speed("gradient", "fused"), _speed("human", "fused"), _speed("human", "xla")),
    *(_speed("qp", "fused"), _speed("qp", "xla"), _speed("synthesis", "fused")),
    *(("mjx", {}), ("warp", {})),
    *(_speed("gradient", "xla"), _speed("synthesis", "xla")),
)
QUICK = PLAN[:4]


def part(name: str, options: dict, seconds: float) -> tuple[list[dict], str]:
    """The rows of a part, and what went wrong, if anything did."""
    command = [sys.executable, "-m", "benchmarks._gpu_parts", name, json.dumps(options)]
    child = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**MEMORY, **os.environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None and child.stderr is not None
    lines: queue.Queue = queue.Queue()
    complaints: list[str] = []
    readers = (
        lambda: [lines.put(line) for line in child.stdout] + [lines.put(None)],
        lambda: complaints.extend(child.stderr),
    )
    threads = [threading.Thread(target=reader, daemon=True) for reader in readers]
    for thread in threads:
        thread.start()
    rows, ends, trouble = [], time.monotonic() + seconds, ""
    while True:
        try:
            line = lines.get(timeout=max(ends - time.monotonic(), 0.01))
        except queue.Empty:
            trouble = f"ended after {seconds:.0f} s"
            child.kill()
            break
        if line is None:
            break
        if line.startswith("{"):
            rows.append(json.loads(line))
            print("  ", *(f"{key}: {value};" for key, value in rows[-1].items()), flush=True)
    if child.wait() and not trouble:
        threads[1].join(5)
        last = [line.strip() for line in complaints if line.strip()][-1:]
        trouble = f"exit status {child.returncode}: {''.join(last)[:300]}"
    return rows, trouble


def label(name: str, options: dict) -> str:
    return " ".join([name, *options.values()])


def agreement(folder: Path) -> list[dict]:
    """How far the results of the two back ends are apart, of the largest number."""
    found = []
    for ours in sorted(folder.glob("*-fused.npy")):
        theirs = ours.with_name(ours.name.replace("-fused", "-xla"))
        if theirs.exists():
            x, y = np.load(ours), np.load(theirs)
            apart = np.abs(x - y) / max(float(np.abs(y).max()), 1e-30)
            row = {"work": ours.name.removesuffix("-fused.npy"), "members": str(len(x))}
            row |= {"median": f"{np.median(apart):.1e}", "largest": f"{apart.max():.1e}"}
            found.append(row)
    return found


def tables(results: dict[str, list[dict]]) -> list[str]:
    """The rows of each kind as a table in Markdown."""
    out = []
    for title, rows in results.items():
        if title == "speed":
            rows = sorted(rows, key=lambda row: (row["work"], row["batch"]))
        keys = list(dict.fromkeys(key for row in rows for key in row))
        if rows:
            cells = [[str(row.get(key, "-")) for key in keys] for row in rows]
            out += [f"### {title}", table(keys, cells)]
    return out


def chosen(plan, only: list[str] | None):
    """The parts whose labels begin with one of ``only``, in its order; all of them if None."""
    if only is None:
        return plan
    named = [[part for part in plan if label(*part).startswith(word)] for word in only]
    if not all(named):
        labels = ", ".join(label(*part) for part in plan)
        raise SystemExit(f"no part is called {only[named.index([])]!r}; there are {labels}")
    return [PLAN[0], *(part for parts in named for part in parts)]


def kind_of(name: str) -> str:
    return {"mjx": "speed", "warp": "speed"}.get(name, name)


def devices() -> str:
    """The platform that JAX chooses, asked in another process, which gives it back."""
    code = "import jax; print(jax.default_backend())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return done.stdout.strip() or f"none: {done.stderr.strip()[-300:]}"


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "gpu"))
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "gpu")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds of all parts")
    parser.add_argument("--record", action="store_true", help="append to benchmarks/RESULTS.md")
    parser.add_argument("--quick", action="store_true", help="few steps, small batches")
    parser.add_argument("--only", nargs="+", metavar="PART", help="parts whose label begins so")
    parser.add_argument("--at-most", type=float, help="seconds of a part, whatever it is")
    parser.add_argument("--batch", type=int, nargs="+", help="characters at once")
    return parser.parse_args(words)


def main(words: list[str]) -> str:
    """Run all parts, and write what there is after each; returns the tables."""
    options, begun = parse(words), time.monotonic()
    if options.device == "cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
    platform = devices()
    if platform != "gpu":
        print(f"JAX finds no GPU; it runs on: {platform}. This is the CPU.", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    for old in options.out.glob("*.npy"):
        old.unlink()
    quick = options.quick or platform != "gpu"
    given = {"quick": quick, "folder": str(options.out), "steps": 4 if quick else 100}
    usual = (5,) if options.quick else (33, 1) if quick else BATCHES
    given["batch"] = options.batch or usual
    plan = chosen(QUICK if options.quick else PLAN, options.only)
    results: dict[str, list[dict]] = {"agreement": [], "trouble": []}
    text = ""
    for name, more in plan:
        left = options.budget - (time.monotonic() - begun)
        print(f"{label(name, more)} ({left:.0f} s left)", flush=True)
        if left < 10:
            rows, trouble = [], "no time was left"
        else:
            most = min(left, options.at_most or AT_MOST[more.get("backend", "fused")])
            rows, trouble = part(name, {**given, **more}, most)
        results.setdefault(kind_of(name), []).extend(rows)
        if trouble:
            print(f"   {trouble}", flush=True)
            results["trouble"].append({"part": label(name, more), "what": trouble})
        results["agreement"] = agreement(options.out)
        text = written(results, words, options.out, time.monotonic() - begun)
    return publish(text, options.record)


def written(results: dict, words: list[str], folder: Path, seconds: float) -> str:
    """The tables so far, which are in ``folder`` as well."""
    what = next((row["is"] for row in results.get("versions", ())), "?")
    head = [
        f"## First minutes on {what}, {today()}, {machine()}",
        f"commit {commit()}; {seconds:.0f} s; float32",
        f"`{shlex.join(['python', 'benchmarks/gpu.py', *words])}`",
    ]
    text = "\n\n".join([*head, *tables(results)]) + "\n"
    (folder / "table.md").write_text(text)
    (folder / "table.json").write_text(json.dumps(results, indent=1))
    return text


if __name__ == "__main__":
    main(sys.argv[1:])
