"""Operators over rows as they are: projections, unions, sources, deduplication, ranking per key."""
