"""What drives a character: scripts of the Simple Controller Language, PD and virtual forces.

The public names below are loaded when they are first used, so that importing the package is quick.

>>> from controllers import load_script, script_controller, shipped_scripts
>>> "walk" in shipped_scripts()
True
"""

from typing import TYPE_CHECKING

from jaxsim.exports import lazy

if TYPE_CHECKING:
    from controllers.protocol import Controller
    from controllers.scl.ast import Script
    from controllers.scl.controller import ScriptController
    from controllers.scl.errors import ScriptError
    from controllers.scl.load import (
        load_script,
        script_controller,
        script_path,
        shipped_scripts,
        vocabulary,
    )
    from controllers.scl.parser import parse
    from controllers.scl.writer import rewrite

_PLACE_OF = {
    "Controller": "controllers.protocol",
    "Script": "controllers.scl.ast",
    "ScriptController": "controllers.scl.controller",
    "ScriptError": "controllers.scl.errors",
    "load_script": "controllers.scl.load",
    "script_controller": "controllers.scl.load",
    "script_path": "controllers.scl.load",
    "shipped_scripts": "controllers.scl.load",
    "vocabulary": "controllers.scl.load",
    "parse": "controllers.scl.parser",
    "rewrite": "controllers.scl.writer",
}

__all__ = [
    "Controller",
    "Script",
    "ScriptController",
    "ScriptError",
    "load_script",
    "parse",
    "rewrite",
    "script_controller",
    "script_path",
    "shipped_scripts",
    "vocabulary",
]

__getattr__, __dir__ = lazy(__name__, _PLACE_OF)
