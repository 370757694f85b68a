"""One time step, and rollouts of many."""
