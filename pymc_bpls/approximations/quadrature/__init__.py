"""Quadrature in one number, for many rows at once."""
