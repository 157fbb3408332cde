"""A plan as a picture."""
