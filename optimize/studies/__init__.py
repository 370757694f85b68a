"""Studies over many runs, such as the pushes that a controller survives."""
