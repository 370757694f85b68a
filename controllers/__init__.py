"""Controllers of characters: motion scripts, goals optimised per step, PD tracking, policies.

The public names, in ``__init__.pyi``, are loaded when they are first used, so that importing the
package is quick.

>>> from controllers import load_script, script_controller, shipped_scripts
>>> "walk" in shipped_scripts()
True
"""

from jaxsim.exports import lazy

__getattr__, __dir__, __all__ = lazy(__name__, __file__)
