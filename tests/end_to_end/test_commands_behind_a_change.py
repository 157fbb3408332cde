"""Commands come behind a program that changed, and before anybody says what becomes of what is stored: each way on works."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

import dagster_operators as do
from dagster_operators.errors import OperatorsError
from tests.engines import SAIL
from tests.following import RUN, done, error_of
from tests.soak.settling import ways_of

pytestmark = pytest.mark.usefixtures("sail")

BATCHES: Final = [[("ab"[n % 2], n // 2, n, datetime(2026, 1, 1, n, tzinfo=UTC))] for n in range(4)]

KINDS: Mapping[str, Callable[[Any], Any]] = {
    "rows of an epoch": lambda rows: rows.select("k", "n AS total", name="op").to_table("t", mode="replace"),
    "final rows": lambda rows: rows.as_changes("if(n % 5 = 0, 'insert', 'insert')").final(name="op").to_table("t"),
}
"""What writes the table, under one name."""

COMMANDS: Mapping[str, Callable[[do.Pipeline], object]] = {
    "rollback": lambda pipeline: pipeline.rollback(1),
    "rebuild another": lambda pipeline: pipeline.rebuild("raw"),
}

MOST: Final = 8


def program(root: Path, kind: str, batches: int) -> do.Pipeline:
    made = do.Pipeline("changed", root=str(root), engine=SAIL, parallelism=1)
    source = do.MemorySource(BATCHES[:batches], schema="k string, v long, n long, at timestamp")
    rows = made.source("rows", source, event_time="at", lateness="1 day")
    rows.to_table("raw")
    KINDS[kind](rows)
    return made


def content(pipeline: do.Pipeline) -> Counter[str]:
    return Counter(map(str, pipeline.to_arrow("t").to_pylist())) if "t" in pipeline.tables else Counter()


def reached(todo: str, pipeline: Callable[[], do.Pipeline], error: OperatorsError | None = None) -> list[str]:
    """The calls that lead from one to a pipeline that has caught up: of what an error offers, always what was not yet tried."""
    made = [todo]
    while (error := done(made[-1], pipeline)) or made[-1] != RUN:
        ways = sorted((ways_of(error) if error else [RUN]), key=made.count)
        assert ways, f"{made} go round: {error}"
        made.append(ways[0])
        assert len(made) <= MOST, f"{made} lead nowhere: {error}"
    return made


def changed(root: Path, before: str, after: str, *, settled: bool) -> Callable[[], do.Pipeline]:
    """A root with epochs of a program, and perhaps with some of the changed one, too; the program that goes on."""
    program(root, before, 2).run_until_caught_up()
    if settled:
        error = error_of(program(root, after, 3).run_until_caught_up)
        ways = sorted(ways_of(error), key=lambda way: "rebuild" not in way) if error else [RUN]
        reached(ways[0], lambda: program(root, after, 3))
    return lambda: program(root, after, 4 if settled else 3)


def check(before: str, after: str, command: str, *, settled: bool) -> None:
    """Each call that is offered behind a command leads to an epoch, and a rebuild to the rows of a computation anew."""
    with tempfile.TemporaryDirectory() as name:
        root, kept = Path(name) / "root", Path(name) / "kept"
        pipeline = changed(root, before, after, settled=settled)
        refusal = error_of(lambda: COMMANDS[command](pipeline()))
        assert refusal is None or refusal.remedy, refusal
        shutil.copytree(root, kept)
        error = error_of(pipeline().run_until_caught_up)
        assert error is None or ways_of(error), error
        for todo in dict.fromkeys([*(ways_of(error) if error else [RUN]), *(ways_of(refusal) if refusal else [])]):
            shutil.rmtree(root)
            shutil.copytree(kept, root)
            calls = reached(todo, pipeline)
            if calls == ["pipeline.rebuild('t')", RUN]:
                fresh = program(Path(name) / "fresh", after, 4 if settled else 3)
                fresh.run_until_caught_up()
                assert content(pipeline()) == content(fresh), calls


@pytest.mark.parametrize("command", ["rollback", "rebuild another"])
def test_each_way_that_is_offered_behind_a_command_leads_on(command: str) -> None:
    """As a soak found it: a table that was replaced in each epoch, and is updated now."""
    check("rows of an epoch", "final rows", command, settled=command == "rollback")
