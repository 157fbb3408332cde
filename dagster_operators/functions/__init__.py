"""Functions of the user's own, called by name in any expression: scalar, aggregate and table functions."""
