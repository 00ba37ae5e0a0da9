"""Which approximation of the PPP is near the exact one, and when: `python -m validation.approximations`."""
