"""What a time constant and a priority do: goals by priorities by times, on one who balances.

    python benchmarks/responses.py             the table
    python benchmarks/responses.py --record    and append it to benchmarks/RESULTS.md
    python benchmarks/responses.py --quick     seconds, to see that it runs

Each member of one batch stands under the balance controller and is asked for one thing from the
first frame on; --document: with the weights that Jain, Ye and Liu print, in the place of the firmer
responses that ``FIRM`` has for its centre of mass and spine. Told of each: the error at the start,
the time in which 63% of it are gone, over what was asked, what is left of it at the end, and
whether it stood without a step. See benchmarks/README.md.
"""

import argparse
import shlex
import sys
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks._machine import commit, machine, publish, table, today, versions
from controllers.goals import tasks as goals
from controllers.goals.balance import FIRM, balance_machine
from controllers.goals.controller import GoalController
from controllers.goals.everyday import look_at
from controllers.goals.response import Response
from jaxsim.simulation.rollout import rollout
from optimize import scenario
from optimize.session import session

ASKED = {  # goal: what it is in the table, with the unit of its error
    "reach": "right hand to a point 0.4 m ahead, at the height of the chest [m]",
    "pose": "left elbow and shoulder bent by 60 and 40 degrees [rad]",
    "look": "head to a place 45 degrees to the left [rad]",
    "shift": "centre of mass 4 cm to the left [m]",
}
STILL = 0.5  # the error at the end is that of the last so many seconds [s]
LOW = 0.6  # a centre of mass that is lower than this part of its height at the start fell


def asking(document: bool):
    """The balance controller with every goal of ``ASKED``, each with priority 0."""
    machine, nothing = balance_machine(), Response(1.0, 0.0)
    machine = machine if document else machine.weighing(FIRM)

    joints = ("leftElbowFlexion", "leftShoulderFlexion")
    bent = jnp.deg2rad(jnp.array([60.0, 40.0]))
    for goal in (
        goals.reach("reach", "rightHand", lambda *_: jnp.array([0.4, -0.25, 1.2])),
        goals.pose("pose", joints, lambda *_: bent),
        look_at((2.0, 2.0, 1.6)),
        goals.com_over("shift", lambda *_: jnp.array([0.06, 0.04])),
    ):
        machine = machine.adding(goal, nothing)
    return machine


def simulate(members: list[tuple[str, float, float]], frames: int, document: bool):
    """Of each (goal, priority, time [s]): errors (members, frames), heights of the centre of mass
    (members, frames) [m], and states of the machine."""
    scene, asked = scenario("push", {"push.force": 0.0}), asking(document)
    controller = GoalController.of(asked, scene.model)
    names = [goal.name for goal in asked.goals]
    which = np.array([names.index(name) for name, _, _ in members])
    one = which[:, None] == np.arange(len(names))  # (members, ng)
    priority, time = (np.array([m[k] for m in members])[:, None, None] for k in (1, 2))
    weights = np.where(one[:, None], priority, np.asarray(controller.weights))
    times = np.where(one[:, None], time, np.asarray(controller.times))

    def record(sample):
        asks = [asked.goals[names.index(name)] for name in ASKED]
        errors = [
            jnp.linalg.norm(goal.rows(sample.obs, sample.memory.variables)[0]) for goal in asks
        ]
        return jnp.stack(errors), sample.obs.com[2], sample.memory.state

    @jax.jit
    @jax.vmap
    def run(weights, times):
        given = controller.set("weights", weights).set("times", times)
        return rollout(
            scene.model, given, scene.state, scene.scheme, frames, record=record, backend="xla"
        ).record

    dtype = scene.model.mass.dtype
    errors, height, state = run(jnp.asarray(weights, dtype), jnp.asarray(times, dtype))
    own = [list(ASKED).index(name) for name, _, _ in members]
    return np.asarray(errors)[np.arange(len(own)), :, own], np.asarray(height), np.asarray(state)


def rows(members, frames: int, dt: float, document: bool) -> list[list[str]]:
    """Of the table."""
    found = []
    told = simulate(members, frames, document)
    for (name, priority, time), error, height, state in zip(members, *told):
        gone = np.flatnonzero(error <= error[0] / np.e)
        late = f"{gone[0] * dt / time:.2f}" if gone.size else "-"
        left = error[-round(STILL / dt) :].mean()
        stood = "fell" if height[-1] < LOW * height[0] else "stepped" if state.any() else "stood"
        found.append(
            [
                *(name, f"{time:g}", f"{priority:g}", f"{error[0]:.3f}", late),
                *(f"{left:.4f}", f"{100 * left / error[0]:.1f}", stood),
            ]
        )
    return found


HEADER = ["goal", "time [s]", "priority", "error at the start", "to 63%, of the time", "left"]
HEADER += ["left [%]", ""]


def main(words: list[str]) -> str:
    """Measure, print and return the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "gpu"))
    parser.add_argument("--priorities", type=float, nargs="+", default=[1.0, 3.0, 10.0])
    parser.add_argument("--times", type=float, nargs="+", default=[0.1, 0.3, 1.0])
    parser.add_argument("--goals", nargs="+", default=list(ASKED), choices=list(ASKED))
    parser.add_argument("--document", action="store_true", help="weights of Jain, Ye and Liu")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--record", action="store_true", help="append to benchmarks/RESULTS.md")
    parser.add_argument("--quick", action="store_true", help="few frames, one of each")
    options = parser.parse_args(words)
    if options.quick:
        options.priorities, options.times, options.seconds = [3.0], [0.1], 0.3
    with session(options.device, "float32"):
        members = list(product(options.goals, options.priorities, options.times))
        body = table(HEADER, rows(members, round(options.seconds / 0.01), 0.01, options.document))
    legend = "\n".join(f"- `{name}`: {what}" for name, what in ASKED.items())
    text = "\n\n".join(
        [
            f"## Times and priorities of goals, {today()}, {machine()}",
            f"commit {commit()}; {versions(jax)}; float32",
            f"`{shlex.join(['python', 'benchmarks/responses.py', *words])}`",
            legend,
            body + "\n",
        ]
    )
    return publish(text, options.record)


if __name__ == "__main__":
    main(sys.argv[1:])
