"""Queries: fluent calls that are written down by name, and played on a pipeline later."""
