"""Simulation of a scenario to a motion with a summary: driver, recorder, measures."""
