"""The examples of the page in ``docs/`` say what happens."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "frontier_operators.md"


def test_the_examples_of_the_page_hold():
    text = PAGE.read_text(encoding="utf-8")
    examples = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    test = doctest.DocTestParser().get_doctest(examples, {}, PAGE.name, str(PAGE), 0)
    assert len(test.examples) > 10
    results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
    assert not results.failed
