"""What is refused, as rows would be lost or come twice, names calls; each is made as it stands, and the tables are right then."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import dagster_operators as do
from dagster_operators.cli.main import main
from dagster_operators.errors import LedgerError, OperatorsError, PipelineError
from tests.engines import SAIL
from tests.remedies import calls_in, wrong_in

pytestmark = pytest.mark.usefixtures("sail")

SCHEMA = "k string, v long, at timestamp"
FIRST = [[("a", number, f"2026-01-01 00:0{number}:00")] for number in range(1, 4)]
SECOND = [[("b", number, f"2026-01-01 00:0{number}:30")] for number in range(1, 4)]
TABLES = ("all", "totals", "alone")


def pipeline(root: Path) -> do.Pipeline:
    made = do.Pipeline("p", root=str(root / "root"), engine=SAIL)
    first = made.source("first", do.MemorySource(FIRST, schema=SCHEMA), event_time="at")
    second = made.source("second", do.MemorySource(SECOND, schema=SCHEMA), event_time="at")
    both = first.union(second)
    both.to_table("all")
    both.key_by("k").aggregate(n="count(*)", total="sum(v)", name="per_key").to_table("totals")
    alone = made.source("alone", do.MemorySource(FIRST, schema=SCHEMA), event_time="at")
    alone.to_table("alone")
    counts = alone.key_by("k").aggregate(n="count(*)", name="counts").to_changes()
    counts.to_sink(do.FileSink(str(root / "out"), format="debezium-json", key="k"), name="out")
    return made


def content(made: do.Pipeline) -> dict[str, list[str]]:
    return {table: sorted(map(str, made.to_arrow(table).to_pylist())) for table in TABLES}


class Base:
    """A pipeline with two epochs, of which a third one has yet to come; always at one place, as sinks know theirs."""

    def __init__(self, folder: Path) -> None:
        self.place, self.kept = folder / "place", folder / "kept"
        for _ in range(2):
            self.pipeline().run_epoch()
        shutil.copytree(self.place, self.kept)

    def pipeline(self) -> do.Pipeline:
        return pipeline(self.place)

    def put_back(self) -> None:
        """Have all be as it was behind the second epoch."""
        shutil.rmtree(self.place)
        shutil.copytree(self.kept, self.place)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return Base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def wanted(base: Base) -> dict[str, list[str]]:
    base.put_back()
    base.pipeline().run_until_caught_up()
    return content(base.pipeline())


def unsaid(made: do.Pipeline) -> object:
    return made.reset("alone", 0)


def with_a_sink(made: do.Pipeline) -> object:
    return made.reset("alone", 0, tables="restart")


def with_others(made: do.Pipeline) -> object:
    return made.reset("first", 0, tables="restart")


def behind_an_epoch(made: do.Pipeline) -> object:
    return made.reset(["first", "second", "alone"], 1)


def back_with_a_sink(made: do.Pipeline) -> object:
    return made.rollback(1)


def time_back(made: do.Pipeline) -> object:
    return made.set_watermark("alone", "2026-01-01 00:00:00")


def time_back_to_an_epoch(made: do.Pipeline) -> object:
    return made.set_watermark("alone", "2026-01-01 00:01:30")


REFUSED: tuple[tuple[Callable[[do.Pipeline], object], type[OperatorsError]], ...] = (
    (unsaid, PipelineError), (with_a_sink, PipelineError), (with_others, PipelineError), (behind_an_epoch, PipelineError),
    (back_with_a_sink, LedgerError), (time_back, PipelineError),
    (time_back_to_an_epoch, PipelineError),
)  # fmt: skip


def loses(call: str) -> bool:
    """Whether somebody asks by a call for rows to be left out, or to be there twice."""
    return "keep'" in call or re.search(r"\], 1, tables='restart'", call) is not None


def followed(base: Base, call: str) -> list[str]:
    """The calls that lead to the end: a call, that of the error that it ends with, and so on."""
    made = [call]
    while True:
        try:
            eval(made[-1], {"pipeline": base.pipeline()})  # noqa: S307 - what the remedy says to call
        except OperatorsError as error:
            made.append(calls_in(error.remedy)[0])
            assert made[-1] not in made[:-1], f"{made} go round"
        else:
            return made


@pytest.mark.parametrize(("refused", "kind"), REFUSED, ids=[refused.__name__ for refused, _ in REFUSED])
def test_each_call_leads_to_the_end(
    base: Base, wanted: dict[str, list[str]], refused: Callable[[do.Pipeline], object], kind: type[OperatorsError]
) -> None:
    base.put_back()
    with pytest.raises(kind) as caught:
        refused(base.pipeline())
    remedy = caught.value.remedy
    assert not wrong_in(remedy)
    assert calls_in(remedy)
    for call in calls_in(remedy):
        base.put_back()
        followed(base, call)
        base.pipeline().run_until_caught_up()
        if loses(call):
            assert re.search(r"rows in alone: 2|leaves the tables as they are", remedy)
        else:
            assert content(base.pipeline()) == wanted, call


def test_the_commands_do_what_the_calls_do(base: Base, wanted: dict[str, list[str]]) -> None:
    base.put_back()
    command = ["reset", str(base.place / "root"), "first", "--to", "0", "--tables", "restart"]
    refused = CliRunner().invoke(main, command)
    assert refused.exit_code == 1
    typed = re.findall(r"dagster-operators (reset .*?);", refused.output)
    assert typed, refused.output
    done = CliRunner().invoke(main, shlex.split(typed[0]))
    assert done.exit_code == 0, done.output
    base.pipeline().run_until_caught_up()
    assert content(base.pipeline()) == wanted
