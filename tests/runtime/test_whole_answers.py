"""Answers of Sail that arrive damaged are errors: no row of them is left out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import _channel
from pyspark.sql.connect.proto import ExecutePlanResponse

import dagster_operators as do
from dagster_operators.errors import BrokenAnswerError
from dagster_operators.runtime.whole_answers import whole
from tests.engines import SAIL

pytestmark = pytest.mark.sail


def message(number: int = 0) -> ExecutePlanResponse:
    """One with a field of every length that the server writes."""
    batch = ExecutePlanResponse.ArrowBatch(row_count=1, data=bytes(range(256)) * 2)
    ids = {"session_id": "s" * 36, "operation_id": "o" * 36, "response_id": f"r{number}", "server_side_session_id": "x" * 36}
    return ExecutePlanResponse(arrow_batch=batch, **ids)


def test_a_message_that_was_cut_off_anywhere_is_refused() -> None:
    told = message().SerializeToString()
    behind = told.index(b"r0") + 2  # there only the id of the server's session follows
    for length in range(len(told)):
        if length == behind:
            continue
        with pytest.raises(BrokenAnswerError, match=r"message 2 .* arrived damaged.*run it again"):
            list(whole([message(1).SerializeToString(), told[:length]]))
    assert list(whole([told, told[:behind]]))[1].arrow_batch == message().arrow_batch
    assert list(whole([])) == []


def test_what_was_whole_is_given_before_the_error() -> None:
    answer = whole([message(1).SerializeToString(), b"\xff"])
    assert next(answer) == message(1)
    with pytest.raises(BrokenAnswerError, match="the 1 bytes of it cannot be read") as caught:
        next(answer)
    assert caught.value.retryable


@contextmanager
def damaging(monkeypatch: pytest.MonkeyPatch, chosen: Callable[[ExecutePlanResponse], bool]) -> Iterator[list[int]]:
    """Cut off the messages that are chosen, when gRPC knows already that the engine is done; how many bytes each has."""
    read, cut = _channel._common.deserialize, list[int]()

    def deserialize(told: bytes, by: Any) -> Any:
        if by in (None, ExecutePlanResponse.FromString):
            found = ExecutePlanResponse.FromString(told)
            if chosen(found):
                cut.append(len(told))
                told = told[: len(told) // 2]
        return read(told, by)

    def is_done(state: Any, *_: object) -> None:
        state.code, state.initial_metadata, state.trailing_metadata = grpc.StatusCode.OK, (), ()

    with monkeypatch.context() as patched:
        patched.setattr(_channel._common, "deserialize", deserialize)
        patched.setattr(_channel, "_abort", is_done)
        yield cut


def second(with_text: bytes = b"") -> Callable[[ExecutePlanResponse], bool]:
    """Each second message with rows: the last one of an answer that has two."""
    seen = itertools.count()
    return lambda found: bool(found.arrow_batch.row_count) and with_text in found.arrow_batch.data and next(seen) % 2 == 1


class Same(do.ArrowOperator):
    def output_schema(self, rows):
        return "k string, v long"

    def process_batch(self, batch, ctx, out):
        out.collect(batch)


def program(root: Path) -> do.Pipeline:
    made = do.Pipeline("p", root=str(root), engine=SAIL)
    rows = made.source("in", do.MemorySource([[("a", 1), ("b", 2)], [("c", 3), ("d", 4)]], schema="k string, v long"))
    rows.to_table("rows")
    rows.transform(lambda frame: frame.repartition(2), columns=["k", "v"]).apply(Same()).to_table("same")
    return made


def rows_of(pipeline: Any, table: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, pipeline.read(table).collect()))


def test_no_row_of_a_read_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = program(tmp_path)
    made.run_until_caught_up()
    with damaging(monkeypatch, second()) as cut:
        for read in (lambda: rows_of(made, "rows"), lambda: made.read("rows").toPandas(), lambda: made.read("rows").toArrow()):
            with pytest.raises(BrokenAnswerError, match="arrived damaged"):
                read()
    assert len(cut) == 3
    assert rows_of(made, "rows") == [("a", 1), ("b", 2), ("c", 3), ("d", 4)]


def test_an_epoch_that_was_told_less_is_not_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers report their files as rows: those of the last report would be in no table."""
    made = program(tmp_path)
    made.run_epoch()
    with damaging(monkeypatch, second(b'"subtask"')) as cut, pytest.raises(BrokenAnswerError) as caught:
        made.run_epoch()
    assert len(cut) == 1
    assert (caught.value.pipeline, caught.value.epoch, caught.value.retryable) == ("p", 2, True)
    assert [one.epoch for one in made.history()] == [1]
    made.run_until_caught_up()
    assert rows_of(made, "same") == rows_of(made, "rows") == [("a", 1), ("b", 2), ("c", 3), ("d", 4)]


def test_spark_connect_asks_again_for_what_is_missing(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """There PySpark looks for the end of each answer itself, and nothing has to be done."""
    with damaging(monkeypatch, second()) as cut:
        assert [row.id for row in connect.range(0, 2, 1, 2).collect()] == [0, 1]
    assert len(cut) == 1
