"""The first rows of each key."""
