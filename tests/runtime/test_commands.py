"""A remedy on the command line is a command that there is, whatever it was in Python."""

from __future__ import annotations

import shlex

import pytest

from dagster_operators.cli.main import main
from dagster_operators.runtime.commands import as_commands


@pytest.mark.parametrize(
    ("remedy", "command"),
    [
        ('pipeline.repair("clean", keep="theirs")', "repair 'my root' clean --keep theirs"),
        ('pipeline.repair_all(keep="ours")', "repair 'my root' --keep ours"),
        ("pipeline.repair_ledger(last_epoch=6)", "repair 'my root' --ledger --last-epoch 6"),
        ("pipeline.repair_ledger()", "repair 'my root' --ledger"),
        ("pipeline.rollback(to=2, keep_sinks=True)", "rollback 'my root' 2 --keep-sinks"),
        ("pipeline.reset(['a', 'b c'], 0, tables=\"restart\")", "reset 'my root' a 'b c' --to 0 --tables restart"),
        ("pipeline.rebuild(['a', 'b'], since=4)", "rebuild 'my root' a b --since 4"),
        ("pipeline.rebuild(['a'], epochs_at_once=1)", "rebuild 'my root' a --epochs-at-once 1"),
        ("pipeline.rebuild(operators='per_key')", "rebuild 'my root' --operator per_key"),
        ("pipeline.withdraw('operator per_key')", "withdraw 'my root' operator per_key"),
        ("pipeline.decide('table totals', 'keep')", "decide 'my root' table totals keep"),
        ("pipeline.drop('old')", "drop 'my root' old"),
        ("pipeline.compact('clean')", "compact 'my root' clean"),
        ("pipeline.set_watermark('a', '2024-01-01 13:00')", "set-watermark 'my root' a '2024-01-01 13:00'"),
        ("pipeline.restore_times('rows')", "restore-times 'my root' rows"),
    ],
)
def test_a_call_as_a_command(remedy: str, command: str) -> None:
    told = as_commands(f"wait; or {remedy} and go on", "my root")
    assert told == f"wait; or dagster-operators {command} and go on"
    name, *arguments = shlex.split(command)
    parsed = main.commands[name].make_context(name, arguments, resilient_parsing=False)
    assert parsed.params["root"] == "my root"


def test_what_no_command_does_stays() -> None:
    for remedy in (
        "call, in Python: pipeline.drop('t')",
        "run an epoch first: pipeline.run_epoch()",
        "stream.to_table(...)",
    ):
        assert as_commands(remedy, "r") == remedy
