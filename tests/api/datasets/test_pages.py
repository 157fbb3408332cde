"""The examples of the pages on data sets are run."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

pytestmark = [pytest.mark.in_process, pytest.mark.sail]
DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("page", ["data_sets", "data_set_operators"])
def test_the_examples_give_what_the_page_says(page):
    results = doctest.testfile(str(DOCS / f"{page}.md"), module_relative=False)
    assert results.attempted > 10
    assert not results.failed
