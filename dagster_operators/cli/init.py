"""``dagster-operators init``: begin a pipeline."""

from __future__ import annotations

from pathlib import Path

import click

from dagster_operators.cli.plans import told


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=".")
@click.option("--name", default="flights", show_default=True, help="What the pipeline is called.")
def init(folder: Path, name: str) -> None:
    """Write a pipeline of ten lines that can be run, with Dagster's definitions and a few rows of input, into FOLDER."""
    from dagster_operators.cli.scaffold import new_pipeline

    with told():
        written = new_pipeline(name, folder)
    for path in written:
        click.echo(path)
    there = "" if folder == Path() else f"cd {folder} && "
    click.echo(f"\nNext: {there}python definitions.py, or: {there}dagster dev -f definitions.py")
