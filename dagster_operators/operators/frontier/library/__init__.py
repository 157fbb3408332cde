"""Timely dataflow's own operators: constructors over whole batches, with the user's functions as their attributes."""
