"""The table of rows as the user has it: index, labels, which rows are candidates, and what can be stored."""
