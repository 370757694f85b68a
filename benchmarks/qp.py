"""Small QPs: time, accuracy and failures of ours and of other solvers, on the same cores.

    python benchmarks/qp.py --peers PYTHON    with the solvers in the environment of that Python
    python benchmarks/qp.py --record          and append the tables to benchmarks/RESULTS.md
    python benchmarks/qp.py --problems FILE   those of a file: stacked fields of qp.QuadraticProgram
    python benchmarks/qp.py --abuse 100000    instead: infeasible, degenerate, badly scaled ones
    python benchmarks/qp.py --levels          instead: three levels of priority beside one QP
    python benchmarks/qp.py --warm            instead: iterations of problems that change by 0.3%
    python benchmarks/qp.py --tied            instead: one alone, two, and two that are tied
    python benchmarks/qp.py --quick           seconds, to see that it runs

Random problems in the shape of a per-step optimisation over velocities and contact forces, unless
a file has others. See benchmarks/README.md.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import fields
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
SHAPES = {  # velocities, with limits; forces, masked; equations, inequalities, tasks
    "limits": dict(nv=37, limits=31, nf=48, masked=8, e=6, k=12, m=130, weak=0.3),
    "free": dict(nv=37, limits=0, nf=32, masked=0, e=6, k=8, m=118, weak=0.3),
    "tiny": dict(nv=8, limits=4, nf=8, masked=1, e=3, k=4, m=32, weak=0.3),
    "tiny free": dict(nv=8, limits=0, nf=8, masked=1, e=3, k=4, m=32, weak=0.3),
}


def random_problems(count, nv, limits, nf, masked, e, k, m, weak, seed=0) -> dict[str, np.ndarray]:
    """Fields of qp.QuadraticProgram, float64, members first.

    Tasks on velocities weigh 0.03 to 30 each, on forces ``weak``; some point has room in all
    inequalities; two rows of G are idle. Without limits the velocities have no bounds; with some,
    all unknowns have, most of them infinite.
    """
    rng = np.random.default_rng(seed)
    n, tasks = nv + nf, m - limits - nf
    J, r = np.zeros((count, m, n)), np.zeros((count, m))
    weight = 10 ** rng.uniform(-1.5, 1.5, (count, tasks))
    J[:, :tasks, :nv] = rng.normal(size=(count, tasks, nv)) / np.sqrt(nv) * weight[..., None]
    r[:, :tasks] = rng.normal(size=(count, tasks)) * weight
    joints, forces = np.arange(limits), np.arange(nf)
    J[:, tasks + joints, nv - limits + joints] = 0.3
    r[:, tasks + joints] = 0.3 * rng.normal(size=(count, limits))
    J[:, tasks + limits + forces, nv + forces] = weak
    r[:, tasks + limits + forces] = 0.3 * weak * rng.normal(size=(count, nf))
    A = np.concatenate(
        [rng.normal(size=(count, e, nv)) / np.sqrt(nv), rng.normal(size=(count, e, nf))], axis=2
    )
    A[:, :, nv:] /= np.sqrt(nf)
    G = np.concatenate([rng.normal(size=(count, k, nv)), np.zeros((count, k, nf))], axis=2)
    x = np.concatenate([0.3 * rng.normal(size=(count, nv)), rng.exponential(size=(count, nf))], 1)
    lower, upper = np.full((count, n), -np.inf), np.full((count, n), np.inf)
    for bound, sign in ((lower, -1), (upper, 1)):
        bound[:, nv - limits : nv] = x[:, nv - limits : nv]
        bound[:, nv - limits : nv] += sign * rng.uniform(0.05, 1, (count, limits))
    lower[:, nv:] = 0
    J[:, :, n - masked :], A[:, :, n - masked :], x[:, n - masked :] = 0, 0, 0
    b = np.einsum("bij,bj->bi", A, x)
    h = np.einsum("bij,bj->bi", G, x) - rng.uniform(0.01, 0.5, (count, k))
    G[:, -2:], h[:, -2:] = 0, -1
    lower, upper = (x if limits else x[:, nv:] for x in (lower, upper))
    return dict(J=J, r=r, A=A, b=b, G=G, h=h, lower=lower, upper=upper)


def _small_problems(count: int, seed: int) -> dict[str, np.ndarray]:
    """With limits, and without: in turns."""
    return random_problems(count, **SHAPES["tiny free" if seed % 2 else "tiny"], seed=seed)


def best_of(run, repeats: int) -> float:
    """Seconds of the fastest."""
    seconds = []
    for _ in range(max(1, repeats)):
        begun = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


class Ours:
    """Our solver on one set of problems: times into ``say``, what it found into ``out``."""

    def __init__(self, p: dict, options):
        import jax
        import jax.numpy as jnp

        from jaxsim.solvers import qp

        self.jax, self.jnp, self.qp, self.options = jax, jnp, qp, options
        self.p, self.count = p, len(p["r"])
        self.weight = weight_of(p)

    def problem(self, dtype, batch: int | None = None):
        batch = batch or self.count
        reps = -(-batch // self.count)
        return self.qp.QuadraticProgram(
            **{
                f.name: self.jnp.asarray(
                    np.tile(self.p[f.name], (reps, *[1] * (self.p[f.name].ndim - 1)))[:batch],
                    dtype,
                )
                for f in fields(self.qp.QuadraticProgram)
                if f.name in self.p
            }
        )

    def reference(self):
        """x and d(weight . x)/dr in float64, much sharper than what is compared."""
        exact = self.problem(self.jnp.float64)
        run = self.jax.vmap(lambda p: self.qp.solve(p, tolerance=1e-11, iterations=60))
        solution = self.jax.jit(run)(exact)
        return solution, np.asarray(self.jax.jit(self.jax.vmap(self.slope(1e-11, 60)))(exact))

    def slope(self, tolerance=None, iterations=30):
        """Of one problem: d(weight . x)/dr, the problem solved on the way."""
        from dataclasses import replace

        def one(p):
            def number(r):
                x = self.qp.solve(replace(p, r=r), None, iterations, tolerance).x
                return self.jnp.sum(self.jnp.asarray(self.weight, x.dtype) * x)

            return self.jax.grad(number)(p.r)

        return one

    def measure(self, out: dict, say: dict):
        jax, jnp, qp = self.jax, self.jnp, self.qp
        from jaxsim.fused import fuse

        def solve(p):
            return qp.solve(p)

        runs = {
            "ours, XLA": (jax.vmap(solve), jnp.float32),
            "ours, XLA, float64": (jax.vmap(solve), jnp.float64),
            "ours, XLA, with gradient": (jax.vmap(self.slope()), jnp.float32),
        }
        if self.options.fused:
            runs["ours, fused"] = (fuse(solve), jnp.float32)
            runs["ours, fused, with gradient"] = (fuse(self.slope()), jnp.float32)
        for name, (run, dtype) in runs.items():
            say[name] = {"us": {}, "compile": 0.0}
            for batch in sorted({*self.options.batch, self.count}):
                given = self.problem(dtype, batch)
                begun = time.perf_counter()
                program = run if "fused" in name else jax.jit(run).lower(given).compile()
                if "fused" in name:
                    jax.block_until_ready(program(given))
                compiled = time.perf_counter() - begun
                found = jax.block_until_ready(program(given))
                again = lambda: jax.block_until_ready(program(given))  # noqa: E731, B023
                say[name]["us"][batch] = 1e6 * best_of(again, self.options.repeats) / batch
                # a fused kernel is there already when the next batch comes
                say[name]["compile"] = max(compiled, say[name]["compile"])
                if batch == self.count:
                    if "gradient" in name:
                        out[name] = np.asarray(found)
                    else:
                        out[name] = np.asarray(found.x, float)
                        say[name]["done"] = int((found.status == qp.SOLVED).sum())
                        say[name]["iterations"] = int(found.iterations.max())
                print(name, batch, f"{say[name]['us'][batch]:.0f} us", flush=True)


def weight_of(p: dict) -> np.ndarray:
    """(n,) of the number whose gradient is taken."""
    return np.cos(np.arange(p["J"].shape[2]))


def peers(p: dict, options) -> tuple[dict, dict]:
    """What the solvers of another environment found and took."""
    words = dict(
        cores=options.cores, batches=options.batch, repeats=options.repeats,
        weight=weight_of(p).tolist(),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "problems.npz", **p)
        command = [options.peers, str(ROOT / "benchmarks/_qp_peers.py"), folder, json.dumps(words)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        out = dict(np.load(Path(folder) / "peers.npz"))
    return out, json.loads(done.stdout.splitlines()[-1])


def rows(p: dict, options, out: dict, say: dict, exact, exact_gradient) -> list[list[str]]:
    """The table: errors are relative, of the first unknowns and of all."""
    nv, wanted = options.velocities, np.asarray(exact.x)
    known = np.asarray(exact.status) == 0
    table = []
    for name, found in say.items():
        if name == "versions":
            continue
        us = {int(k): v for k, v in found["us"].items()}
        cells = [f"{us[b]:.3g}" if b in us else "-" for b in options.batch]
        if us.keys() == {1}:  # a loop over members
            cells = [f"{us[1]:.3g}"] * len(cells)
        if "gradient" in name:
            g = out[name]
            if g.shape != exact_gradient.shape:  # that of q = -J^T r
                g = -np.einsum("bij,bj->bi", p["J"], g)
            off = [np.linalg.norm(g - exact_gradient, axis=1), exact_gradient]
            errors = [off[0] / np.linalg.norm(off[1], axis=1)]
        else:
            x = out[name]
            errors = [
                np.linalg.norm((x - wanted)[:, :k], axis=1) / np.linalg.norm(wanted[:, :k], axis=1)
                for k in (nv, None)
            ]
        bad = int((~np.isfinite(errors[0])).sum())
        errors = [np.where(np.isfinite(e), e, np.inf)[known] for e in errors]
        parts = [f"{np.median(e):.1e} / {np.quantile(e, 0.99):.1e}" for e in errors]
        done = f"{len(wanted) - found['done']}" if "done" in found else "-"
        parts += ["-"] * (2 - len(parts))
        table.append([name, *cells, f"{found.get('compile', 0):.1f}", *parts, done, str(bad)])
    return table


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "gpu"))
    parser.add_argument("--peers", metavar="PYTHON", help="that of an environment with the peers")
    parser.add_argument("--problems", metavar="FILE", help="npz with the stacked fields")
    parser.add_argument("--shape", choices=SHAPES, default="limits", help="of random problems")
    parser.add_argument("--members", type=int, default=256, help="different problems")
    parser.add_argument("--velocities", type=int, default=37, help="first unknowns, for the error")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 16, 256, 1024, 4096])
    parser.add_argument("--cores", type=int, nargs="+", default=[0], help="that all are pinned to")
    parser.add_argument("--abuse", type=int, metavar="COUNT", help="so many hard small ones")
    parser.add_argument("--levels", action="store_true", help="three of priority, beside one QP")
    parser.add_argument("--tied", action="store_true", help="two with joint equations, beside one")
    parser.add_argument("--warm", action="store_true", help="starts from a problem like it")
    parser.add_argument("--fused", action="store_true", help="ours fused, too")
    parser.add_argument("--repeats", type=int, default=5, help="the best of so many counts")
    parser.add_argument("--record", action="store_true", help="append to benchmarks/RESULTS.md")
    parser.add_argument("--quick", action="store_true", help="few members, a tiny shape")
    options = parser.parse_args(words)
    options.words = words
    if options.quick:
        options.members, options.shape, options.batch, options.repeats = 4, "tiny", [1, 4], 1
        options.fused = True
    return options


def _report(title: str, about: str, options, *parts: str) -> str:
    from benchmarks._machine import machine, today

    head = f"## {title}, {today()}, {machine()}"
    command = f"`{shlex.join(['python', 'benchmarks/qp.py', *options.words])}`"
    return "\n\n".join([head, about, command, *parts]) + "\n"


def main(words: list[str]) -> str:
    """Measure, print and return the tables."""
    options = parse(words)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, options.cores)  # before any thread of XLA's is made
    import jax

    from benchmarks._machine import commit, publish, table, versions
    from optimize.session import session

    if options.abuse:
        from benchmarks._qp_abuse import abuse

        with session(options.device, "float64"):
            found = abuse(_small_problems, options.abuse)
            titles = ["kind", "problems", "solved", "unfinished", "not finite", "infeasible",
                      "numbers not finite", "false"]  # fmt: skip
            about = f"commit {commit()}; {versions(jax)}; float32"
            text = _report("Hard small QPs", about, options, table(titles, found))
        return publish(text, options.record)
    if options.warm:
        from benchmarks._qp_warm import HEADER, warm

        with session(options.device, "float32"):
            found = warm(
                lambda seed: random_problems(options.members, **SHAPES[options.shape], seed=seed)
            )
            about = f"commit {commit()}; {versions(jax)}; random, shape {options.shape}, float32"
            text = _report("Warm starts of small QPs", about, options, table(HEADER, found))
        return publish(text, options.record)
    if options.problems:
        p = {k: v[: options.members] for k, v in np.load(options.problems).items()}
        source = options.problems
    else:
        p = random_problems(options.members, **SHAPES[options.shape])
        source = f"random, shape {options.shape}"
    if options.levels:
        from benchmarks._qp_levels import HEADER, levels

        with session(options.device, "float64", cache=False):
            found = levels(p, lambda run: best_of(run, options.repeats))
            about = f"commit {commit()}; {versions(jax)}; {source}, {len(p['r'])} members, XLA"
            text = _report("Levels of small QPs", about, options, table(HEADER, found))
        return publish(text, options.record)
    if options.tied:
        from benchmarks._qp_tied import HEADER, tied

        with session(options.device, "float64"):
            found = tied(p, options.repeats)
            about = (
                f"commit {commit()}; {versions(jax)}; {source}; float64, cores {options.cores}, XLA"
            )
            text = _report("Two small QPs that are tied", about, options, table(HEADER, found))
        return publish(text, options.record)
    out, say = {}, {}
    os.environ["DRJIT_CACHE_DIR"] = tempfile.mkdtemp()  # that of others hides what compiling takes
    with session(options.device, "float64", cache=False):
        ours = Ours(p, options)
        exact, exact_gradient = ours.reference()
        ours.measure(out, say)
        of_ours = versions(jax)
    also = ""
    if options.peers:
        found, told = peers(p, options)
        out.update(found)
        say.update(told)
        also = f"; peers: {told['versions']}"
    of_velocities = p["J"][:, :, : options.velocities]
    condition = np.linalg.cond(np.einsum("bij,bik->bjk", of_velocities, of_velocities))
    m, n, e, k = *p["J"].shape[1:], p["b"].shape[1], p["h"].shape[1]
    load = f"; load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    known = int((np.asarray(exact.status) == 0).sum())
    about = f"commit {commit()}; {of_ours}{also}; cores {options.cores}{load}"
    text = _report(
        "Small QPs", about, options,
        f"{source}: {n} unknowns, {m} tasks, {e} equations, {k} inequalities;"
        f" condition of the velocities' block {np.median(condition):.0e};"
        f" {len(p['r'])} members, {known} with a known solution; float32 unless it says"
        " otherwise, quadprog, ProxQP and Clarabel in float64",
        table(
            ["solver", *(f"us, batch {b}" for b in options.batch), "compile [s]",
             "error of velocities, median / p99", "of all", "not done", "not finite"],
            rows(p, options, out, say, exact, exact_gradient),
        ),
    )  # fmt: skip
    return publish(text, options.record)


if __name__ == "__main__":
    main(sys.argv[1:])
