"""Aggregates: the functions, their mergeable partial results, and aggregates without a window."""
