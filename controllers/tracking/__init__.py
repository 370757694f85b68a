"""Tracking of motion capture in forward simulation: references, balance, the topple-free foot."""
