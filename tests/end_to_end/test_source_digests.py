"""A file that a source has read is replaced, in as many bytes and with its time: a retry, a rebuild and the doctor notice it."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from dagster_operators import DeltaSource, FileSource, MemorySource, Pipeline, SourceOperator, StoredPipeline
from dagster_operators.connectors.connector import Connector
from dagster_operators.connectors.source_operator import SourceCollector, SourceContext, SourceEnd
from dagster_operators.errors import BadInputError
from dagster_operators.transactions import failpoints
from tests.storage.test_input_content import replaced

pytestmark = pytest.mark.usefixtures("sail")


def files(folder: Path, kind: str, value: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    match kind:
        case "csv":
            (folder / "a.csv").write_text(f"v\n{value}\n")
        case "json":
            (folder / "a.json").write_text(f'{{"v":{value}}}\n')
        case "parquet":
            pq.write_table(pa.table({"v": [value]}), folder / "a.parquet", write_statistics=False, compression=None)
        case _:
            write_deltalake(folder, pa.table({"v": [value]}), configuration={"delta.enableChangeDataFeed": "true"})


def source(folder: Path, kind: str) -> Connector:
    if kind.startswith("delta"):
        return DeltaSource(str(folder), starting_version=0 if kind == "delta versions" else None, changes=kind == "delta changes")
    return FileSource(str(folder), schema="v long")


KINDS = ["csv", "json", "parquet", "delta", "delta versions", "delta changes"]


def pipeline_of(place: Path, kind: str) -> Pipeline:
    made = Pipeline("p", root=str(place / "root"), engine="sail")
    rows = made.source("rows", source(place / "in", kind)).select("v")
    rows.to_table("kept")
    rows.aggregate(total="sum(v)", name="sums").to_table("totals")
    return made


def hurt(folder: Path) -> Path:
    """Let the source's file have another value, in as many bytes."""
    (path,) = (path for path in folder.rglob("*") if path.is_file() and "_delta_log" not in path.parts)
    content = path.read_bytes()
    other = content.replace(b"41", b"42").replace((41).to_bytes(8, "little"), (42).to_bytes(8, "little"))
    assert other != content
    replaced(path, other)
    return path


def examined(place: Path, kind: str) -> tuple[str, str]:
    found = {one.check: one for one in StoredPipeline(str(place / "root")).examine(deep=True)}
    return found["sources"].verdict, found["sources"].told


@pytest.mark.filterwarnings("ignore:.*takes the change data feed:UserWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_a_rebuild_and_the_doctor_notice_it(tmp_path: Path, kind: str) -> None:
    files(tmp_path / "in", kind, 41)
    pipeline = pipeline_of(tmp_path, kind)
    pipeline.run_until_caught_up()
    assert examined(tmp_path, kind)[0] == "ok"
    path = hurt(tmp_path / "in")
    verdict, told = examined(tmp_path, kind)
    assert (verdict, path.name in told) == ("error", True)
    with pytest.raises(BadInputError, match="other content than when it was taken up"):
        pipeline_of(tmp_path, kind).rebuild("totals")
    replaced(path, path.read_bytes().replace(b"42", b"41").replace((42).to_bytes(8, "little"), (41).to_bytes(8, "little")))
    again = pipeline_of(tmp_path, kind)
    again.rebuild("totals")  # the remedy: what was read is put back
    assert [row["total"] for row in again.to_arrow("totals").to_pylist()] == [41]
    assert examined(tmp_path, kind)[0] == "ok"


def test_a_retry_reads_what_is_there_now_in_every_stage(tmp_path: Path) -> None:
    """One stage had read the file before it was replaced: the rows of both must not come together in one epoch."""
    files(tmp_path / "in", "csv", 41)

    with pytest.raises(KeyboardInterrupt), failpoints.watch(killed):
        pipeline_of(tmp_path, "csv").run_epoch()
    hurt(tmp_path / "in")
    again = pipeline_of(tmp_path, "csv")
    again.run_epoch()
    assert again.to_arrow("kept").to_pylist() == [{"v": 42}]
    assert again.to_arrow("totals").to_pylist() == [{"total": 42}]
    assert examined(tmp_path, "csv")[0] == "ok"


def killed(place: str) -> None:
    if place.startswith("after:append_prepared"):
        raise KeyboardInterrupt


@pytest.mark.parametrize("kind", ["csv", "delta"])
def test_a_lookup_table_is_the_same_in_all_stages_of_an_epoch(tmp_path: Path, kind: str) -> None:
    files(tmp_path / "in", kind, 41)

    def looking_up() -> Pipeline:
        made = Pipeline("p", root=str(tmp_path / "root"), engine="sail")
        rows = made.source("rows", MemorySource([[{"v": 41}, {"v": 42}]], schema="v long"))
        found = rows.lookup(source(tmp_path / "in", kind), on="v", columns=["v + 0 AS same"], name="named")
        found.to_table("kept")
        found.aggregate(total="sum(same)", name="sums").to_table("totals")
        return made

    with pytest.raises(KeyboardInterrupt), failpoints.watch(killed):
        looking_up().run_epoch()
    hurt(tmp_path / "in")
    again = looking_up()
    again.run_epoch()
    assert sorted(again.to_arrow("kept").to_pylist(), key=str) == [{"v": 41, "same": None}, {"v": 42, "same": 42}]
    assert again.to_arrow("totals").to_pylist() == [{"total": 42}]


class Turns(SourceOperator):
    """A row at its first turn, and another one when that turn is taken again."""

    taken = 40

    def output_schema(self) -> str:
        return "v long"

    def run(self, ctx: SourceContext, out: SourceCollector) -> SourceEnd:
        Turns.taken += 1
        out.collect(pa.table({"v": [Turns.taken]}))
        ctx.position = 1
        return "final"


def test_rows_that_were_taken_from_elsewhere_are_the_same_in_all_stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Turns, "taken", 40)

    def spooled() -> Pipeline:
        made = Pipeline("p", root=str(tmp_path / "root"), engine="sail")
        rows = made.source("rows", Turns())
        rows.to_table("kept")
        rows.aggregate(total="sum(v)", name="sums").to_table("totals")
        return made

    with pytest.raises(KeyboardInterrupt), failpoints.watch(killed):
        spooled().run_epoch()
    (path,) = (tmp_path / "root" / "spool").rglob("*.parquet")
    other = path.read_bytes().replace((41).to_bytes(8, "little"), (77).to_bytes(8, "little"))
    assert other != path.read_bytes()
    replaced(path, other)
    again = spooled()
    again.run_epoch()
    assert (again.to_arrow("kept").to_pylist(), again.to_arrow("totals").to_pylist()) == ([{"v": 42}], [{"total": 42}])


def test_a_replacement_during_the_epoch_fails_it(tmp_path: Path) -> None:
    files(tmp_path / "in", "csv", 41)

    def replace_it(place: str) -> None:
        if place == "stage:half_files":
            hurt(tmp_path / "in")

    with pytest.raises(BadInputError, match="other content than when it was taken up"), failpoints.watch(replace_it):
        pipeline_of(tmp_path, "csv").run_epoch()
    again = pipeline_of(tmp_path, "csv")  # the remedy: run again
    again.run_epoch()
    assert again.to_arrow("totals").to_pylist() == [{"total": 42}]


def test_another_file_does_not_get_the_time_of_the_one_that_was_read(tmp_path: Path) -> None:
    files(tmp_path / "in", "csv", 41)
    pipeline_of(tmp_path, "csv").run_epoch()
    path = hurt(tmp_path / "in")
    os.utime(path)
    now = path.stat().st_mtime_ns
    with pytest.warns(RuntimeWarning, match=f"other content than when they were read .*left as they are: {path}$"):
        assert pipeline_of(tmp_path, "csv").restore_times("rows") == []
    assert path.stat().st_mtime_ns == now
    with pytest.raises(BadInputError, match="time of change"):
        pipeline_of(tmp_path, "csv").run_epoch()
    path.write_text(path.read_text().replace("42", "41"))
    assert pipeline_of(tmp_path, "csv").restore_times("rows") == [str(path)]
    assert pipeline_of(tmp_path, "csv").run_epoch().empty
