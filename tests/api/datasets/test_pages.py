"""The examples of the pages on data sets are run."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

pytestmark = [pytest.mark.in_process, pytest.mark.sail]
DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("page", ["data_sets", "data_sets_over_epochs", "data_set_operators", "from_flink", "optimizer"])
def test_the_examples_give_what_the_page_says(page):
    results = doctest.testfile(str(DOCS / f"{page}.md"), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert results.attempted > 10
    assert not results.failed


def test_the_picture_of_the_page_is_the_one_that_it_draws():
    """To draw it anew after a change: write what the page's ``svg`` is to the file."""
    page = DOCS / "optimizer.md"
    program = doctest.DocTestParser().get_doctest(page.read_text(), {}, page.name, str(page), 0)
    doctest.DocTestRunner(verbose=False).run(program, out=lambda _: None, clear_globs=False)
    assert program.globs["svg"] == (DOCS / "pictures" / "plan.svg").read_text(encoding="utf-8")
