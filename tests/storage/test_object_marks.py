"""Data files on an object store have marks in the ledger: the doctor names those that were written anew, and no copies."""

from __future__ import annotations

from pathlib import Path

import pytest

from dagster_operators import FileSource, Pipeline, StoredPipeline
from dagster_operators.storage.object_marks import abouts_of, is_mark_of, mark_of, written_anew
from dagster_operators.storage.presence import Written, lost_files
from dagster_operators.storage.root import Root
from dagster_operators.transactions.lost import written_files
from tests.engines import SAIL


def test_an_object_written_anew_has_another_mark(s3) -> None:
    root = Root(f"{s3.bucket()}/shop", s3.options())
    paths = ["t/a", "t/b", "u/c"]
    for path in paths:
        root.write(path, b"one")
    marks = {path: mark_of(path, about) for path, about in abouts_of(root, paths).items() if about}
    assert written_anew(root, marks) == []
    for path in ("t/a", "t/b", "u/c"):
        root.write(path, b"two" if path == "t/b" else b"one")
    assert written_anew(root, {**marks, "t/e": "", "t/f": marks["t/b"]}) == ["t/b"]
    root.link("t/b", "t/d")
    assert written_anew(root, {"t/d": marks["t/b"]}) == [], "the mark of what it was copied from says nothing of it"
    assert lost_files(root, {"t/a": Written(3, marks["t/a"]), "t/e": 3, "u/c": 4}) == {
        "t/e": "is missing", "u/c": "has 3 bytes instead of 4",
    }  # fmt: skip


@pytest.mark.usefixtures("sail")
def test_the_ledger_has_the_marks_of_what_epochs_and_rebuilds_wrote(s3, tmp_path: Path) -> None:
    root, options = f"{s3.bucket()}/shop", s3.options()

    (tmp_path / "1.csv").write_text("v\n1\n-1\n")

    def pipeline() -> Pipeline:
        made = Pipeline("shop", root=root, engine=SAIL, storage_options=options)
        made.source("rows", FileSource(str(tmp_path), schema="v long")).filter("v > 0").to_table("kept")
        return made

    def files() -> tuple[str, str]:
        found = {one.check: one for one in StoredPipeline(root, storage_options=options).examine(deep=True)}
        return found["files"].verdict, found["files"].told

    pipeline().run_epoch()
    made = pipeline()
    made.rebuild()
    run = made.epochs.coordinator
    active = {path for name, at in run.versions().versions.items() for path in written_files(name, run.files(name, at))}
    known = run.root.known_digests(active)
    assert known.keys() == active
    assert all(is_mark_of(path, mark) for path, mark in known.items())
    assert files()[0] == "ok"
    path = min(path for path in active if path.startswith("tables/kept/"))
    content = run.root.read(path) or b""
    other = content.replace(b"version", b"Version")  # in the name of who wrote it
    assert other != content
    run.root.write(path, other)
    verdict, told = files()
    assert (verdict, told.endswith(f"were written anew since their epochs, with as many bytes: {path}")) == ("warning", True)
