"""QPs of the synthesizer, for benchmarks/qp.py --problems FILE.

    python benchmarks/synthesis_problems.py FILE.npz           1200 of them
    python benchmarks/synthesis_problems.py FILE.npz --quick   a few

The 37-DOF human under the balance controller, in float64: standing, pushed and stepping on firm
ground, and on ice (friction 0.2), a third each; every tenth step of each character.
"""

import argparse
import sys
from dataclasses import fields

import jax
import numpy as np

from benchmarks._synthesis import Scene, around
from jaxsim.solvers import qp
from jaxsim.synthesis.config import SynthesisConfig
from optimize.session import cores, session

EVERY = 10
CASES = {"standing": (1.0, 10.0), "stepping": (1.0, 400.0), "slipping": (0.2, 400.0)}


def harvest(members: int, count: int) -> dict[str, np.ndarray]:
    """Fields of qp.QuadraticProgram, stacked: ``count`` of each of ``members`` characters a case.

    A QP is left out where its step or one of the next ones failed, with all that come after it.
    """
    scene, parts = Scene(SynthesisConfig()), []

    @jax.jit
    def run(model, first, pushes):
        def step(carry, _):
            carry, info = scene.step(model, carry, pushes)
            return carry, (info.status, info.sliding.any())

        def row(carry, _):
            problem = scene.problem(model, carry, pushes)
            carry, (status, sliding) = jax.lax.scan(step, carry, None, length=EVERY)
            return carry, (problem, (status == qp.SOLVED).all(), sliding[0], carry[1].state)

        return jax.lax.scan(row, first, None, length=count)[1]

    for name, (friction, strongest) in CASES.items():
        found = [
            jax.tree.map(np.asarray, run(scene.on(friction), scene.begin(), scene.pushes(force)))
            for force in around(members, strongest)
        ]
        problems, solved, sliding, state = jax.tree.map(lambda *x: np.stack(x), *found)
        good = np.logical_and.accumulate(solved, axis=1)
        print(
            f"{name}: {good.sum()} of {good.size} good, {sliding[good].sum()} with sliding "
            f"contacts, states {np.bincount(state[good]).tolist()}",
            flush=True,
        )
        made = {f.name: getattr(problems, f.name) for f in fields(qp.QuadraticProgram)}
        parts.append({name: x[good] for name, x in made.items() if x is not None})
    together = {k: np.concatenate([p[k] for p in parts]) for k in parts[0]}
    order = np.random.default_rng(0).permutation(len(together["r"]))
    return {k: v[order] for k, v in together.items()}


def main(words: list[str]) -> str:
    """Write the file; returns a line about it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--members", type=int, default=20, help="characters of each case")
    parser.add_argument("--steps", type=int, default=20, help="QPs of each character")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(words)
    if options.quick:
        options.members, options.steps = 2, 2
    with session("cpu", "float64", cpu_devices=cores()):
        problems = harvest(options.members, options.steps)
    np.savez(options.file, **problems)
    line = f"{options.file}: {len(problems['r'])} QPs, J {problems['J'].shape[1:]}"
    print(line)
    return line


if __name__ == "__main__":
    main(sys.argv[1:])
