"""Policies that learn: rollouts as one kernel, and methods behind init, update and best."""
