"""Globs match what a shell matches, in a time that stars do not make longer, or are refused."""

from __future__ import annotations

import fnmatch
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_operators.errors import LedgerError, PipelineError
from dagster_operators.storage.globs import glob_regex
from dagster_operators.storage.location import SourceFile

SIGNS = st.lists(st.sampled_from(["*", "**", "a", "b", "?", "[ab]", "[!a]"]), max_size=8).map("".join)


def matches(glob: str, path: str) -> bool:
    return re.fullmatch(glob_regex(glob), path, re.DOTALL) is not None


@settings(max_examples=300, deadline=None)
@given(SIGNS.filter(lambda glob: glob.count("**") < 3), st.text("ab.", max_size=9))
def test_within_a_folder_globs_are_those_of_a_shell(glob: str, name: str) -> None:
    assert matches(glob, name) == fnmatch.fnmatchcase(name, glob)


@pytest.mark.parametrize(
    ("glob", "path", "matched"),
    [
        ("**/x*y", "x1/x2y", True),
        ("*/*.csv", "a/b/c.csv", False),
        ("**/*.csv", "c.csv", True),
        ("*{ab,a}*b", "ab", True),
        ("{*b,a?}/{c,d}", "ac/d", True),
        ("{*b,a?}/{c,d}", "ac/e", False),
        ("a*b*c/d*e", "aabbc/de", True),
    ],
)
def test_stars_braces_and_folders(glob: str, path: str, *, matched: bool) -> None:
    assert matches(glob, path) is matched


def test_many_stars_are_matched_before_the_end_of_time() -> None:
    assert not matches("a*" * 100 + "c", "a" * 250 + "b")


@pytest.mark.parametrize("glob", ["**/a" * 4, "{a,b}" * 10, "{a,b}" * 1000])
def test_a_glob_that_would_take_long_is_refused(glob: str) -> None:
    with pytest.raises(PipelineError, match="more than"):
        glob_regex(glob)


def test_a_file_of_an_epoch_is_below_its_source() -> None:
    assert SourceFile.from_json(SourceFile(1, "a/b..csv", 2).to_json()).path == "a/b..csv"
    with pytest.raises(LedgerError, match="outside"):
        SourceFile.from_json(["a/../../etc/passwd", 1, 2])
