"""Articulated-body dynamics: kinematics, Jacobians, RNEA, CRBA, ABA, momentum and energy."""
