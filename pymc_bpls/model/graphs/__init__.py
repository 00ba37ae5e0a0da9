"""The model's PyTensor graph: one row of it, its JAX function, its linear predictors, its parameter checks."""
