"""A model declared in PyMC and its table: checks, labels, rows, and the log-density as JAX functions."""
