"""Pools beyond memory: partitions that are read, checked and scored where they lie, and what is merged of them."""
