"""jaxsim: a differentiable, batched simulator of physics-based characters.

The public names below are loaded when they are first used, so that importing the package is quick.

>>> from jaxsim import StepConfig, no_control, observe, planar_human, start, step
>>> model = planar_human()
>>> round(float(model.total_mass), 2)
89.49
"""

from importlib import metadata
from typing import TYPE_CHECKING

from jaxsim.exports import lazy

if TYPE_CHECKING:
    from jaxsim.characters.human import articulated_human, ball_joint_human
    from jaxsim.characters.planar_human import planar_human, set_chair_height
    from jaxsim.characters.poses import posed
    from jaxsim.characters.scaling import scaled
    from jaxsim.characters.starts import start
    from jaxsim.compilation import compile_notices, enable_cache
    from jaxsim.gradients import gradient_report
    from jaxsim.io.mjcf import to_mjcf
    from jaxsim.io.model_file import Imported, load_model
    from jaxsim.io.motion import Motion, load_motion, save_motion
    from jaxsim.io.world import World
    from jaxsim.io.world_file import read_world
    from jaxsim.io.world_model import WorldModel, build_world
    from jaxsim.model import Model, ModelBuilder, ModelError, State
    from jaxsim.simulation.health import Failure, failures
    from jaxsim.simulation.pushes import Pushes, push, pushes_together
    from jaxsim.simulation.records import Control, Observation, StepInfo, no_control
    from jaxsim.simulation.rollout import (
        Measure,
        Sample,
        failed_members,
        rollout,
        warn_of_residual,
    )
    from jaxsim.simulation.step import StepConfig, observe, step
    from jaxsim.solvers.status import Status
    from jaxsim.viewer import write_filmstrip, write_page, write_plots

_PLACE_OF = {
    "Control": "jaxsim.simulation.records",
    "Failure": "jaxsim.simulation.health",
    "Imported": "jaxsim.io.model_file",
    "Measure": "jaxsim.simulation.rollout",
    "Model": "jaxsim.model",
    "ModelBuilder": "jaxsim.model",
    "ModelError": "jaxsim.model",
    "Motion": "jaxsim.io.motion",
    "Observation": "jaxsim.simulation.records",
    "Pushes": "jaxsim.simulation.pushes",
    "Sample": "jaxsim.simulation.rollout",
    "State": "jaxsim.model",
    "StepConfig": "jaxsim.simulation.step",
    "Status": "jaxsim.solvers.status",
    "StepInfo": "jaxsim.simulation.records",
    "World": "jaxsim.io.world",
    "WorldModel": "jaxsim.io.world_model",
    "articulated_human": "jaxsim.characters.human",
    "ball_joint_human": "jaxsim.characters.human",
    "build_world": "jaxsim.io.world_model",
    "compile_notices": "jaxsim.compilation",
    "enable_cache": "jaxsim.compilation",
    "failed_members": "jaxsim.simulation.rollout",
    "failures": "jaxsim.simulation.health",
    "gradient_report": "jaxsim.gradients",
    "load_model": "jaxsim.io.model_file",
    "load_motion": "jaxsim.io.motion",
    "no_control": "jaxsim.simulation.records",
    "observe": "jaxsim.simulation.step",
    "planar_human": "jaxsim.characters.planar_human",
    "posed": "jaxsim.characters.poses",
    "push": "jaxsim.simulation.pushes",
    "pushes_together": "jaxsim.simulation.pushes",
    "read_world": "jaxsim.io.world_file",
    "rollout": "jaxsim.simulation.rollout",
    "save_motion": "jaxsim.io.motion",
    "scaled": "jaxsim.characters.scaling",
    "set_chair_height": "jaxsim.characters.planar_human",
    "start": "jaxsim.characters.starts",
    "step": "jaxsim.simulation.step",
    "to_mjcf": "jaxsim.io.mjcf",
    "warn_of_residual": "jaxsim.simulation.rollout",
    "write_filmstrip": "jaxsim.viewer",
    "write_page": "jaxsim.viewer",
    "write_plots": "jaxsim.viewer",
}

__all__ = [
    "Control",
    "Failure",
    "Imported",
    "Measure",
    "Model",
    "ModelBuilder",
    "ModelError",
    "Motion",
    "Observation",
    "Pushes",
    "Sample",
    "State",
    "Status",
    "StepConfig",
    "StepInfo",
    "World",
    "WorldModel",
    "articulated_human",
    "ball_joint_human",
    "build_world",
    "compile_notices",
    "enable_cache",
    "failed_members",
    "failures",
    "gradient_report",
    "load_model",
    "load_motion",
    "no_control",
    "observe",
    "planar_human",
    "posed",
    "push",
    "pushes_together",
    "read_world",
    "rollout",
    "save_motion",
    "scaled",
    "set_chair_height",
    "start",
    "step",
    "to_mjcf",
    "warn_of_residual",
    "write_filmstrip",
    "write_page",
    "write_plots",
]

try:
    __version__ = metadata.version("jaxsim-characters")
except metadata.PackageNotFoundError:  # used from its sources, not installed
    __version__ = "0+unknown"

__getattr__, __dir__ = lazy(__name__, _PLACE_OF)
