"""The command ``dagster-operators``."""
