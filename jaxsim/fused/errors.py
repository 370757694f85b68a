"""Errors of the fused back end; each names the place and the remedy."""

import warnings


class FuseError(ValueError):
    """Raised for a function that cannot become one kernel, or arguments that do not fit it."""


class NoRule(FuseError):
    """Raised for a primitive without a rule in the fused back end; XLA can run the function."""


class FusedUnavailable(RuntimeError):
    """Raised where Dr.Jit, or the LLVM library or GPU driver it needs, is missing or unfit."""


_told: set[str] = set()


def warn_of_xla(reason: str, stacklevel: int = 2) -> None:
    """Warn, once for each reason, that XLA runs a function in place of a kernel."""
    if reason not in _told:
        _told.add(reason)
        warnings.warn(f'using backend="xla": {reason}', stacklevel=stacklevel + 1)
