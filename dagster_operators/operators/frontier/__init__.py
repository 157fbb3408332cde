"""Operators written as those of timely dataflow are: closures over input, frontier and output, with capabilities."""
