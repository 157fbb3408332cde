"""Dataflows of event operators, as dora's YAML files have them, as pipelines."""
