"""Gaussian approximations of the posterior of D counted once or twice, and predictions under them."""
