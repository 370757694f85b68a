"""Controllers by goals, for the per-step optimisation: tasks, the machine, balance."""
