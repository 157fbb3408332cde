"""``dagster-operators init``: begin a pipeline."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from dagster_operators.cli.at_root import JSON
from dagster_operators.cli.new import tell_written
from dagster_operators.cli.plans import told


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=".")
@click.option("--name", default="flights", show_default=True, help="What the pipeline is called.")
@JSON
def init(folder: Path, name: str, *, as_json: bool) -> None:
    """Write a pipeline of ten lines that can be run, with Dagster's definitions and a few rows of input, into FOLDER."""
    from dagster_operators.cli.scaffold import new_pipeline

    with told(as_json=as_json):
        written = new_pipeline(name, folder)
    there = "" if folder == Path() else f"cd {shlex.quote(str(folder))} && "
    tell_written(written, [f"{there}python definitions.py", f"{there}dagster dev -f definitions.py"], as_json=as_json)
