"""Files that were read have another time of change, and are the same: somebody says so, and the pipeline goes on."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from dagster_operators.cli.main import main
from dagster_operators.errors import BadInputError, PipelineError
from dagster_operators.orchestration.remedies import commands_for
from tests.end_to_end.landing import Landing, keys_of, refused
from tests.engines import SAIL

pytestmark = pytest.mark.usefixtures("sail")


def landed(place: Path) -> Landing:
    landing = Landing(place, SAIL)
    for number in range(3):
        landing.arrive(f"k{number},1,2024-01-01T0{number}:00:00Z")
        landing.pipeline().run_epoch()
    return landing


def copied(landing: Landing) -> None:
    """As by ``cp -r``: every file is there with its bytes, and with the time of the copy."""
    kept = landing.folder.with_name("kept")
    landing.folder.rename(kept)
    shutil.copytree(kept, landing.folder, copy_function=shutil.copyfile)


def test_a_copied_folder_goes_on_when_it_is_said_to_be_the_same(tmp_path: Path) -> None:
    landing = landed(tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in landing.folder.iterdir()}
    copied(landing)
    landing.arrive("k3,1,2024-01-01T03:00:00Z")
    pipeline = landing.pipeline()
    with pytest.raises(BadInputError, match=r"time of change 2023-11-14T22:1\d:20\+00:00 -> .*restore_times") as caught:
        pipeline.run_epoch()
    assert caught.value.where["source"] == "rows"
    command = f"dagster-operators restore-times {landing.root} rows"
    assert f"pipeline.restore_times('rows') (in a shell: `{command}`); else" in caught.value.remedy
    assert commands_for(caught.value, "elsewhere") == (command,)
    with refused(pipeline, BadInputError, "changed after it was taken up"):
        pipeline.run_epoch()
    with pytest.raises(BadInputError, match=r"restore_times\('rows'\) \(in a shell: "):
        pipeline.rebuild("totals")
    found = CliRunner().invoke(main, shlex.split(command)[1:], env={"DAGSTER_OPERATORS_ENGINE": "sail"})
    assert (found.exit_code, found.output) == (0, "rows: 3 files have their times again\n")
    assert {name: (landing.folder / name).stat().st_mtime_ns for name in before} == before
    again = landing.pipeline()
    assert again.run_epoch().rows["clean"] == 1, "only the new file is read"
    assert keys_of(again) == ["k0", "k1", "k2", "k3"]
    again.rebuild("totals")
    assert keys_of(again, "totals") == ["k0", "k1", "k2", "k3"]


def test_a_file_of_another_size_stays_refused(tmp_path: Path) -> None:
    landing = landed(tmp_path)
    touched, grown = landing.folder / "001.csv", landing.folder / "002.csv"
    os.utime(touched)
    grown.write_text(f"{grown.read_text()}k9,1,2024-01-01T01:00:00Z\n")
    pipeline = landing.pipeline()
    with pytest.warns(RuntimeWarning, match=rf"left as they are: {grown} \(\d+ -> \d+ bytes\)$"):
        assert pipeline.restore_times("rows") == [str(touched)]
    found = CliRunner().invoke(main, ["restore-times", str(landing.root), "rows"], env={"DAGSTER_OPERATORS_ENGINE": "sail"})
    assert found.stdout == "rows: 0 files have their times again\n"
    assert found.stderr.startswith("note: files of another size than when they were read")
    assert str(grown) in found.stderr
    with pytest.raises(BadInputError, match="size ") as caught:
        pipeline.run_epoch()
    assert "restore_times" not in caught.value.remedy


def test_an_unread_file_keeps_its_time(tmp_path: Path) -> None:
    landing = landed(tmp_path)
    landing.arrive("k3,1,2024-01-01T03:00:00Z")
    assert landing.pipeline().restore_times("rows") == []


def test_a_source_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"no such source.*name one of: rows"):
        landed(tmp_path).pipeline().restore_times("row")


def test_a_file_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    landing = landed(tmp_path)
    os.utime(landing.folder / "001.csv")

    def refused_by_the_system(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "utime", refused_by_the_system)
    with pytest.raises(PipelineError, match=r"cannot be set .Operation not permitted"):
        landing.pipeline().restore_times("rows")
