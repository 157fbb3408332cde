"""Windows over event time, and the aggregates and rankings in them."""
