"""Draws from the same posteriors: NUTS, importance sampling, bridges, and averages with their errors."""
