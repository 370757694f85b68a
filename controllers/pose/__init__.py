"""Controllers that follow poses: PD and exact tracking."""
