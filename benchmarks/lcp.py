"""Solvers of contact problems: time and accuracy by the number of iterations.

    python benchmarks/lcp.py             the table; on a GPU as well: --device gpu
    python benchmarks/lcp.py --record    and append it to benchmarks/RESULTS.md
    python benchmarks/lcp.py --no-friction    unilateral rows alone, and these as a QP as well
    python benchmarks/lcp.py --quick     seconds, to see that it runs

Random poses of the 37-DOF body with 16 contact points, a normal and a tangent row each, pressed by
gravity. Errors are those of the accelerations that the forces make, relative to the exact ones of
each problem (Gauss-Seidel in float64 until it no longer changes). See benchmarks/README.md.
"""

import argparse
import shlex
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks._engines import interleaved
from benchmarks._machine import commit, machine, publish, table, today, versions
from jaxsim.characters.human import articulated_human
from jaxsim.constraints.acceleration import net_effects, point_rows, row_jacobian
from jaxsim.dynamics.articulated import articulated_body
from jaxsim.dynamics.kinematics import forward_kinematics, integrate
from jaxsim.fused import fuse
from jaxsim.model.state import neutral_q
from jaxsim.solvers import qp
from jaxsim.solvers.lcp import accelerated_gradient, gauss_seidel, unilateral, with_friction
from optimize.session import cores, session

POINTS = 16
SOLVERS = {"Gauss-Seidel": gauss_seidel, "accelerated gradient": accelerated_gradient}
ITERATIONS = {"Gauss-Seidel": (5, 10, 20, 50, 100), "accelerated gradient": (10, 30, 100, 300)}
QP_ITERATIONS = (6, 10)  # at most
EXACT = 20_000


def problems(batch: int):
    """K (batch, m, m), b (batch, m), and what a force does to qdd (batch, m, nv); float64."""
    model = articulated_human()
    top = model.topology
    links = [int(k) for k in np.linspace(0, top.n_links - 1, POINTS)]

    @jax.jit
    @jax.vmap
    def one(step, qd, local, slip):
        kin = forward_kinematics(
            model, integrate(model, jnp.asarray(neutral_q(model)), step, 1.0), qd
        )
        up = jnp.array([0.0, 0.0, 1.0])
        along = jnp.stack([jnp.cos(slip), jnp.sin(slip), 0 * slip], axis=-1)
        directions = jnp.stack([jnp.tile(up, (POINTS, 1)), along], axis=1).reshape(-1, 3)
        points = jnp.repeat(kin.link_pos[np.array(links)] + local, 2, axis=0)
        rows = point_rows(
            model, kin, np.repeat(links, 2).tolist(), points, directions, jnp.zeros(2 * POINTS)
        )
        J, effects = row_jacobian(model, kin, rows), net_effects(model, kin, rows)
        default = articulated_body(model, kin, 0 * qd)
        return J @ effects.T, J @ default + rows.drift, effects

    rng = np.random.default_rng(0)
    state = [0.3 * rng.normal(size=(batch, top.nv)) for _ in range(2)]
    local = 0.1 * rng.normal(size=(batch, POINTS, 3))
    return one(*state, local, rng.uniform(0, 2 * np.pi, (batch, POINTS)))


def as_tasks(K, b):
    """J (batch, m, m) and r of |J f - r|^2 / 2 = f K f / 2 + b f + constant; K must be positive
    definite, which a little more on the diagonal makes it."""
    m = K.shape[-1]
    more = 1e-12 * jnp.trace(K, axis1=1, axis2=2)[:, None, None] * jnp.eye(m)
    L = jnp.linalg.cholesky(K + more)
    r = jax.vmap(lambda L, b: jax.scipy.linalg.solve_triangular(L, -b, lower=True))(L, b)
    return jnp.swapaxes(L, 1, 2), r


def pushing(J, r, iterations: int):
    """Forces that only push, as a QP: solution with the field of ``lcp.LCPSolution`` used here."""
    m = r.shape[0]
    none, row = jnp.zeros((0, m), r.dtype), jnp.zeros(0, r.dtype)
    bounds = jnp.zeros(m, r.dtype), jnp.full(m, jnp.inf, r.dtype)
    return qp.solve(qp.QuadraticProgram(J, r, none, row, none, row, *bounds), None, iterations)


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "gpu"))
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=5, help="the best of so many counts")
    parser.add_argument("--least", type=float, default=0.2, help="seconds of each repeat")
    parser.add_argument("--no-friction", action="store_true", help="unilateral rows, QP as well")
    parser.add_argument("--record", action="store_true", help="append to benchmarks/RESULTS.md")
    parser.add_argument("--quick", action="store_true", help="few members, few iterations")
    options = parser.parse_args(words)
    options.words = words
    if options.quick:
        options.batch, options.repeats, options.least = 8, 1, 0.0
    return options


def main(words: list[str]) -> str:
    """Measure, print and return the table."""
    options = parse(words)
    frictionless = options.no_friction
    bounds = unilateral(2 * POINTS) if frictionless else with_friction(jnp.full(POINTS, 0.6))
    with session(options.device, "float64", cpu_devices=cores()):
        K, b, effects = problems(options.batch)
        exact = jax.jit(
            jax.vmap(
                partial(gauss_seidel, bounds=bounds, iterations=EXACT, early=True, tolerance=1e-10)
            )
        )(K, b)
        wanted = np.einsum("pm,pmv->pv", exact.force, effects)
        known = np.asarray(exact.status) == 0
        single = [x.astype(jnp.float32) for x in (K, b)]
        few = jax.tree.map(lambda x: x.astype(jnp.float32) if x.dtype == float else x, bounds)
        runs, found, counts = {}, {}, dict(ITERATIONS)
        if frictionless:
            tasks = [x.astype(jnp.float32) for x in as_tasks(K, b)]
            counts["QP, interior point"] = QP_ITERATIONS
        for name in counts:
            for count in counts[name][: 1 if options.quick else None]:
                if name in SOLVERS:
                    one, given = partial(SOLVERS[name], bounds=few, iterations=count), single
                else:
                    one, given = partial(pushing, iterations=count), tasks
                for backend, run in (("XLA", jax.jit(jax.vmap(one))), ("fused", fuse(one, (0, 0)))):
                    key = (name, count, backend)
                    runs[key] = lambda run=run, given=given: jax.block_until_ready(run(*given))
                    out = runs[key]()
                    force = np.asarray(out.x if hasattr(out, "x") else out.force, float)
                    off = np.einsum("pm,pmv->pv", force, effects) - wanted
                    size = np.linalg.norm(wanted, axis=1)
                    error = (np.linalg.norm(off, axis=1) / size)[known]
                    found[key] = np.median(error), np.quantile(error, 0.99)
                    print(*key, *found[key], flush=True)
        best = interleaved(runs, options.repeats, options.least)
        rows = [
            [
                name,
                str(count),
                *(f"{1e6 * best[name, count, be] / options.batch:.3g}" for be in ("XLA", "fused")),
                *(f"{x:.1e}" for x in found[name, count, "fused"]),
            ]
            for name in counts
            for count in counts[name]
            if (name, count, "XLA") in best
        ]
        text = "\n\n".join(
            [
                f"## Contact problems, {today()}, {machine()}",
                f"commit {commit()}; {versions(jax)}; float32, {2 * POINTS} rows, batch"
                f" {options.batch}, {int(known.sum())} of them with a known solution",
                f"`{shlex.join(['python', 'benchmarks/lcp.py', *options.words])}`",
                table(
                    ["solver", "iterations", "XLA [us]", "fused [us]", "error, median", "p99"], rows
                )
                + "\n",
            ]
        )
    return publish(text, options.record)


if __name__ == "__main__":
    main(sys.argv[1:])
