"""A pipeline that is renamed goes on, whenever it was killed: before its first epoch under that name, or in it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import dagster_operators as do
from dagster_operators.cli.main import main
from dagster_operators.errors import LedgerError, PipelineError
from dagster_operators.transactions.failpoints import watch
from tests.engines import ENGINES

WANTED = [{"k": "a", "n": 3, "w": 1}, {"k": "b", "n": 1, "w": 2}]


def program(place: Path, name: str, engine: str = "sail", **more: Any) -> do.Pipeline:
    made = do.Pipeline(name, root=str(place / "root"), engine=ENGINES[engine], lease_seconds=0.3, **more)
    rows = made.source("rows", do.FileSource(str(place.parent / "in"), schema="k string, v long", max_files=1))
    rows.to_table("kept")
    rows.key_by("k").aggregate(n="count(*)", w="min(v)", name="per_key").to_table("totals")
    return made


def arrive(place: Path, number: int, text: str) -> None:
    (place.parent / "in").mkdir(parents=True, exist_ok=True)
    (place.parent / "in" / f"{number}.csv").write_text(f"k,v\n{text}\n")
    os.utime(place.parent / "in" / f"{number}.csv", (number, number))


def begun(place: Path, engine: str) -> None:
    """An epoch under the old name, and a file for the next one."""
    arrive(place, 1, "a,1\na,2")
    program(place, "old", engine).run_epoch()
    arrive(place, 2, "a,3\nb,2")


def rows(pipeline: do.Pipeline, table: str = "totals") -> list[dict[str, Any]]:
    return sorted(pipeline.to_arrow(table).to_pylist(), key=lambda row: (row["k"], row.get("v", 0)))


NAMES: dict[str, dict[str, Any]] = {"old": {}, "new": {"renamed_from": "old"}}


def places(base: Path, place: Path, engine: str) -> list[str]:
    """The durable steps of an epoch under the new name, before and behind each."""
    shutil.copytree(base, place, copy_function=shutil.copy2)
    seen: list[str] = []
    with watch(seen.append):
        program(place, "new", engine, renamed_from="old").run_epoch()
    return list(dict.fromkeys(name for name in seen if name.startswith(("before:", "after:", "stage:"))))


@pytest.mark.parametrize("engine", ["sail", "spark"])
@pytest.mark.parametrize(("first", "second"), [("old", "new"), ("new", "old")])
def test_killed_under_a_name_and_run_on_under_the_other(
    tmp_path: Path, engine: str, first: str, second: str, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(engine)
    begun(tmp_path / "base", engine)
    found = places(tmp_path / "base", tmp_path / "whole", engine)
    assert any("append_decision" in name for name in found)
    for number, at in enumerate(found[:: 2 if engine == "sail" else 9]):
        place = tmp_path / str(number)
        shutil.copytree(tmp_path / "base", place, copy_function=shutil.copy2)

        def killed(name: str, at: str = at) -> None:
            if name == at:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt), watch(killed):
            program(place, first, engine, **NAMES[first]).run_epoch()
        after = program(place, second, engine, **NAMES[second])
        after.run_until_caught_up(wait_seconds=20)
        assert rows(after) == WANTED, at
        assert rows(after, "kept") == [{"k": "a", "v": 1}, {"k": "a", "v": 2}, {"k": "a", "v": 3}, {"k": "b", "v": 2}], at
        assert [epoch.epoch for epoch in after.history()] == [1, 2], at


@pytest.mark.usefixtures("sail")
def test_management_and_readers_go_on(tmp_path: Path) -> None:
    place = tmp_path / "place"
    begun(place, "sail")
    made = program(place, "new", renamed_from="old")
    made.run_epoch()
    made.rebuild("totals")
    made.compact()
    assert rows(made) == WANTED
    made.rollback(1)
    assert rows(made) == [{"k": "a", "n": 2, "w": 1}]
    made.run_until_caught_up()
    assert rows(made) == WANTED
    reader = do.Pipeline("reader", root=str(tmp_path / "reader"), engine=ENGINES["sail"])
    reader.source("kept", do.PipelineSource(made, "kept")).to_table("copied")
    reader.run_until_caught_up()
    assert reader.to_arrow("copied").num_rows == 4
    assert not [one for one in do.StoredPipeline(str(place / "root")).examine(deep=True) if one.verdict == "error"]


@pytest.mark.usefixtures("sail")
def test_another_name_is_refused_and_the_remedy_has_the_programs_name(tmp_path: Path) -> None:
    place = tmp_path / "place"
    begun(place, "sail")
    program(place, "second", renamed_from="old").run_epoch()
    for more in ({}, {"renamed_from": "second"}):
        with pytest.raises(LedgerError, match="belongs to the pipeline 'old'") as caught:
            program(place, "third", **more).run_epoch()
        assert f"Pipeline('third', root={str(place / 'root')!r}, renamed_from='old')" in caught.value.remedy
        assert caught.value.where["pipeline"] == "third"
    third = program(place, "third", renamed_from="old")
    assert third.run_epoch().empty
    assert rows(third) == WANTED


def test_a_name_that_none_can_have_is_refused(tmp_path: Path) -> None:
    for wrong in ("", "a/b", "with blank"):
        with pytest.raises(PipelineError, match="name"):
            program(tmp_path, "new", renamed_from=wrong)


@pytest.mark.usefixtures("sail")
def test_a_yaml_file_that_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a shell, as the remedy says."""
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")
    arrive(tmp_path / "root", 1, "a,1")
    flow = f"pipeline: {{}}\nsources:\n  rows: {{files: {{path: {tmp_path / 'in'}, schema: 'k string, v long'}}}}\n"
    flow += "tables:\n  kept: {from: rows, steps: [filter: v > 0]}\n"
    root = str(tmp_path / "root")
    (tmp_path / "flow.yml").write_text(flow.replace("{}", "old", 1))
    first = CliRunner().invoke(main, ["run", str(tmp_path / "flow.yml"), "--root", root])
    assert first.exit_code == 0, first.output
    (tmp_path / "flow.yml").write_text(flow.replace("{}", "new", 1))
    arrive(tmp_path / "root", 2, "b,2")
    refused = CliRunner().invoke(main, ["run", str(tmp_path / "flow.yml"), "--root", root])
    assert refused.exit_code != 0
    assert "--renamed-from old" in refused.output
    again = CliRunner().invoke(main, ["run", str(tmp_path / "flow.yml"), "--root", root, "--renamed-from", "old"])
    assert (again.exit_code, "1 epoch" in again.output) == (0, True), again.output
    assert do.StoredPipeline(root).to_arrow("kept").num_rows == 2
