"""Operator state between epochs: how its runs are pruned and compacted."""
