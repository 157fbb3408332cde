"""What newcomers write by mistake is told where it is written: each line of ``mistakes.txt``, with the error below it."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dagster_operators as do
from dagster_operators.connectors.row_batch import batch_to_arrow
from dagster_operators.errors import PipelineError
from dagster_operators.functions.values import as_array
from dagster_operators.types.schema import Schema

SCHEMA = "k string, v long, at timestamp"


def cases() -> list[tuple[str, str]]:
    """The code of each mistake, and what it comes to."""
    lines = Path(__file__).with_name("mistakes.txt").read_text().splitlines()
    return list(zip(lines[::2], (line.strip() for line in lines[1::2]), strict=True))


class Operator(do.ArrowOperator):
    """One that needs an argument."""

    def __init__(self, n: int) -> None:
        self.n = n


async def answer(x: Any) -> Any:
    return x


class Desk:
    """What the mistakes use, by name.

    Args:
        folder: Where storage roots are.
    """

    def __init__(self, folder: Path) -> None:
        self.root = str(folder / "p")
        names: tuple[Callable[..., Any], ...] = (
            self.source, self.rows, self.same, self.other_pipeline, self.two_sources, self.pipe, self.batch_of, self.values
        )  # fmt: skip
        self.names = {
            "do": do,
            "dt": dt,
            "R": self.root,
            "Op": Operator,
            "anf": answer,
            **{name.__name__: name for name in names},
        }

    def pipeline(self, name: str = "p") -> do.Pipeline:
        return do.Pipeline(name, root=self.root)

    def source(self, name: Any = "src", connector: Any = "", event_time: Any = "at", **settings: Any) -> do.Stream:
        given = do.MemorySource([], schema=SCHEMA) if connector == "" else connector
        return self.pipeline().source(name, given, event_time=event_time, **settings)

    def rows(self, event_time: str | None = "at") -> do.Stream:
        return self.source(event_time=event_time)

    def same(self, build: Callable[[do.Stream], Any]) -> Any:
        return build(self.rows())

    def other_pipeline(self) -> do.Stream:
        return self.pipeline("q").source("src", do.MemorySource([], schema=SCHEMA))

    def two_sources(self) -> None:
        pipeline, source = self.pipeline(), do.MemorySource([], schema=SCHEMA)
        pipeline.source("a", source)
        pipeline.source("a", source)

    def pipe(self) -> do.Pipeline:
        pipeline = self.pipeline()
        pipeline.source("src", do.MemorySource([], schema=SCHEMA)).to_table("t")
        return pipeline

    def batch_of(self, batches: Any, schema: str) -> pa.Table:
        return batch_to_arrow(batches[0], Schema.of(schema).to_json(), 0)

    def values(self, result: Any) -> list[Any]:
        """What a function of one or two rows returned, as whole numbers."""
        return list(as_array(result, pa.int64(), len(result) if isinstance(result, list) else 1, "f").to_pylist())


def come_to(code: str, desk: Desk) -> str:
    try:
        return f"gives {eval(code, desk.names)!r}"  # noqa: S307 - the lines of a file of ours
    except Exception as error:  # noqa: BLE001 - whatever it is
        return f"{type(error).__name__}: {' | '.join(str(error).splitlines())}"


@pytest.mark.parametrize(("code", "expected"), cases(), ids=[code for code, _ in cases()])
def test_a_mistake_is_told(code: str, expected: str, tmp_path: Path) -> None:
    found = come_to(code, Desk(tmp_path))
    assert found.startswith(expected), found


def test_there_are_many_and_each_says_what_is_wrong() -> None:
    known = cases()
    assert len(known) >= 150
    assert len({code for code, _ in known}) == len(known)
    raw = re.compile(r"(has no len|expected string|not iterable|not a mapping|not supported between)")
    assert [code for code, expected in known if raw.search(expected)] == []


def test_what_is_no_source_or_sink_is_told_all_that_there_are(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path))
    rows = pipeline.source("rows", do.MemorySource([], schema="v long"))
    given: Any = "out"
    for call, ending in (
        (lambda: pipeline.source("other", given), "Source"),
        (lambda: rows.to_sink(given), "Sink"),
    ):
        with pytest.raises(PipelineError) as refused:
            call()
        there = {name for name in do.__all__ if name.endswith(ending)} - {ending}
        assert {name for name in there if name not in refused.value.remedy} == set()
