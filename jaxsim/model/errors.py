"""Errors of model building and of wrong input arrays."""


class ModelError(ValueError):
    """A model, shape, joint or state that cannot be simulated; names the place and the remedy."""
