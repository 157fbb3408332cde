"""Fresh programs of data sets in pipelines: epochs, tables, streams between, whole tables, failures, and other programs."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dagster_operators import MemorySource, Pipeline
from dagster_operators.errors import OperatorsError
from tests.api.datasets.drawn.programs import Program, programs
from tests.api.datasets.drawn.steps import Rows
from tests.api.datasets.drawn.values import bag, rows_of
from tests.engines import SAIL
from tests.examples import fresh_examples

pytestmark = [pytest.mark.in_process, pytest.mark.sail, pytest.mark.usefixtures("sail")]

EXAMPLES: Final = int(os.environ.get("DAGSTER_OPERATORS_DATA_SETS", "4")) // 4 + 1


@dataclass(frozen=True)
class Run:
    """A pipeline over some epochs.

    Attributes:
        program: The program.
        other: The program from the second epoch on.
        epochs: For each epoch the rows of both sources.
        modes: The mode of each end's table, again and again.
        parallelism: The number of parts.
        fails: Whether the first attempt of each epoch fails behind the data sets.
        whole: Whether the program reads all rows of a table with those of the first source, and not those of the epoch.
    """

    program: Program
    other: Program
    epochs: tuple[tuple[Rows, ...], ...]
    modes: tuple[str, str]
    parallelism: int
    fails: bool
    whole: bool

    def expected(self) -> list[tuple[Program, list[Rows]]] | None:
        """For each epoch its program, and the rows of each end; None where there are too many."""
        found: list[tuple[Program, list[Rows]]] = []
        before: Rows = []
        for number, (first, second) in enumerate(self.epochs):
            before = [*before, *first]
            program = self.other if number else self.program
            rows = program.rows([before if self.whole else first, second])
            if rows is None:
                return None
            found.append((program, rows))
        return found


@st.composite
def runs(draw: st.DrawFn) -> Run:
    program = draw(programs(most=4))
    other = draw(st.just(program) | programs(most=3).map(lambda other: Program(program.kind, other.steps, other.ends)))
    rows = rows_of(program.kind, nulls=draw(st.booleans()), most=5)
    epochs = tuple(tuple(draw(rows) for _ in range(2)) for _ in range(draw(st.integers(1, 3))))
    modes = draw(st.tuples(*[st.sampled_from(["append", "replace"])] * 2))
    run = Run(program, other, epochs, modes, draw(st.integers(1, 3)), draw(st.booleans()), draw(st.booleans()))
    assume(run.expected() is not None)
    assume(all(any(epoch) for epoch in epochs))  # an epoch without new rows is none
    return run


def failing_once(marker: str) -> Callable[[Any], bool]:
    """A condition that fails where a file is, and takes it away."""

    def condition(_: Any) -> bool:
        if Path(marker).exists():
            Path(marker).unlink(missing_ok=True)
            raise ValueError("on purpose")
        return True

    return condition


def pipeline_of(run: Run, program: Program, root: Path, epochs: int) -> tuple[Pipeline, list[str]]:
    pipeline = Pipeline("drawn", root=str(root / "root"), engine=SAIL, parallelism=run.parallelism)
    streams = []
    for side in range(2):
        batches = [epoch[side] for epoch in run.epochs[:epochs]]
        streams.append(pipeline.source(f"rows{side}", MemorySource(batches, schema=program.schema)))
    streams[0].to_table("kept")
    first = pipeline.table("kept") if run.whole else streams[0]
    ends = program.data_sets([first.data_set(), streams[1].data_set()])
    tables = []
    for number, (end, mode) in enumerate(zip(ends, run.modes * len(ends), strict=False)):
        tables.append(f"t{number}_{mode}")
        checked = end.filter(failing_once(str(root / "fail"))) if run.fails else end
        checked.to_table(tables[-1], mode=mode)
        if number == 0:  # on as a stream, and back
            stream = end.to_stream(name="on").with_columns(a="a + 1")
            stream.data_set().filter(lambda row: row.a > 1).rebalance().to_table("back")
    return pipeline, tables


def run_epoch(pipeline: Pipeline, run: Run, root: Path) -> None:
    if run.fails:
        (root / "fail").touch()
        try:
            pipeline.run_epoch()
        except OperatorsError as error:
            assert "on purpose" in str(error)  # noqa: PT017 - it fails only where rows come to the condition
            pipeline.run_epoch()
        (root / "fail").unlink(missing_ok=True)
    else:
        pipeline.run_epoch()


def rows_in(pipeline: Pipeline, table: str) -> Counter[Any]:
    return bag(row.values() for row in pipeline.to_arrow(table).to_pylist())


def check(pipeline: Pipeline, tables: Sequence[str], found: Sequence[Rows], expected: dict[str, Counter[Any]]) -> None:
    """Compare all tables, with what was appended before."""
    for table, rows in zip(tables, found, strict=True):
        before = expected.get(table, Counter()) if table.endswith("append") else Counter()
        expected[table] = before + bag(rows)
    back = [(row[0] + 1, *row[1:]) for row in found[0] if row[0] > 0]
    expected["back"] = expected.get("back", Counter()) + bag(back)
    for table in (*tables, "back"):
        assert rows_in(pipeline, table) == expected[table], table


@pytest.mark.timeout(300 + 60 * EXAMPLES)
@fresh_examples(EXAMPLES)
@given(runs())
def test_each_epoch_has_the_rows_of_a_plain_computation(run: Run) -> None:
    expected: dict[str, Counter[Any]] = {}
    epochs = run.expected()
    assert epochs is not None
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        for number, (program, found) in enumerate(epochs, 1):
            pipeline, tables = pipeline_of(run, program, root, number)
            told = {verdict.subject for verdict in pipeline.changes()}
            if number > 1 and epochs[number - 2][0] == program:
                assert not {subject for subject in told if subject.startswith("operator")}
            run_epoch(pipeline, run, root)
            check(pipeline, tables, found, expected)
