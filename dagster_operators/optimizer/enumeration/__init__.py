"""The enumeration of candidates: from the sources on, pruned to those that are cheapest for some property."""
