"""Operators without functions of the user's, at work on Arrow batches: the rows are those that their drivers would give."""
