"""jaxsim: a differentiable, batched simulator of physics-based characters.

The public names below are loaded when they are first used, so that importing the package is quick.

>>> from jaxsim import StepConfig, no_control, observe, planar_human, start, step
>>> model = planar_human()
>>> float(model.total_mass.round(2))
89.49
"""

import importlib
from importlib import metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxsim.characters.planar_human import planar_human, posed, set_chair_height, start
    from jaxsim.io.motion import Motion, load_motion, save_motion
    from jaxsim.model import Model, ModelBuilder, ModelError, State
    from jaxsim.simulation.rollout import Measure, Sample, failed_members, rollout
    from jaxsim.simulation.step import Control, Observation, StepConfig, StepInfo
    from jaxsim.simulation.step import no_control, observe, step
    from jaxsim.viewer import write_filmstrip, write_page, write_plots

_PLACES = {
    "jaxsim.characters.planar_human": ("planar_human", "posed", "set_chair_height", "start"),
    "jaxsim.io.motion": ("Motion", "load_motion", "save_motion"),
    "jaxsim.model": ("Model", "ModelBuilder", "ModelError", "State"),
    "jaxsim.simulation.rollout": ("Measure", "Sample", "failed_members", "rollout"),
    "jaxsim.simulation.step": ("Control", "Observation", "StepConfig", "StepInfo")
    + ("no_control", "observe", "step"),
    "jaxsim.viewer": ("write_filmstrip", "write_page", "write_plots"),
}
_PLACE_OF = {name: place for place, names in _PLACES.items() for name in names}

__all__ = [  # noqa: RUF022 (in the order of use)
    "Model",
    "ModelBuilder",
    "ModelError",
    "State",
    "planar_human",
    "posed",
    "set_chair_height",
    "start",
    "Control",
    "Observation",
    "StepConfig",
    "StepInfo",
    "no_control",
    "observe",
    "step",
    "Measure",
    "Sample",
    "failed_members",
    "rollout",
    "Motion",
    "load_motion",
    "save_motion",
    "write_filmstrip",
    "write_page",
    "write_plots",
]

try:
    __version__ = metadata.version("jaxsim-characters")
except metadata.PackageNotFoundError:  # used from its sources, not installed
    __version__ = "0+unknown"


def __getattr__(name: str) -> Any:
    if name in _PLACE_OF:
        return getattr(importlib.import_module(_PLACE_OF[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
