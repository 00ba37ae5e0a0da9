"""Supplement F: the simplified criterion (Eq. 7) against the full one (Eq. 6): `python -m validation.simplified`."""
