"""Gaussian priors of a density: their precision in parts, and coordinates that whiten them."""
