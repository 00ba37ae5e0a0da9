"""Criteria beside the exact values: what an audit compares, and the sentences that it says."""
