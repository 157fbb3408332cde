"""The fluent interface: what a user chains to describe a pipeline."""
