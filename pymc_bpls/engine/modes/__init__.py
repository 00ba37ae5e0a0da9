"""Verified modes and refits of every candidate, and why there is none."""
