"""How far levels of scores are off, beside what is said of them: `python -m validation.levels`."""
