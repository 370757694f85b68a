"""Simulated model: topology (static), Model (numbers), State, and the checking builder."""

from jaxsim.model.builder import ModelBuilder
from jaxsim.model.drives import Drive
from jaxsim.model.errors import ModelError
from jaxsim.model.joints import Joint, ball, fixed, free, hinge, slide
from jaxsim.model.model import Model
from jaxsim.model.roles import Roles
from jaxsim.model.shapes import (
    Shape,
    box,
    capsule,
    height_field,
    plane,
    sphere,
    tapered_capsule,
)
from jaxsim.model.state import State, check_state, neutral_state
from jaxsim.model.topology import Topology

__all__ = [
    "Drive",
    "Joint",
    "Model",
    "ModelBuilder",
    "ModelError",
    "Roles",
    "Shape",
    "State",
    "Topology",
    "ball",
    "box",
    "capsule",
    "check_state",
    "fixed",
    "free",
    "height_field",
    "hinge",
    "neutral_state",
    "plane",
    "slide",
    "sphere",
    "tapered_capsule",
]
