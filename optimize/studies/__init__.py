"""Maps over many runs, such as of the pushes that a controller survives."""
