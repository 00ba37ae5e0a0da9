"""Runs of several criteria over several splits of the labeled rows, side by side: who gains over whom, and by how much."""
