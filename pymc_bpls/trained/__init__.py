"""What was trained, in use: class probabilities of any rows, where each label came from, and the posterior for ArviZ."""
