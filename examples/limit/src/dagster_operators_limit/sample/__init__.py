"""A share of the keys."""
