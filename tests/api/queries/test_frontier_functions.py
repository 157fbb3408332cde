"""``do.frontier``'s functions over queries make the pipeline that they make over streams."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators import frontier
from dagster_operators.errors import PipelineError


def later(time: int, batch: Any) -> int:
    return time + 1


def even(time: int, batch: Any) -> Any:
    return batch["v"].to_numpy() % 2 == 0


def parity(time: int, batch: Any) -> Any:
    return batch["v"].to_numpy() % 2


def is_old(time: int) -> bool:
    return time < 5


def same(value: Any) -> Any:
    return value


def look(time: int, batch: Any) -> None: ...


def fold(before: int, part: Any) -> int:
    return before + len(part)


def halves(batch: Any) -> Any:
    return batch, batch


def put_together(rows: Any, add: Any) -> None:
    """Every function over rows, to a table each."""
    odd, two = frontier.branch(rows, even)
    old, young = frontier.branch_when(frontier.delay(rows, later), is_old)
    parts = frontier.partition(frontier.limit_rate(rows, 5), 3, parity)
    good, bad = frontier.ok_err(frontier.barrier(rows), halves)
    rounds = frontier.retime(rows, same, times=int)
    streams = [odd, two, old, young, *parts, good, bad, frontier.retime(rounds, same, times=datetime)]
    streams += [frontier.map(rows, same), frontier.flat_map(rows, same), frontier.map_in_place(rows, same)]
    streams += [frontier.filter(rows, same), frontier.inspect(rows, look), frontier.inspect_core(rows, look, same)]
    streams += [frontier.exchange(rows, frontier.Exchange("k")), frontier.concatenate(rows, two), frontier.reclock(rows, two)]
    streams += [frontier.delay_batch(rows, same), frontier.accumulate(rows, 0, fold), frontier.count(rows)]
    streams += [frontier.capture(rows, schema="k string, v long")]
    for number, stream in enumerate(streams):
        add(stream.to_table(f"t{number}"))


def pipeline() -> do.Pipeline:
    made = do.Pipeline("p", root="nowhere")
    made.source("rows", do.FileSource("in", schema="k string, v long, t timestamp"), event_time="t")
    return made


def test_over_queries_as_over_streams() -> None:
    by_streams, by_queries = pipeline(), pipeline()
    put_together(by_streams.stream("rows"), lambda _: None)
    queries: list[do.Query] = []
    put_together(do.query("rows"), queries.append)
    by_queries.add(*queries)
    for one, other in zip(by_streams.dataflow, by_queries.dataflow, strict=True):
        assert (one.name, one.inputs, one.operator.config()) == (other.name, other.inputs, other.operator.config())
    assert {name: table.stream for name, table in by_streams.dataflow.tables.items()} == {
        name: table.stream for name, table in by_queries.dataflow.tables.items()
    }


def test_wrong_arguments_of_a_function_over_queries() -> None:
    with pytest.raises(TypeError, match=r"frontier.delay.*did you mean 'name'"):
        frontier.delay(do.query("rows"), later, namex="a")  # type: ignore[arg-type, call-arg]
    query: Any = frontier.limit_rate(do.query("rows"), 0)  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="0 rows are none") as caught:
        pipeline().add(query.to_table("t"))
    assert caught.value.where["file"] == __file__


def test_a_name_and_its_stream() -> None:
    made = pipeline()
    made.stream("rows").filter("v > 1", name="big").to_table("large")
    assert [made.stream(name).name for name in ("rows", "big", "large")] == ["rows", "big", "big"]
    with pytest.raises(PipelineError, match="no source or stream named 'lage'") as caught:
        made.stream("lage")
    assert caught.value.remedy == "did you mean 'large'?"
