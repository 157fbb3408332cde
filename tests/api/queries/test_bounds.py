"""YAML of somebody else: what is long is neither read for ever nor echoed, and a file beside it is not imported for another."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dagster_operators.api.queries.located import read_yaml
from dagster_operators.cli.dataflow import _pipeline
from dagster_operators.cli.plans import pipeline_in
from dagster_operators.errors import OperatorsError, QueryError


def test_a_long_number_is_not_echoed() -> None:
    with pytest.raises(QueryError, match="is no number") as caught:
        read_yaml("a: " + "1" * 20_000)
    assert len(str(caught.value)) < 500


def test_a_long_text_is_refused_before_it_is_read() -> None:
    with pytest.raises(QueryError, match="may have 2000000"):
        read_yaml("a: " + "x" * 2_000_000)


def test_the_current_folder_is_looked_into_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "flow.yml"
    file.write_text("pipeline: [")
    for read in (lambda: _pipeline(file, "root"), lambda: pipeline_in(file.open("rb"), "root")):
        first = next(path for path in sys.path if path)
        monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
        with pytest.raises(OperatorsError):
            read()
        assert (sys.path[-1], sys.path[0]) == ("", first)
