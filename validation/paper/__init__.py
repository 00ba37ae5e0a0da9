"""Section 4 of the paper and its supplement, with intervals: `python -m validation.paper`."""
