"""What can go wrong in the fused back end, told with the place and the remedy."""

import warnings


class FuseError(ValueError):
    """A function that cannot become one kernel, or arguments that do not fit it."""


class NoRule(FuseError):
    """A primitive that the fused back end does not know; XLA can run the function."""


class FusedUnavailable(RuntimeError):
    """Dr.Jit, or the LLVM library or GPU driver it needs, is not there or not fit."""


_told: set[str] = set()


def warn_of_xla(reason: str, stacklevel: int = 2) -> None:
    """Say, once for each reason, that XLA runs what was to be a kernel."""
    if reason not in _told:
        _told.add(reason)
        warnings.warn(f'using backend="xla": {reason}', stacklevel=stacklevel + 1)
