"""The calls of data sets, by what they do."""
