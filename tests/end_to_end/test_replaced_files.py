"""A data file has other bytes, as many as before and of the same time: nobody gets other rows, and what is told to do helps."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from dagster_operators import ArrowOperator, KeyedState, MemorySource, Pipeline, PipelineSource
from dagster_operators.cli.main import main
from dagster_operators.errors import BadInputError, LostFileError
from dagster_operators.storage import presence
from dagster_operators.storage.root import Root
from tests.following import copied, error_of, follow, rows_of
from tests.remedies import calls_in
from tests.replacing import replace_bytes

pytestmark = pytest.mark.usefixtures("sail")

TABLES = ("raw", "totals", "keys")
ROWS = [[("a", n), ("b", 2 * n), (f"c{n}", n)] for n in range(3)]
OTHER = "has other content than was written"


class Seen(ArrowOperator):
    """Each key once."""

    state = {"keys": KeyedState("k string, seen boolean", key="k")}

    def output_schema(self, rows):
        return "k string"

    def process_batch(self, batch, ctx, out):
        keys = pa.table({"k": batch["k"].unique()})
        new = keys.filter(pc.is_null(ctx.state["keys"].get(keys)["seen"]))
        ctx.state["keys"].put(new.append_column("seen", pa.array([True] * len(new))))
        out.collect(new)


def pipeline_of(root: Path, engine: str = "sail") -> Pipeline:
    made = Pipeline("p", root=str(root), engine=engine)
    rows = made.source("rows", MemorySource(ROWS, schema="k string, v long"))
    rows.to_table("raw")
    rows.key_by("k").aggregate(n="sum(v)", name="per_key").to_table("totals")
    rows.key_by("k").apply(Seen(), name="seen").to_table("keys")
    return made


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with two epochs, of which a third one has yet to come."""
    root = tmp_path_factory.mktemp("base") / "root"
    for _ in range(2):
        pipeline_of(root).run_epoch()
    return root


@pytest.fixture(scope="module")
def wanted(base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    pipeline = pipeline_of(copied(base, tmp_path_factory.mktemp("wanted")))
    pipeline.run_until_caught_up()
    return rows_of(pipeline, TABLES)


def files_of(root: Path) -> Iterator[str]:
    """All data files of tables and states that are active."""
    for dataset in sorted([*(root / "tables").iterdir(), *(root / "state").iterdir()]):
        for uri in DeltaTable(dataset).file_uris():
            yield str(Path(uri.removeprefix("file://")).relative_to(root))


def files_finding(root: Path, *options: str) -> str:
    told = CliRunner().invoke(main, ["doctor", str(root), *options]).output.splitlines()
    return next(line for line in told if "files:" in line)


def test_each_data_file(base: Path, tmp_path: Path, wanted: dict[str, list[str]]) -> None:
    """The next epochs and all tables are right, or the file is named; the doctor names it, and all that is told to do helps."""
    names = list(files_of(base))
    assert {name.split("/")[1] for name in names} >= {*TABLES, "seen.keys"}, "tables, and states of both kinds"
    for number, name in enumerate(names):
        root = copied(base, tmp_path / str(number))
        replace_bytes(root / name)
        found = files_finding(root)
        assert OTHER in found, name
        assert name in found
        pipeline = pipeline_of(root)
        told = [error_of(pipeline.run_until_caught_up)]
        for table in TABLES if told == [None] else ():
            told.append(error_of(partial(pipeline.to_arrow, table)))
            assert told[-1] or sorted(map(str, pipeline.to_arrow(table).to_pylist())) == wanted[table], name
        told.append(error_of(partial(pipeline.repair, "/".join(name.split("/")[:2]), keep="ours")))
        errors = [error for error in told if error]
        assert errors, name
        assert all(isinstance(error, LostFileError) and OTHER in error.problem for error in errors), name
        ways = sorted({way for error in errors for way in calls_in(error.remedy)})
        assert any("rebuild" in way for way in ways), name
        for step, way in enumerate(ways):
            other = copied(root, tmp_path / f"{number}.{step}")
            follow(way, partial(pipeline_of, other))
            assert rows_of(pipeline_of(other), TABLES) == wanted, (name, way)
            assert files_finding(other, "--deep").startswith("ok "), (name, way)


def test_other_rows_in_as_many_bytes(tmp_path: Path) -> None:
    """Parquet that can be read, which whoever read it gave out as what an epoch had written."""
    root = tmp_path / "shop"
    pipeline = Pipeline("p", root=str(root), engine="sail")
    numbers = [[(hash((epoch, number)) | 1 << 61,) for number in range(3)] for epoch in range(3)]
    pipeline.source("rows", MemorySource(numbers, schema="v long")).to_table("raw")
    pipeline.run_until_caught_up()
    first, second = sorted((root / "tables/raw").glob("e[12]-*/*.parquet"))
    kept = first.read_bytes()
    assert len(second.read_bytes()) == len(kept), "else the size tells"
    replace_bytes(first, second.read_bytes())
    assert pq.read_table(first).num_rows == 3
    reader = Pipeline("reader", root=str(tmp_path / "reader"), engine="sail")
    reader.source("rows", PipelineSource(str(root), "raw")).to_table("copy")
    looks = (pipeline.to_arrow, pipeline.read, lambda _: pipeline.compact("raw"), lambda _: reader.run_epoch())
    for look in looks:
        error = error_of(partial(look, "raw"))
        assert isinstance(error, LostFileError | BadInputError), look
        assert OTHER in error.problem
    replace_bytes(first, kept)
    assert pipeline.to_arrow("raw").num_rows == 9, "it was put back, and is right whatever its time is"
    assert files_finding(root, "--deep").startswith("ok ")
    reader.run_epoch()
    assert reader.to_arrow("copy").num_rows == 9


def test_a_copied_root_is_read_through_once(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(shutil.copytree(base, tmp_path / "root", copy_function=shutil.copy))
    read: list[str] = []
    digest_of_file = presence.digest_of_file

    def counted(root: Root, path: str) -> str:
        read.append(path)
        return digest_of_file(root, path)

    monkeypatch.setattr(presence, "digest_of_file", counted)
    for _ in range(2):
        assert pipeline_of(root).to_arrow("raw").num_rows == 6
    assert len(read) == len(set(read)) == 2
