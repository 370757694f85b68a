"""The public names of the package, each from its place; loaded when they are first used."""

from optimize.problems.evaluation import Evaluation as Evaluation
from optimize.problems.script_problem import ScriptProblem as ScriptProblem
from optimize.problems.tunables import Tunables as Tunables
from optimize.results.folder import RunFolder as RunFolder
from optimize.running.batch import batched as batched
from optimize.running.gallery import find_world as find_world
from optimize.running.objectives import OBJECTIVES as OBJECTIVES
from optimize.running.objectives import TERMS as TERMS
from optimize.running.objectives import Objective as Objective
from optimize.running.objectives import Term as Term
from optimize.running.objectives import objective as objective
from optimize.running.simulate import Simulation as Simulation
from optimize.running.simulate import simulate as simulate
from optimize.running.simulate import write_simulation as write_simulation
from optimize.running.synthesis_run import synthesize_scene as synthesize_scene
from optimize.running.world_run import simulate_world as simulate_world
from optimize.studies.push_map import MapOptions as MapOptions
from optimize.studies.push_map import push_map as push_map
from optimize.tuning.evolution import EvolutionResult as EvolutionResult
from optimize.tuning.evolution import evolve as evolve
from optimize.tuning.tune import TuneResult as TuneResult
from optimize.tuning.tune import tune as tune
