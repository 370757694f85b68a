"""Motion capture: clips from files and into files, what their joints mean, which feet stand."""
