"""What a person wants to know first of a model and of each kind of result: a few sentences and a small table."""
