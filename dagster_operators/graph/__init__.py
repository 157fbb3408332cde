"""Pipelines, streams, logical operators, schemas and their validation: plain data, no Spark and no Dagster."""
