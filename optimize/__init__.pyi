"""The public names of the package, each from its place; loaded when they are first used."""

from optimize.problems.evaluation import Evaluation as Evaluation
from optimize.problems.problem import Problem as Problem
from optimize.problems.problem import sweep as sweep
from optimize.problems.tunables import Tunables as Tunables
from optimize.results.folder import RunFolder as RunFolder
from optimize.running.batch import batched as batched
from optimize.running.objectives import OBJECTIVES as OBJECTIVES
from optimize.running.objectives import TERMS as TERMS
from optimize.running.objectives import Objective as Objective
from optimize.running.objectives import Term as Term
from optimize.running.objectives import objective as objective
from optimize.running.simulate import Simulation as Simulation
from optimize.running.simulate import simulate as simulate
from optimize.running.simulate import write_simulation as write_simulation
from optimize.running.simulate_batch import Batch as Batch
from optimize.running.simulate_batch import simulate_batch as simulate_batch
from optimize.scenarios.find import scenario as scenario
from optimize.scenarios.find import shipped_scenarios as shipped_scenarios
from optimize.scenarios.scenario import Scenario as Scenario
from optimize.studies.push_map import MapOptions as MapOptions
from optimize.studies.push_map import push_map as push_map
from optimize.tuning.evolution import EvolutionResult as EvolutionResult
from optimize.tuning.evolution import evolve as evolve
from optimize.tuning.evolution import evolve_runs as evolve_runs
from optimize.tuning.tune import TuneResult as TuneResult
from optimize.tuning.tune import tune as tune
