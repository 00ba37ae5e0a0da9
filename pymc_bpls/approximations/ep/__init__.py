"""Expectation propagation: its factors, its fixed point with dense and with sparse matrices, and its cavities."""
