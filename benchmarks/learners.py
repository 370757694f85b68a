"""PPO, SHAC, OpenAI-ES and CMA-ES in one environment, each with the same time of the processor.

    python benchmarks/learners.py --scenario walk_policy --seconds 60 --seeds 5 --out runs/learners
    python benchmarks/learners.py --out runs/learners --plot docs/images/learners.png

Every run is judged without noise at eight times, in 64 starts that no learning saw, while its clock
stands; what compiling takes is not counted. All learn from the same beginnings. A line a check is
added to ``checks.jsonl``; a run that is there is not done again, so that a study that was stopped
goes on.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks._machine import commit, machine, table, today, versions
from jaxsim import enable_cache
from jaxsim.viewer.plots import new_figure, save_figure
from optimize.environments.environment import Environment
from optimize.environments.table import environment_of
from optimize.learning.evaluation import evaluate_policy
from optimize.learning.methods import METHODS, learner_of
from optimize.learning.rollout import rollouts
from optimize.results.intervals import bootstrap_interval
from optimize.scenarios.find import scenario

UNSEEN, STARTS, LENGTH = 7_000_001, 64, 25
CHECKS = 8  # of a run
LINES = "checks.jsonl"


def race(
    learner: Any, seed: int, seconds: float, unseen: tuple[Environment, Any]
) -> list[dict[str, Any]]:
    """The checks of one run."""
    state = learner.init(seed)
    jax.block_until_ready(learner.update(state)[0])  # compiled now, and thrown away
    found, used, updates = [], 0.0, 0
    for check in range(1, CHECKS + 1):
        while used < check * seconds / CHECKS:
            began = time.process_time()
            state, told = learner.update(state)
            jax.block_until_ready((state, told))
            used, updates = used + time.process_time() - began, updates + 1
        env, run = unseen
        what = evaluate_policy(env, run, learner.network(state), STARTS, LENGTH, UNSEEN)
        found.append({
            "seed": seed, "cpu_seconds": used, "share": check / CHECKS,
            "actions": updates * learner.actions,
            "return": float(what.returns.mean()), "whole": int(what.whole.sum()),
        })  # fmt: skip
    return found


def read(out: Path) -> list[dict[str, Any]]:
    """The lines that are there."""
    path = out / LINES
    return [json.loads(x) for x in path.read_text().splitlines()] if path.is_file() else []


def study(out: Path, name: str, methods: list[str], seeds: int, seconds: float) -> None:
    """Do what is not there yet."""
    done = {(line["scenario"], line["method"], line["seed"]) for line in read(out)}
    env, own = (environment_of(scenario(name), seed) for seed in (UNSEEN, 0))
    unseen = env, rollouts(env, LENGTH)
    out.mkdir(parents=True, exist_ok=True)
    for method in methods:
        learner = learner_of(method, own, {})
        for seed in range(seeds):
            if (name, method, seed) in done:
                continue
            found = race(learner, seed, seconds, unseen)
            about = {"scenario": name, "method": method}
            with (out / LINES).open("a") as file:
                file.write("".join(json.dumps(about | line) + "\n" for line in found))
            last = found[-1]
            print(f"{name} {method} {seed}: {last['return']:.0f}, {last['actions']}", flush=True)


def by_method(lines: list[dict[str, Any]], name: str) -> dict[str, list[list[dict[str, Any]]]]:
    """Method -> check -> lines of seeds."""
    found = {}
    for method in METHODS:
        own = [x for x in lines if x["scenario"] == name and x["method"] == method]
        shares = sorted({x["share"] for x in own})
        if own:
            found[method] = [[x for x in own if x["share"] == share] for share in shares]
    return found


def summary(lines: list[dict[str, Any]], name: str) -> str:
    """What each method came to at the end."""
    rows = []
    for method, checks in by_method(lines, name).items():
        last = checks[-1]
        returns = np.array([x["return"] for x in last])
        low, high = bootstrap_interval(returns)
        whole = sum(x["whole"] for x in last)
        rows.append([
            method, str(len(last)), f"{np.mean([x['cpu_seconds'] for x in last]):.0f}",
            f"{np.mean([x['actions'] for x in last]) / 1e6:.2f} M",
            f"{returns.mean():.0f} ({low:.0f} to {high:.0f})",
            f"{whole} of {STARTS * len(last)}",
        ])  # fmt: skip
    header = ["method", "seeds", "processor seconds", "actions", "return", "whole episodes"]
    return table(header, rows)


def plot(lines: list[dict[str, Any]], path: Path) -> None:
    """Returns by time, mean and interval over seeds, a panel for each scenario."""
    names = list(dict.fromkeys(line["scenario"] for line in lines))
    figure = new_figure(5 * len(names), 3.6)
    drawn: Callable = figure.subplots
    for axes, name in zip(np.atleast_1d(drawn(1, len(names))), names):
        for method, checks in by_method(lines, name).items():
            used = [np.mean([x["cpu_seconds"] for x in check]) for check in checks]
            returns = [np.array([x["return"] for x in check]) for check in checks]
            low, high = np.array([bootstrap_interval(r) for r in returns]).T
            (line,) = axes.plot(used, [r.mean() for r in returns], ".-", label=method)
            axes.fill_between(used, low, high, color=line.get_color(), alpha=0.2)
        axes.set_title(name)
        axes.set_xlabel("processor seconds of learning")
        axes.set_ylabel("return of an episode, without noise")
        axes.legend()
    save_figure(path, figure)


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", help="one to learn in")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seconds", type=float, default=60.0, help="of the processor, of each run")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("runs/learners"))
    parser.add_argument("--plot", type=Path)
    args = parser.parse_args()
    enable_cache()
    if args.scenario:
        study(args.out, args.scenario, args.methods.split(","), args.seeds, args.seconds)
    lines = read(args.out)
    for name in dict.fromkeys(line["scenario"] for line in lines):
        print(f"\n{name}\n\n{summary(lines, name)}")
    if args.plot and lines:
        plot(lines, args.plot)
    print(f"\n{today()}, {machine()}, {versions(jax)}, commit {commit()}")


if __name__ == "__main__":
    main()
