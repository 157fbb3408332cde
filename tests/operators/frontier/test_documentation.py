"""The examples of the pages in ``docs/`` say what happens."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize(("page", "examples"), [("frontier_operators", 20), ("frontier_ports", 20), ("frontier_loops", 5)])
def test_the_examples_of_the_page_hold(page: str, examples: int) -> None:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    programs = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    test = doctest.DocTestParser().get_doctest(programs, {}, page, page, 0)
    assert len(test.examples) >= examples
    results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
    assert not results.failed
