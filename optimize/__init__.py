"""Simulating scripts and tuning them: in a few lines, or from the command line (jaxsim --help).

    from optimize.running.simulate import simulate, write_simulation
    from optimize.tuning.tune import tune

    write_simulation("runs/walk", simulate("walk", seconds=10.0))
    tune("sit_to_stand_quick", "quick-rise", out="runs/rise", generations=10)

The public names below are loaded when they are first used. (``simulate`` and ``tune`` are also the
names of their modules, so they are imported from there.)

>>> from optimize import OBJECTIVES
>>> "quick-rise" in OBJECTIVES
True
"""

from typing import TYPE_CHECKING

from jaxsim.exports import lazy

if TYPE_CHECKING:
    from optimize.problems.evaluation import Evaluation
    from optimize.problems.script_problem import ScriptProblem
    from optimize.problems.tunables import Tunables
    from optimize.results.folder import RunFolder
    from optimize.running.batch import batched
    from optimize.running.gallery import find_world
    from optimize.running.objectives import OBJECTIVES, TERMS, Objective, Term, objective
    from optimize.running.simulate import Simulation, write_simulation
    from optimize.running.world_run import simulate_world
    from optimize.tuning.evolution import EvolutionResult, evolve
    from optimize.tuning.tune import TuneResult

_PLACE_OF = {
    "Evaluation": "optimize.problems.evaluation",
    "EvolutionResult": "optimize.tuning.evolution",
    "OBJECTIVES": "optimize.running.objectives",
    "Objective": "optimize.running.objectives",
    "RunFolder": "optimize.results.folder",
    "ScriptProblem": "optimize.problems.script_problem",
    "Simulation": "optimize.running.simulate",
    "TERMS": "optimize.running.objectives",
    "Term": "optimize.running.objectives",
    "Tunables": "optimize.problems.tunables",
    "TuneResult": "optimize.tuning.tune",
    "batched": "optimize.running.batch",
    "evolve": "optimize.tuning.evolution",
    "find_world": "optimize.running.gallery",
    "objective": "optimize.running.objectives",
    "simulate_world": "optimize.running.world_run",
    "write_simulation": "optimize.running.simulate",
}

__all__ = [
    "OBJECTIVES",
    "TERMS",
    "Evaluation",
    "EvolutionResult",
    "Objective",
    "RunFolder",
    "ScriptProblem",
    "Simulation",
    "Term",
    "Tunables",
    "TuneResult",
    "batched",
    "evolve",
    "find_world",
    "objective",
    "simulate_world",
    "write_simulation",
]

__getattr__, __dir__ = lazy(__name__, _PLACE_OF)
