"""The command ``dagster-operators`` with its groups."""

from __future__ import annotations

import json
from typing import Any, Final

import click
from typing_extensions import override

from dagster_operators import __version__
from dagster_operators.cli.changes import decide, diff, drop, withdraw
from dagster_operators.cli.dataflow import check, graph, run
from dagster_operators.cli.going_back import reset, rollback
from dagster_operators.cli.init import init
from dagster_operators.cli.looking import doctor, explain, history, read, status
from dagster_operators.cli.new import new
from dagster_operators.cli.operators import operators
from dagster_operators.cli.plans import plan
from dagster_operators.cli.rebuilding import rebuild, restore_times, set_watermark, widen
from dagster_operators.cli.settling import clean, compact, repair, unlock

_AS_JSON: Final = "dagster_operators.as_json"


class _Commands(click.Group):
    """The commands, which tell a wrong call as JSON, too, where they are to tell their answer so."""

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_AS_JSON] = "--json" in args
        return super().parse_args(ctx, args)

    @override
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if not ctx.meta[_AS_JSON]:
                raise
            called = error.ctx or ctx
            told = {"error": "UsageError", "problem": error.format_message(), "remedy": called.get_usage()}
            click.echo(json.dumps({**told, "where": {"command": called.command_path}}), err=True)
            raise SystemExit(error.exit_code) from None


@click.group(cls=_Commands)
@click.version_option(__version__, package_name="dagster_operators")
def main() -> None:
    """Stream processing on Spark and Delta Lake, run by Dagster."""


main.add_command(init)
main.add_command(new)
main.add_command(operators)
main.add_command(plan)
main.add_command(diff)
main.add_command(decide)
main.add_command(drop)
main.add_command(withdraw)
main.add_command(rebuild)
main.add_command(widen)
main.add_command(restore_times)
main.add_command(set_watermark)
main.add_command(rollback)
main.add_command(reset)
for command in (run, check, graph):
    main.add_command(command)
for command in (status, explain, history, read, repair, compact, clean, unlock, doctor):
    main.add_command(command)
