"""Command line: a file for each command, and main.py with the list of them."""
