"""Class probabilities averaged over a Gaussian: at nodes, by a table for large pools, or over draws."""
