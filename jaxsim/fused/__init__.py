"""A JAX function of one character as one kernel over a batch."""
