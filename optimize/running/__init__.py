"""A scenario becomes a motion with a summary: driver, recorder, measures."""
