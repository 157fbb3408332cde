"""Running stages on an engine: sessions, staged files, state, and a pipeline's epochs."""
