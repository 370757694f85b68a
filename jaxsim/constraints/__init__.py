"""Unilateral rows: contact, friction, joint limits; their Jacobians and target velocities."""
