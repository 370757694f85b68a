"""Built-in characters."""
