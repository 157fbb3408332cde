"""Operators for dagster_operators that let fewer rows through."""
