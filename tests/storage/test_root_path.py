"""A root is where its path says, on both engines and whatever is in its name, or it is refused before anything is written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import dagster_operators as do
from dagster_operators.connectors.change_feed import read_change_feed
from dagster_operators.errors import BadInputError, PipelineError
from dagster_operators.storage.delta_log import DeltaLog
from dagster_operators.storage.location import FileLocation, spelled_out
from dagster_operators.storage.root import Root
from dagster_operators.storage.uri import absolute, ambiguous_sign
from tests.engines import ENGINES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ODD = " a b%{x}{a,b}[1]*?'\"`ü😀#;&=+$~,!@^|<>50%2" + "x" * 160
"""Signs that mean something to a shell, in globs, in URLs or in text that is filled in; 200 characters."""

ROWS = [[{"k": "a", "v": 1}, {"k": "b", "v": 2}], [{"k": "a", "v": 3}]]

AMBIGUOUS = ["a%20b", "a%2Fb", "%41", "a\\b", "a\nb", "a\x01b", "a\x7fb", "a\udcffb"]
"""Names that deltalake takes for others, or not at all."""


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_a_root_with_any_signs_holds_what_a_plain_one_does(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    request.getfixturevalue(engine)
    odd = tmp_path / ODD
    odd.mkdir()
    (odd / "up").symlink_to(tmp_path, target_is_directory=True)
    monkeypatch.chdir(odd)
    roots = [str(odd / "whole"), "here {y}", f"up/{ODD}/../linked"][: 1 if engine == "spark" else 3]
    for root in roots:
        pipeline = do.Pipeline("p", root=root, engine=ENGINES[engine])
        rows = pipeline.source("rows", do.MemorySource(ROWS, schema="k string, v long"))
        rows.key_by("k").aggregate(v="sum(v)", name="sums").to_table("sums")
        assert [pipeline.run_epoch().rows for _ in range(2)] == [{"sums": 2}, {"sums": 1}]
        assert sorted((row.k, row.v) for row in pipeline.read("sums").collect()) == [("a", 4), ("b", 2)]
        assert pipeline.to_arrow("sums").num_rows == 2
    assert {path.name for path in odd.iterdir()} == {"up", "whole"} | ({"here {y}"} if len(roots) > 1 else set())
    assert (tmp_path / "linked").is_dir() is (len(roots) > 1), "what is above a link is above the folder that it names"


@pytest.mark.parametrize("name", AMBIGUOUS, ids=ascii)
def test_a_root_or_table_whose_path_libraries_read_differently_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="path of the storage root") as caught:
        do.Pipeline("p", root=str(tmp_path / name))
    assert str(caught.value).encode()
    with pytest.raises(PipelineError, match="path of a Delta table"):
        DeltaLog(FileLocation(str(tmp_path / name), is_folder=True))
    assert not list(tmp_path.iterdir())


def test_a_link_to_such_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a%20b").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a%20b", target_is_directory=True)
    with pytest.raises(PipelineError, match="%20"):
        Root(str(tmp_path / "link" / "root"))


@pytest.mark.parametrize(
    "uri", ["", "file://data/root", "file:/data", "s3://lake/a?b", "s3://lake/a%20b", "a/_delta_log", "s3://a/_delta_log/b"]
)
def test_a_path_of_no_folder_is_refused(uri: str) -> None:
    with pytest.raises(PipelineError):
        Root(uri)
    assert not ambiguous_sign("s3://lake/a b/{x}")


def test_a_change_feed_that_deltalake_would_panic_at_is_refused(tmp_path: Path, sail: SparkSession) -> None:
    log = DeltaLog(FileLocation(str(tmp_path / "t[1]"), is_folder=True))
    with pytest.raises(BadInputError, match=r"has \[ in it"):
        read_change_feed(sail, log, 0, 1, '{"type":"struct","fields":[]}')


def test_dots_lead_where_the_file_system_goes(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "er", target_is_directory=True)
    through = f"{tmp_path}/link/../x"
    assert absolute(through) == spelled_out(through) == os.path.realpath(through) == f"{tmp_path}/deep/x"
    assert spelled_out(f"{tmp_path}/link/*.csv") == f"{tmp_path}/link/*.csv"
    assert spelled_out(f"{tmp_path}/in/../*/..x") == f"{tmp_path}/*/..x"


def test_an_absolute_path_needs_no_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert spelled_out(f"{tmp_path}/x/../*.csv") == f"{os.path.realpath(tmp_path)}/*.csv"
    assert DeltaLog(FileLocation(str(tmp_path / "t"), is_folder=True))._address == str(tmp_path / "t")
