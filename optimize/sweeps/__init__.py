"""Sweeps: measures of many members over grids and samples of any numbers, as labelled arrays."""
