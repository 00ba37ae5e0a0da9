"""Which classes compete, how members of a set become one value, and how scores are ranked."""
