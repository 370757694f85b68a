"""Scenarios: who does what where, as data: scripts on their scene, worlds, scenes of goals."""
