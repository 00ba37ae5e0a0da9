"""What studies of self-training share: splits, a store that survives interruptions, intervals, Markdown."""
