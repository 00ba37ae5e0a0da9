"""Hierarchies: EP at each point of a lattice of scales, which are integrated out."""
