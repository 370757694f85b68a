"""CMA-ES beside pycma: evaluations until a function has fallen to its target.

    python benchmarks/evolution.py                      the table
    python benchmarks/evolution.py --seeds 100          of more seeds
    python benchmarks/evolution.py --racing             what racing and falls save of a generation

Ten numbers; the target is 1e-8, the first step 1 (Rastrigin 2), the first mean drawn anew for each
seed from [-3, 3]^10 and the same for both. Without restarts, and for Rastrigin with IPOP, where
restarts of both begin around that mean. Populations are those that pycma chooses. All seeds of a
function run as one program (``evolve_runs``), in float64. "masked" is CMA-ES as restarts have it.
Needs pycma (pip install cma).
"""

import argparse
import time
import warnings
from importlib.metadata import version
from typing import NamedTuple

import jax
import numpy as np

from benchmarks._machine import commit, machine, table, today, versions
from benchmarks._racing import racing_table
from optimize.problems.fitness import Evaluation
from optimize.tuning.evolution import evolve_runs

N, TARGET = 10, 1e-8
POPULATION = 10  # 4 + 3 ln(n), as pycma has it
AXES = 10.0 ** (6 * np.arange(N) / (N - 1))


def sphere(x):
    return (x**2).sum(axis=-1)


def ellipsoid(x):
    return (AXES * x**2).sum(axis=-1)


def rosenbrock(x):
    return (100 * (x[..., 1:] - x[..., :-1] ** 2) ** 2 + (1 - x[..., :-1]) ** 2).sum(axis=-1)


def rastrigin(x):
    return (10 + x**2 - 10 * np.cos(2 * np.pi * x)).sum(axis=-1)


class Case(NamedTuple):
    function: object
    method: str
    restarts: str | None
    sigma: float
    generations: int


CASES = {
    "sphere": Case(sphere, "cma", None, 1.0, 300),
    "ellipsoid": Case(ellipsoid, "cma", None, 1.0, 900),
    "Rosenbrock": Case(rosenbrock, "cma", None, 1.0, 1500),
    "sphere, masked": Case(sphere, "cma", "masked", 1.0, 300),
    "ellipsoid, masked": Case(ellipsoid, "cma", "masked", 1.0, 900),
    "Rosenbrock, masked": Case(rosenbrock, "cma", "masked", 1.0, 1500),
    "Rastrigin, IPOP": Case(rastrigin, "cma", "ipop", 2.0, 2500),
    "Rastrigin, BIPOP": Case(rastrigin, "cma", "bipop", 2.0, 6000),
}


def mean_of(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-3.0, 3.0, N)


def ours(case: Case, seeds: range) -> np.ndarray:
    """(seeds,) evaluations to the target, infinite where it was not met. The mean of a run is the
    origin of its own coordinates."""
    means = np.stack([mean_of(seed) for seed in seeds])

    def evaluate(x, run):
        return Evaluation(case.function(x + means[run]))

    spent, found = np.zeros(len(seeds)), np.full(len(seeds), np.inf)

    def count(records, best_x):
        for record in records:
            if record.generation < 0:
                continue
            spent[record.run] += record.members
            if record.best_ever <= TARGET and not np.isfinite(found[record.run]):
                found[record.run] = spent[record.run]

    evolve_runs(
        evaluate, np.zeros(N), sigma=case.sigma, population=POPULATION, seed=list(seeds),
        generations=case.generations, method=case.method, restarts=case.restarts,
        on_generation=count, target=TARGET, progress=False,
    )  # fmt: skip
    return found


def theirs(case: Case, seeds: range) -> np.ndarray:
    """The same of pycma."""
    import cma

    found = []
    for seed in seeds:
        mean, draw = mean_of(seed), np.random.default_rng(seed)
        begun = []

        def start(mean=mean, draw=draw, begun=begun):
            begun.append(0)
            return mean if len(begun) == 1 else mean + 2 * case.sigma * draw.normal(size=N)

        options = {"ftarget": TARGET, "seed": seed + 1, "verbose": -9, "popsize": POPULATION}
        more = {"restarts": 9, "incpopsize": 2} if case.restarts in ("ipop", "bipop") else {}
        result = cma.fmin(
            case.function, start, case.sigma, options, bipop=case.restarts == "bipop", **more
        )
        found.append(result[3] if result[1] <= TARGET else np.inf)
    return np.array(found)


def interval(values: np.ndarray) -> tuple[float, float]:
    """Of the median, 95%, by resampling."""
    draws = np.random.default_rng(0).choice(values, (4000, len(values)))
    low, high = np.percentile(np.median(draws, axis=1), [2.5, 97.5])
    return float(low), float(high)


def row(name: str, case: Case, seeds: range) -> list[str]:
    began = time.perf_counter()
    own = ours(case, seeds)
    seconds = time.perf_counter() - began
    other = theirs(case, seeds)
    cells = [name]
    for values in (own, other):
        low, high = interval(values)
        cells += [f"{np.median(values):.0f}", f"{low:.0f} to {high:.0f}"]
        cells.append(f"{np.isfinite(values).sum()} of {len(values)}")
    return [*cells, f"{np.median(own) / np.median(other):.2f}", f"{seconds:.0f}"]


HEAD = [
    *("function", "ours", "interval", "met", "pycma", "interval", "met", "ratio", "all ours [s]"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=25)
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--racing", action="store_true", help="time saved, instead")
    parser.add_argument("--generations", type=int, default=20, help="of each row of --racing")
    parser.add_argument("--backend", choices=("fused", "xla"), default="fused", help="of --racing")
    args = parser.parse_args()
    if args.racing:
        found = racing_table(args.generations, args.backend)
        print(
            f"{machine()}, {versions(jax)}, {args.backend}, float32, commit {commit()}, {today()}\n"
        )
        return print(found)
    jax.config.update("jax_enable_x64", True)
    warnings.filterwarnings("ignore", module="cma")
    rows = []
    for name in args.only:
        rows.append(row(name, CASES[name], range(args.seeds)))
        print(*rows[-1], sep=", ", flush=True)
    about = f"{machine()}, {versions(jax)}, pycma {version('cma')}, evosax {version('evosax')}"
    print(f"{about}, commit {commit()}, {today()}\n")
    print(table(HEAD, rows))


if __name__ == "__main__":
    main()
