"""A small pipeline over a folder of files, and what to look at before and after something goes wrong."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from dagster_operators import FileSource, Pipeline, Tumbling
from dagster_operators.errors import OperatorsError

if TYPE_CHECKING:
    from dagster_operators.runtime.engine import Spark

SCHEMA = "k string, v long, ts timestamp"
HEADER = "k,v,ts"


class Landing:
    """A landing folder, a pipeline over it, and the lines that are to arrive.

    Args:
        place: Where the folders are made.
        engine: Where the pipeline runs.
        folder: Instead of one in ``place``; it is not made.
        root: Instead of one in ``place``.
        settings: Of the FileSource.
    """

    def __init__(
        self, place: Path, engine: Spark, *, folder: Path | None = None, root: Path | None = None, **settings: Any
    ) -> None:
        self.folder, self.root, self.engine = folder or place / "landing", root or place / "root", engine
        self.settings = {"format": "csv", "schema": SCHEMA, **settings}
        self.files = 0
        if folder is None:
            self.folder.mkdir(parents=True)

    def pipeline(self) -> Pipeline:
        """The pipeline as a new process would define it."""
        pipeline = Pipeline("landed", root=str(self.root), engine=self.engine, lease_seconds=5)
        rows = pipeline.source("rows", FileSource(str(self.folder), **self.settings), event_time="ts")
        clean = rows.filter("v IS NOT NULL", name="with_value")
        clean.to_table("clean", description="Rows with a value")
        clean.key_by("k").aggregate(n="count(*)", total="sum(v)", name="per_key").to_table("totals")
        clean.key_by("k").window(Tumbling("1 hour")).aggregate(n="count(*)", name="per_hour").to_table("hourly")
        return pipeline

    def arrive(self, *lines: str, name: str | None = None, header: str = HEADER) -> Path:
        """A CSV file with these lines lands as a whole, newer than those before it."""
        self.files += 1
        return put(self.folder / (name or f"{self.files:03d}.csv"), "\n".join((header, *lines)) + "\n", self.files)


def put(path: Path, content: str | bytes, minute: int) -> Path:
    """A file that is there as a whole at once, with its own time of change."""
    hidden = path.with_name(f".{path.name}")
    hidden.write_bytes(content.encode() if isinstance(content, str) else content)
    os.utime(hidden, (1_700_000_000 + 60 * minute,) * 2)
    hidden.rename(path)
    return path


def rows_of(pipeline: Pipeline, table: str) -> Counter[Any]:
    """A table's rows as of the last epoch, each counted."""
    return Counter(tuple(row) for row in pipeline.read(table).collect())


def keys_of(pipeline: Pipeline, table: str = "clean") -> list[Any]:
    """The first column of a table, sorted."""
    return sorted(row[0] for row in pipeline.read(table).collect())


def state_of(pipeline: Pipeline) -> tuple[int, dict[str, int]]:
    """The number of completed epochs, and the version of every table there is."""
    tables = Path(pipeline.root, "tables")
    versions = {table.name: DeltaTable(str(table)).version() for table in tables.iterdir()} if tables.is_dir() else {}
    return len(pipeline.history()), {name: version for name, version in versions.items() if version}


@contextmanager
def refused(pipeline: Pipeline, kind: type[OperatorsError], match: str, **where: object) -> Iterator[None]:
    """What is done here fails with such an error, which names its place and a remedy; nothing is committed."""
    before = state_of(pipeline)
    with pytest.raises(kind, match=match) as caught:
        yield
    error = caught.value
    assert error.where.get("pipeline") == pipeline.name, error.where
    for name, value in where.items():
        assert error.where.get(name) == value, (name, error.where)
    assert error.remedy, str(error)
    assert state_of(pipeline) == before
