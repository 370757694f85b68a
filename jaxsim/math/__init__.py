"""Vectors, rotations and spatial vectors; plain functions on small arrays."""
