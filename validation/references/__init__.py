"""Do exact values scatter around the truth as their errors say? `python -m validation.references`."""
