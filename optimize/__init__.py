"""Simulation and tuning of characters, in a few lines or by the command line (jaxsim --help).

    from optimize import simulate, tune, write_simulation

    write_simulation("runs/walk", simulate("walk", seconds=10.0))
    tune("sit_to_stand_quick", "quick-rise", out="runs/rise", generations=10)

The public names, in ``__init__.pyi``, are loaded when they are first used.

>>> from optimize import OBJECTIVES
>>> "quick-rise" in OBJECTIVES
True
"""

from jaxsim.exports import lazy

__getattr__, __dir__, __all__ = lazy(__name__, __file__)
