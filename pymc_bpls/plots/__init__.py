"""Figures: axes in, axes out."""
