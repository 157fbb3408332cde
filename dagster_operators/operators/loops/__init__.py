"""The edges of loops: into a scope, round in it, and out of it."""
