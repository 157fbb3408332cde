"""Write the page: ``python -m tests.conformance``."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.conformance.comparison import PAGE
from tests.conformance.page import asked_of, page
from tests.engines import EMBEDDED, SAIL


def main() -> None:
    """Ask both engines."""
    found = []
    for engine in (EMBEDDED, SAIL):
        with TemporaryDirectory() as folder:
            found.append(asked_of(engine.session(), Path(folder)))
    PAGE.write_text(page(*found, version("pysail")), encoding="utf-8")


if __name__ == "__main__":
    main()
