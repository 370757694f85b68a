"""Simulating scripts and tuning them: in a few lines, or from the command line (jaxsim --help).

    from optimize.simulate import simulate, write_simulation
    from optimize.tune import tune

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
    from optimize.batch import batched
    from optimize.evolution import Evaluation, EvolutionResult, evolve
    from optimize.gallery import find_world
    from optimize.objectives import OBJECTIVES, TERMS, Objective, Term, objective
    from optimize.problem import ScriptProblem
    from optimize.run_folder import RunFolder
    from optimize.simulate import Simulation, write_simulation
    from optimize.tunables import Tunables
    from optimize.tune import TuneResult
    from optimize.world_run import simulate_world

_PLACE_OF = {
    "Evaluation": "optimize.evolution",
    "EvolutionResult": "optimize.evolution",
    "OBJECTIVES": "optimize.objectives",
    "Objective": "optimize.objectives",
    "RunFolder": "optimize.run_folder",
    "ScriptProblem": "optimize.problem",
    "Simulation": "optimize.simulate",
    "TERMS": "optimize.objectives",
    "Term": "optimize.objectives",
    "Tunables": "optimize.tunables",
    "TuneResult": "optimize.tune",
    "batched": "optimize.batch",
    "evolve": "optimize.evolution",
    "find_world": "optimize.gallery",
    "objective": "optimize.objectives",
    "simulate_world": "optimize.world_run",
    "write_simulation": "optimize.simulate",
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
