"""Fused back end: compiles a JAX function of one character to one kernel over a batch."""

from jaxsim.fused.errors import FusedUnavailable, FuseError
from jaxsim.fused.explain import Explanation, explain
from jaxsim.fused.fuse import choose_backend, fuse, fuse_one

__all__ = [
    "Explanation",
    "FuseError",
    "FusedUnavailable",
    "choose_backend",
    "explain",
    "fuse",
    "fuse_one",
]
