"""The derivative of one step at hard impacts, beside differences, by what finds the impulses.

    python benchmarks/impact_gradients.py             the table, in two minutes
    python benchmarks/impact_gradients.py --record    append it to benchmarks/RESULTS.md
    python benchmarks/impact_gradients.py --quick     to see that it runs

Planar humans fall limp from random poses. Steps that need more than the first 8 sweeps are set
apart from those that do not; each is differentiated along a random direction of its velocity (where
a joint rests at its limit, or a foot on the ground, the derivative by the pose has a kink, beside
which differences are no measure). See docs/explanation/gradients.md.
"""

import argparse
import shlex
import sys

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks._machine import commit, machine, publish, table, today, versions
from jaxsim.characters.planar_human import planar_human, start
from jaxsim.model.state import State
from jaxsim.simulation.contact_scheme import observe
from jaxsim.simulation.records import no_control
from jaxsim.simulation.step import TimeStepping, step
from optimize.session import session

DT, H = 0.002, 1e-7  # time step [s]; half the differences' step
WAYS = {
    "default": TimeStepping(dt=DT),
    "most_sweeps=0": TimeStepping(dt=DT, most_sweeps=0),
    "sweeps=100, most_sweeps=0": TimeStepping(dt=DT, sweeps=100, most_sweeps=0),
    'derivative="implicit"': TimeStepping(dt=DT, derivative="implicit"),
    'derivative="implicit", sweeps=100': TimeStepping(dt=DT, sweeps=100, derivative="implicit"),
}


def one_step(human, state: State, config: TimeStepping) -> State:
    return step(human, state, observe(human, state, config), no_control(human), config)[0]


def falls(human, members: int, steps: int, rng) -> tuple[State, State, str]:
    """States before steps that need more than the first sweeps, before others, and their share."""
    begin = WAYS["default"].init(human, start(human, "standing"))
    loose = np.r_[0.0, 0.0, np.ones(len(begin.q) - 2)]
    lift = np.r_[0.0, 0.3, np.zeros(len(begin.q) - 2)]
    q = begin.q + lift + 0.4 * rng.normal(size=(members, loose.size)) * loose
    qd = 0.5 * rng.normal(size=(members, loose.size))

    def fall(q, qd):
        def once(state, _):
            after = one_step(human, state, WAYS["default"])
            few = one_step(human, state, WAYS["most_sweeps=0"])
            return after, (state, jnp.any(after.qd != few.qd))

        return jax.lax.scan(once, begin.replace(q=q, qd=qd), None, length=steps)[1]

    states, hard = jax.jit(jax.vmap(fall))(q, qd)
    hard = np.asarray(hard).ravel()

    def taken(which):
        index = rng.permutation(np.flatnonzero(which))[:400]
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[index], states)

    return taken(hard), taken(~hard), f"{hard.sum()} of {hard.size} steps"


def errors(human, states: State, config: TimeStepping, rng) -> np.ndarray:
    """Relative, of the derivative of the next velocity by the last one, along a direction."""
    weight, way = rng.normal(size=(2, human.topology.nv))

    def value(t, state):
        return jnp.sum(weight * one_step(human, state.replace(qd=state.qd + t * way), config).qd)

    def both(state):
        differences = (value(H, state) - value(-H, state)) / (2 * H)
        return jax.grad(value)(0.0, state), differences

    gradient, differences = jax.jit(jax.vmap(both))(states)
    return np.asarray(jnp.abs(gradient - differences) / (1e-6 + jnp.abs(differences)))


def main(words: list[str]) -> str:
    """Measure, print and return the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="append to benchmarks/RESULTS.md")
    parser.add_argument("--quick", action="store_true", help="little of it, to see that it runs")
    parser.add_argument("--device", choices=("cpu", "gpu"))
    options = parser.parse_args(words)
    members, ways = (4, list(WAYS)[:2]) if options.quick else (48, list(WAYS))
    with session(options.device, "float64"):
        human = planar_human()
        hard, others, share = falls(human, members, 500, np.random.default_rng(0))
        rows = [row(human, name, (hard, others)) for name in ways]
    header = ["configuration", "hard steps: error of half, nine in ten", "other steps"]
    text = "\n\n".join(
        [
            f"## Derivatives at hard impacts, {today()}, {machine()}",
            f"commit {commit()}; {versions(jax)}; float64, a step of {1000 * DT:g} ms; {share} need"
            f" more than the first sweeps; beside differences of {H:g}",
            f"`{shlex.join(['python', 'benchmarks/impact_gradients.py', *words])}`",
            table(header, rows) + "\n",
        ]
    )
    return publish(text, options.record)


def row(human, name: str, groups: tuple[State, ...]) -> list[str]:
    cells = [f"`{name}`"]
    for states in groups:
        found = errors(human, states, WAYS[name], np.random.default_rng(1))
        half, most = np.quantile(found, (0.5, 0.9))
        cells.append(f"{half:.0e}, {most:.0e}")
    print(*cells, flush=True)
    return cells


if __name__ == "__main__":
    main(sys.argv[1:])
