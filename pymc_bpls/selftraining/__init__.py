"""Algorithm 1: the run, its stop rules, and the run as a tree that can be written, read and gone on with."""
