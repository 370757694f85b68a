"""Primitives of the language, one class a file."""
