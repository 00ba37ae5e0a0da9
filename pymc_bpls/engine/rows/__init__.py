"""Densities in the linear predictors of their rows: designs, tables, and the space of the labeled rows."""
