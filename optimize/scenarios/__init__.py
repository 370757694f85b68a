"""Scenarios as data: scripts with their surroundings, scenario files, characters moved by goals."""
