"""The rows a materialisation shows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dagster_operators.orchestration.preview import markdown, preview
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.manifest import FileEntry


def write(root: Path, path: str, values: list[str | None]) -> FileEntry:
    target = root / "tables/t" / path
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"v": pa.array(values, pa.string())}), target)
    return FileEntry(path, target.stat().st_size, len(values))


def test_rows_of_the_epoch_come_first_and_one_file_is_enough(tmp_path: Path) -> None:
    old = write(tmp_path, "e1-g1-00000000/part-0.parquet", ["old"])
    new = write(tmp_path, "e2-g1-00000000/part-0.parquet", [f"new {number}" for number in range(100)])
    gone = FileEntry("e2-g1-00000000/part-9.parquet", 10_000_000, 5)  # never opened
    coordinator = Coordinator("p", str(tmp_path))
    shown = preview(coordinator, "tables/t", [old, new, gone], 2, 10)
    assert shown is not None
    assert shown.splitlines()[2:] == [f"| new {number} |" for number in range(10)]
    assert (preview(coordinator, "tables/t", [old], 2, 10) or "").splitlines()[2:] == ["| old |"]


def test_an_empty_table_has_no_preview(tmp_path: Path) -> None:
    assert preview(Coordinator("p", str(tmp_path)), "tables/t", [FileEntry("e1-x/part.parquet", 100, 0)], 1, 10) is None


def test_what_would_break_the_table_is_escaped_and_long_values_are_cut() -> None:
    lines = markdown(["a|b"], [["line\nbreak"], ["x" * 1000], [None], ["a\\|b"]]).splitlines()
    assert lines[0] == "| a\\|b |"
    assert lines[2] == "| line break |"
    assert len(lines[3]) < 90
    assert lines[4:] == ["|  |", "| a\\\\\\|b |"]
