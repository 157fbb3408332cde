"""``python -m dagster_operators.cli``: the command where its script is missing, as in an environment of an older version."""

from __future__ import annotations

from dagster_operators.cli.main import main

main(prog_name="dagster-operators")
