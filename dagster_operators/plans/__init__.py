"""Pipelines as data: the plan of a pipeline as Protocol Buffers, back again, and what differs between two of them."""
