"""``dagster-operators operators``: which there are, and which packages bring them."""

from __future__ import annotations

import json

import click

from dagster_operators.cli.plans import told


@click.command()
@click.argument("kind", required=False)
@click.option("--package", help="Only those that this package brings.")
@click.option("--json", "form", flag_value="json", help="As JSON.")
@click.option("--markdown", "form", flag_value="markdown", help="As a table in Markdown: a page for one's documentation.")
def operators(kind: str | None, package: str | None, form: str | None) -> None:
    """List the kinds of operators, or one KIND: what it does, its methods, its page, its package."""
    from dagster_operators.catalog.listing import as_markdown, listed
    from dagster_operators.catalog.loading import catalog

    with told():
        found = listed(catalog(), kind=kind, package=package)
    if form == "json":
        click.echo(json.dumps([one.to_json() for one in found], indent=2))
    else:
        click.echo(as_markdown(found) if form == "markdown" else "\n".join(map(str, found)))
