"""Reinforcement learning: rollouts as one kernel, methods with init, update and network."""
