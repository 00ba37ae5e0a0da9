"""The demo: does self-training help on a real data set? Every criterion, two priors, several splits, the same held-out rows."""
