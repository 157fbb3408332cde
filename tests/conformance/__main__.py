"""Write the page: ``python -m tests.conformance``."""

from __future__ import annotations

import tempfile
from importlib.metadata import version
from pathlib import Path

from tests.conformance.comparison import PAGE, answers, expressions, one_row, page
from tests.engines import EMBEDDED, SAIL


def main() -> None:
    """Ask both engines."""
    found = []
    for engine in (EMBEDDED, SAIL):
        with tempfile.TemporaryDirectory() as folder:
            found.append(answers(one_row(engine.session(), Path(folder)), expressions()))
    PAGE.write_text(page(*found, version("pysail")), encoding="utf-8")


if __name__ == "__main__":
    main()
