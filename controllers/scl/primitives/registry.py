"""Primitives of the language, in the order in which messages list them."""

from controllers.scl.primitive import Primitive
from controllers.scl.primitives.gravity_compensation import GravityCompensation
from controllers.scl.primitives.inverse_kinematics import IK
from controllers.scl.primitives.pd import PD
from controllers.scl.primitives.relax import Relax
from controllers.scl.primitives.symmetry import Symmetry
from controllers.scl.primitives.virtual_force import VirtualForce

PRIMITIVES: list[type[Primitive]] = [PD, VirtualForce, IK, Relax, Symmetry, GravityCompensation]
