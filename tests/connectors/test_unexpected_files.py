"""A glob that matches none of the files that are there is told, and no error: they may come."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import dagster_operators as do


def test_a_glob_that_matches_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("v\n1\n")
    source = do.FileSource(str(tmp_path / "*.cvs"), schema="v long")
    with pytest.warns(RuntimeWarning, match=r"no file matches .*\*\.cvs, and nothing is read .* there are a\.csv$"):
        assert source.choose(None, lambda: iter(())) is None


def test_files_that_have_not_come_yet(tmp_path: Path) -> None:
    source = do.FileSource(str(tmp_path / "*.csv"), schema="v long")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert source.choose(None, lambda: iter(())) is None
        (tmp_path / "a.csv").write_text("v\n1\n")
        assert source.choose(None, lambda: iter(())) is not None
