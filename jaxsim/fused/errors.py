"""What can go wrong in the fused back end, told with the place and the remedy."""


class FuseError(ValueError):
    """A function that cannot become one kernel, or arguments that do not fit it."""


class FusedUnavailable(RuntimeError):
    """Dr.Jit, or the LLVM library or GPU driver it needs, is not there or not fit."""
