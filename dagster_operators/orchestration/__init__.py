"""Pipelines in Dagster: stages as ops, tables as assets, epochs as runs. Only this folder imports Dagster."""

from dagster_shared.libraries import DagsterLibraryRegistry

from dagster_operators import __version__

DagsterLibraryRegistry.register("dagster-operators", __version__, is_dagster_package=False)
