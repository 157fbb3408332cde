"""Pipelines in Dagster: stages as ops, tables as assets, epochs as runs. Only this folder imports Dagster."""
