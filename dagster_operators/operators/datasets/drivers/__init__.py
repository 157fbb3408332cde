"""Drivers: each does an operator's work on the rows of a part, by one strategy."""
