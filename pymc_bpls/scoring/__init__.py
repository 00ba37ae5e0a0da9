"""Criteria, and the scorers of a pool: by Laplace's method, by EP or VI, exactly; one model or a set."""
