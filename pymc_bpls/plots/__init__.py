"""Figures, one a file: data in, matplotlib Axes out."""
