"""A tuning run that simulates nothing: two terms that two numbers pull apart."""

import numpy as np

from controllers.pose.pd import PoseController
from jaxsim import TimeStepping, planar_human, start
from optimize.problems.problem import Problem
from optimize.running.objectives import Objective
from optimize.running.simulate import Written
from optimize.scenarios.scenario import Scenario
from optimize.tuning import tune as module

WEIGHTS = {"energy": 0.5, "time": 1.0}
OBJECTIVE = Objective("apart", 0.01, WEIGHTS, "for these tests")
NUMBERS = {"model.gain_p[4]": (1.0, 9.0), "model.gain_p[5]": (1.0, 9.0)}
WEIGHTED = {"weights.energy": [0.01, 0.5, 100.0]}  # of three runs


def scenario() -> Scenario:
    """A planar human, whose gains are in the middle of their ranges."""
    model = planar_human()
    state = start(model, "standing")
    found = Scenario(model, PoseController(state.q), state, TimeStepping(dt=0.002), name="toy")
    for name in NUMBERS:
        found = found.set(name, 5.0)
    return found


def terms(x):
    """Of numbers (P, 2): squared distances to (3, 5) and to (7, 5), and the second's square."""
    x = np.asarray(x, float)
    return {
        "energy": 0.1 + (x[:, 0] - 3) ** 2 + (x[:, 1] - 5) ** 2,
        "time": (x[:, 0] - 7) ** 2 + (x[:, 1] - 5) ** 2,
    }


def unsimulated(patch, seen=None):
    """patch: a MonkeyPatch; seen: a list for the numbers of all members."""

    def outcomes(self, x, generation=0, which=slice(None)):
        if seen is not None:
            seen.append(np.asarray(x, float))
        return {n: v[:, None] for n, v in terms(x).items()}, np.ones((len(x), 1), bool)

    patch.setattr(Problem, "outcomes", outcomes)
    patch.setattr(module, "_motion", lambda *_: None)
    patch.setattr(module, "write_simulation", lambda *_, **__: Written((), ()))
    patch.setattr(module, "plot_history", lambda folder: None)


def toy_run(out, generations=6, **options):
    """A run in a folder; under ``unsimulated``."""
    own = dict(numbers=NUMBERS, population=6, sigma=0.1, generations=generations, progress=False)
    return module.tune(scenario(), OBJECTIVE, out=out, **(own | options))
