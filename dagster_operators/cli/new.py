"""``dagster-operators new``: begin a package."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from dagster_operators.cli.at_root import JSON, answer
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
@click.option(
    "--add-to",
    "package",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder of a package that is there already, which gets the operator too.",
)
@click.option("--batch", "way", flag_value="batch", help="Its work is Python over Arrow batches in the engine's workers.")
@click.option("--relational", "way", flag_value="relational", default="relational", help="Its work is DataFrames (the default).")
@JSON
def operator(name: str, into: Path, package: Path | None, way: str, *, as_json: bool) -> None:
    """Write a package that brings the operator NAME: three files, a test that passes, a page, and the entry point."""
    from dagster_operators.cli.scaffold import add_operator, new_operator

    with told(as_json=as_json):
        if package is not None:
            written = add_operator(name, package, "batch" if way == "batch" else "relational")
        else:
            written = new_operator(name, into, "batch" if way == "batch" else "relational")
    place = shlex.quote(str(package or into / written[0].relative_to(into).parts[0]))
    tell_written(sorted(written), [f"pip install -e {place} && pytest {place}"], as_json=as_json)


def tell_written(files: Sequence[Path], then: Sequence[str], *, as_json: bool) -> None:
    """Tell which files were written, and the commands that go on with them."""
    if as_json:
        answer({"files": [str(path) for path in files], "next": list(then)})
        return
    for path in files:
        click.echo(path)
    click.echo("\n".join(["\nNext:", *(f"    {command}" for command in then)]))
