"""Lowering rules of primitives, by kind; importing this package fills ``lower.RULES``."""

from jaxsim.fused.rules import control, elementwise, indexing, linear, shapes

__all__ = ["control", "elementwise", "indexing", "linear", "shapes"]
