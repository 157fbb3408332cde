"""Taking up an epoch whose input was corrected: nothing is lost, nothing is stuck."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dagster_operators import FileSource, Pipeline
from dagster_operators.errors import BadInputError
from dagster_operators.runtime.engine import Spark


def write(file: Path, text: str, modified: int) -> None:
    file.write_text(text)
    os.utime(file, (modified, modified))


@pytest.mark.sail
def test_an_epoch_that_failed_on_a_bad_file_goes_on_once_the_file_is_corrected(tmp_path: Path) -> None:
    landing = tmp_path / "in"
    landing.mkdir()
    pipeline = Pipeline("p", root=str(tmp_path / "root"), engine=Spark(remote="sail"))
    pipeline.source("rows", FileSource(str(landing), format="csv", schema="k string, v int")).to_table("t")
    write(landing / "a.csv", "k,v\na,1\n", 1_000)
    pipeline.run_epoch()
    write(landing / "b.csv", "k,v\nb,two\n", 2_000)
    with pytest.raises(BadInputError, match=r"b\.csv"):
        pipeline.run_epoch()
    assert pipeline.snapshot().epoch == 1
    write(landing / "b.csv", "k,v\nb,2\n", 3_000)
    write(landing / "c.csv", "k,v\nc,3\n", 4_000)
    assert pipeline.run_epoch().epoch == 2
    assert pipeline.run_epoch().empty
    assert sorted(tuple(row) for row in pipeline.read("t").collect()) == [("a", 1), ("b", 2), ("c", 3)]
