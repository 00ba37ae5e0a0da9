"""Which pseudo-labels can be handed on with a guarantee, and which rows a person should look at."""
