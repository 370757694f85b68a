"""Schemes that advance a character by a step, and rollouts with measures and checks."""
