"""What a test force costs by ABM deltas, by ABM again, and with the mass matrix.

    python benchmarks/constraint_matrix.py             the tables
    python benchmarks/constraint_matrix.py --record    and append them to benchmarks/RESULTS.md
    python benchmarks/constraint_matrix.py --quick     seconds, to see that it runs

Kokkevis (2004), section 4.3, has one call of the deltas about three times as fast as one of ABM,
and 50 to 60% faster than one that reuses what depends on the pose alone. See benchmarks/README.md.
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
from jaxsim.characters.planar_human import planar_human, start
from jaxsim.constraints.acceleration import METHODS, net_effects, point_rows, row_jacobian
from jaxsim.dynamics.articulated import acceleration_deltas, articulated_body, articulated_inertia
from jaxsim.dynamics.kinematics import forward_kinematics, integrate
from jaxsim.dynamics.rigid import link_forces
from jaxsim.fused import explain, fuse
from jaxsim.math.spatial import spatial
from jaxsim.model import Model
from jaxsim.model.state import neutral_q
from jaxsim.simulation import events
from jaxsim.simulation.records import no_control
from optimize.session import cores, session

ROWS = (1, 2, 4, 8, 16, 32, 60)
BODIES = {
    "planar": ("planar human, 18 dofs", planar_human),
    "human": ("human in space, 37 dofs", articulated_human),
}


def members(model: Model, batch: int):
    """Of random states: kinematics, what ABM knows of them once it has run (the inertias, and the
    forces that velocity and gravity ask for), torques and a test force."""
    rng = np.random.default_rng(0)
    top = model.topology
    lift = spatial(jnp.zeros(3), -model.gravity)

    @jax.jit
    @jax.vmap
    def one(step, qd, tau, force):
        kin = forward_kinematics(
            model, integrate(model, jnp.asarray(neutral_q(model)), step, 1.0), qd
        )
        bias = link_forces(model, kin, kin.bias + lift)
        return kin, (articulated_inertia(model, kin), bias), tau, force

    draw = [rng.normal(size=(batch, top.nv)).astype(np.float32) for _ in range(3)]
    force = rng.normal(size=(batch, 6)).astype(np.float32)
    return one(*draw, force)


def calls(model: Model) -> dict:
    """One call of each kind, with the test force at the end of the longest chain."""
    top = model.topology
    tip = int(np.argmax(top.link_dofs.sum(axis=1)))

    def at_tip(force):
        return jnp.zeros((top.n_links, 6), force.dtype).at[tip].set(force)

    def whole(kin, known, tau, force):
        return articulated_body(model, kin, tau, at_tip(force))

    def again(kin, known, tau, force):
        inertia, bias = known
        return acceleration_deltas(top, inertia, at_tip(force) - bias, tau)

    def deltas(kin, known, tau, force):
        return acceleration_deltas(top, known[0], at_tip(force), jnp.zeros_like(tau))

    return {"ABM": whole, "ABM again": again, "deltas": deltas}


def fills(model: Model, rows: int) -> dict:
    """The constraint matrix of so many points, by each method, from the kinematics."""
    rng = np.random.default_rng(1)
    links = [int(k) for k in np.arange(rows) % model.topology.n_links]
    local, along = rng.normal(size=(2, rows, 3)).astype(np.float32)

    def fill(method, kin, known, tau, force):
        points = kin.link_pos[np.array(links)] + 0.1 * local
        found = point_rows(model, kin, links, points, jnp.asarray(along), jnp.zeros(rows))
        return row_jacobian(model, kin, found) @ net_effects(model, kin, found, method).T

    return {method: partial(fill, method) for method in METHODS}


def measured(functions: dict, given, options) -> tuple[list[str], list[str]]:
    """Microseconds a member under both back ends, and operations of the fused program."""
    batch = jax.tree.leaves(given)[0].shape[0]
    runs, counts = {}, []
    for name, function in functions.items():
        xla = jax.jit(jax.vmap(function))
        fused = fuse(function, in_axes=(0, 0, 0, 0))
        runs[f"xla {name}"] = lambda xla=xla: jax.block_until_ready(xla(*given))
        runs[f"fused {name}"] = lambda fused=fused: jax.block_until_ready(fused(*given))
        one = jax.tree.map(lambda x: x[0], given)
        counts.append(f"{explain(function, *one).call.total}")
    best = interleaved(runs, options.repeats, options.least)
    times = [
        f"{1e6 * best[f'{backend} {name}'] / batch:.3g}"
        for backend in ("xla", "fused")
        for name in functions
    ]
    return times, counts


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "gpu"))
    parts = [*BODIES, "events"]
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--repeats", type=int, default=5, help="the best of so many counts")
    parser.add_argument("--least", type=float, default=0.2, help="seconds of each repeat")
    parser.add_argument("--record", action="store_true", help="append to benchmarks/RESULTS.md")
    parser.add_argument("--quick", action="store_true", help="few members and rows")
    options = parser.parse_args(words)
    options.words = words
    if options.quick:
        options.batch, options.rows, options.repeats, options.least = 16, [2], 1, 0.0
        options.parts = ["planar"]
    return options


def body_tables(name: str, options) -> list[str]:
    """One call, and the whole matrix by the number of rows, of a body."""
    title, build = BODIES[name]
    model = build()
    given = members(model, options.batch)
    header = [f"{title}, batch {options.batch}"]
    header += [f"{b} {n} [us]" for b in ("XLA", "fused") for n in calls(model)]
    header += [f"{n} [operations]" for n in calls(model)]
    times, counts = measured(calls(model), given, options)
    one_call = table(header, [["one call", *times, *counts]])
    print(one_call, flush=True)
    header = ["rows"]
    header += [f"{b} {n} [us]" for b in ("XLA", "fused") for n in METHODS]
    header += [f"{n} [operations]" for n in METHODS]
    lines = []
    for rows in options.rows:
        times, counts = measured(fills(model, rows), given, options)
        lines.append([str(rows), *times, *counts])
        print("  ".join(lines[-1]), flush=True)
    return [one_call, table(header, lines)]


def event_tables(options, count: int = 10, batch: int = 64) -> list[str]:
    """A step of section 7 by the method that it takes, under XLA: the planar human, lying."""
    model = planar_human()
    begun = events.EventDriven().init(model, start(model, "supine"))
    speeds = 0.5 * np.random.default_rng(0).normal(size=(batch, model.topology.nv))
    states = jax.tree.map(lambda x: jnp.broadcast_to(x, (batch, *x.shape)), begun)
    states = states.replace(qd=jnp.asarray(speeds, states.qd.dtype))
    config = events.EventDriven(dt=0.004)

    def run(state):
        def once(state, _):
            return events.event_step(model, state, None, no_control(model), config)[0], None

        return jax.lax.scan(once, state, length=count)[0]

    runs = {}
    methods = ("mass", "deltas")
    for events.METHOD in methods:  # read where the step is traced
        program = jax.jit(jax.vmap(lambda state: run(state))).lower(states).compile()
        runs[events.METHOD] = lambda program=program: jax.block_until_ready(program(states))
    best = interleaved(runs, options.repeats, options.least)
    header = [f"event_step of 4 ms, batch {batch}", *(f"XLA {n} [us]" for n in methods)]
    times = [f"{1e6 * best[name] / count / batch:.0f}" for name in methods]
    return [table(header, [["planar human, lying", *times]])]


def main(words: list[str]) -> str:
    """Measure, print and return the tables."""
    options = parse(words)
    parts = []
    with session(options.device, "float32", cpu_devices=cores()):
        print(machine(), flush=True)
        for name in options.parts:
            parts += event_tables(options) if name == "events" else body_tables(name, options)
        head = [
            f"## Constraint matrix, {today()}, {machine()}",
            f"commit {commit()}; {versions(jax)}; float32, microseconds a member",
            f"`python benchmarks/constraint_matrix.py {shlex.join(options.words)}`".replace(
                " `", "`"
            ),
        ]
    text = "\n\n".join([*head, *parts]) + "\n"
    return publish(text, options.record)


if __name__ == "__main__":
    main(sys.argv[1:])
