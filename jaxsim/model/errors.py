"""Errors of model building and of wrong input arrays."""


class ModelError(ValueError):
    """Raised for an invalid model, shape, joint or state; names the place and the remedy."""
