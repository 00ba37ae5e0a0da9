"""Newton's method for one maximum or many, the compiled functions that it takes, and when a point is a mode."""
