"""jaxsim: a differentiable, batched simulator of physics-based characters.

The public names, in ``__init__.pyi``, are loaded when they are first used, so that importing the
package is quick.

>>> from jaxsim import TimeStepping, no_control, observe, planar_human, start, step
>>> model = planar_human()
>>> round(float(model.total_mass), 2)
89.49
"""

from importlib import metadata

from jaxsim.exports import lazy

try:
    __version__ = metadata.version("jaxsim-characters")
except metadata.PackageNotFoundError:  # used from its sources, not installed
    __version__ = "0+unknown"

__getattr__, __dir__, __all__ = lazy(__name__, __file__)
