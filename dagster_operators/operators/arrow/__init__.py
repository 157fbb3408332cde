"""Operators of the user's own over Arrow batches."""
