"""``python -m dagster_operators``: the command ``dagster-operators``."""

from __future__ import annotations

from dagster_operators.cli.main import main

if __name__ == "__main__":
    main(prog_name="python -m dagster_operators")
