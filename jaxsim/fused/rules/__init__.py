"""One rule a primitive, by kind; importing this package fills the table ``lower.RULES``."""

from jaxsim.fused.rules import control, elementwise, indexing, linear, shapes

__all__ = ["control", "elementwise", "indexing", "linear", "shapes"]
