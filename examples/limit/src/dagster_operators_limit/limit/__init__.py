"""The first rows of a stream."""
