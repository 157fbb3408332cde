"""Operators written as those of dora are: classes that react to events, wired in a YAML file."""
