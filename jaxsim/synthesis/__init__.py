"""Motion by a constrained optimisation at every step: goals in, the next configuration out."""
