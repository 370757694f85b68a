"""Methods that search (CMA-ES, gradients), and runs of them that can be resumed."""
