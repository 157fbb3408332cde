"""``dagster-operators new``: begin a package."""

from __future__ import annotations

from pathlib import Path

import click

from dagster_operators.cli.plans import told


@click.group()
def new() -> None:
    """Begin something of your own."""


@new.command()
@click.argument("name")
@click.option(
    "--into",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="The folder that the package's folder is made in; by default the current one.",
)
@click.option("--batch", "way", flag_value="batch", help="Its work is Python over Arrow batches in the engine's workers.")
@click.option("--relational", "way", flag_value="relational", default="relational", help="Its work is DataFrames (the default).")
def operator(name: str, into: Path, way: str) -> None:
    """Write a package that brings the operator NAME: three files, a test that passes, a page, and the entry point."""
    from dagster_operators.cli.scaffold import new_operator

    with told():
        written = new_operator(name, into, "batch" if way == "batch" else "relational")
    folder = written[0].relative_to(into).parts[0]
    for path in sorted(written):
        click.echo(path)
    click.echo(f"\nNext: pip install -e {into / folder} && pytest {into / folder}")
