"""``doctor --deep``: a bit that flipped in a data file, or in the statistics of a table's log, is named with what settles it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from dagster_operators import MemorySource, Pipeline
from dagster_operators.cli.main import main

pytestmark = pytest.mark.usefixtures("sail")


def pipeline_of(root: Path) -> Pipeline:
    made = Pipeline("p", root=str(root), engine="sail")
    rows = made.source("rows", MemorySource([[("a", n), ("b", 2 * n)] for n in range(2)], schema="k string, v long"))
    rows.to_table("raw")
    rows.key_by("k").aggregate(n="sum(v)", c="count(DISTINCT v)", name="per_key").to_table("totals")
    return made


def examined(root: Path) -> str:
    return next(
        line for line in CliRunner().invoke(main, ["doctor", str(root), "--deep"]).output.splitlines() if "files:" in line
    )


def rows_of(root: Path) -> list[str]:
    return sorted(map(str, pipeline_of(root).to_arrow("totals").to_pylist()))


def test_what_it_finds(tmp_path: Path) -> None:
    base = tmp_path / "base"
    pipeline_of(base).run_until_caught_up()
    assert examined(base).startswith("ok ")
    wanted = rows_of(base)
    for number, hurt in enumerate(("data", "statistics")):
        root = tmp_path / str(number)
        shutil.copytree(base, root, copy_function=shutil.copy2)
        if hurt == "data":
            path = next((root / "state").rglob("*.parquet"))
            written = bytearray(path.read_bytes())
            written[4:12] = bytes(8)
            path.write_bytes(written)
        else:
            path = next(log for log in sorted((root / "tables/raw/_delta_log").glob("*.json")) if "minValues" in log.read_text())
            text = path.read_text().replace("dagster_operators.digest", "of_another_writer")
            path.write_text(re.sub(r'(minValues\\": \{[^}]*\\"v\\": )\d', r"\g<1>7", text))
        told = examined(root)
        assert told.startswith("error"), hurt
        rebuild = re.search(r"dagster-operators (rebuild .*?) computes anew", told)
        assert rebuild, told
        operator = re.search(r"--operator (\w+)", rebuild[1])
        pipeline_of(root).rebuild(operators=operator[1]) if operator else pipeline_of(root).rebuild("raw")
        assert examined(root).startswith("ok "), hurt
        assert rows_of(root) == wanted
