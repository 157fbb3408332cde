"""A package of operators in an environment of its own, through the whole stack: plan, stage, worker, state, ledger, Dagster.

It is killed and goes on; an environment without it says which package is missing.
"""

from __future__ import annotations

import json
import signal

import pytest

import dagster_operators as do
from dagster_operators.catalog.loading import catalog
from dagster_operators.errors import PlanError
from dagster_operators.transactions.failpoints import VARIABLE
from tests.outside.environment import Environment, outside
from tests.outside.flow import EACH, EPOCHS, FEW
from tests.outside.limit_package import first

__all__ = ["outside"]

FLOW = ("-m", "tests.outside.flow")
COMMAND = ("-c", "from dagster_operators.cli.main import main; main()")


def expected():
    """What the tables of limits hold, by a plain computation."""
    few, each = first(EPOCHS, FEW), first(EPOCHS, EACH, key=lambda row: row["k"])
    return {"few_rows": told(few), "few_of_each": told(each)}


def told(rows):
    return sorted([row["k"], row["v"], row["t"].isoformat()] for row in rows)


def check(output):
    found = json.loads(output)
    some = found.pop("some_rows")
    assert found == expected()
    keys = {key for key, _, _ in some}
    assert 0 < len(keys) < 9
    assert some == told(row for epoch in EPOCHS for row in epoch if row["k"] in keys)


def test_it_is_installed_there_and_not_here(outside):
    assert outside.told(*FLOW, "where").decode().startswith(str(outside.packages))
    assert catalog().operator("limit") is None
    with pytest.raises(AttributeError, match="has no attribute 'limit'"):
        do.Pipeline("p", root="unused").source("rows", do.MemorySource([], schema="v long")).limit(3)


def test_explain_shows_its_operators_rule_and_lineage_as_those_of_this_package(outside):
    lines = outside.told(*FLOW, "explain").decode().splitlines()
    for line in (
        '  few: limit {"n": 40}',
        '  few_each: limit_per_key {"keys": ["k"], "n": 5}',
        "    shuffle by k; state table state/few_each.taken",
        '  some: sample {"by": ["k"], "percent": 50.0}',
        "  merge_samples: some does what most did, too",
    ):
        assert line in lines
    assert lines[lines.index("  few_of_each") :][:4] == ["  few_of_each", "    k <- rows.k", "    v <- rows.v", "    t <- rows.t"]


def test_a_plan_is_read_there_and_refused_here_with_the_package_that_knows_it(outside, tmp_path):
    plan = outside.told(*FLOW, "plan")
    with pytest.raises(PlanError, match="the kind 'limit', which no installed package knows") as raised:
        do.Pipeline.from_plan(plan, root="unused")
    assert (raised.value.operator, raised.value.package) == ("few", "dagster-operators-limit")
    assert raised.value.remedy == "install dagster-operators-limit 0.1.0"
    (tmp_path / "outside.plan").write_bytes(plan)
    shown = outside.told(*COMMAND, "plan", "show", str(tmp_path / "outside.plan")).decode()
    assert "few <- rows: limit(n=40)" in shown
    assert "dagster-operators-limit 0.1.0" in shown


def test_the_catalog_tells_of_them_there(outside):
    lines = outside.told(*COMMAND, "operators", "--package", "dagster-operators-limit").decode().splitlines()
    assert lines[0].startswith("limit (dagster-operators-limit 0.1.0): Hands on the first rows of a stream")
    assert lines[1] == "  stream.limit; examples/limit/README.md"
    assert [line for line in lines if "keyed_stream.limit" in line]
    page = outside.told(*COMMAND, "operators", "sample", "--markdown").decode()
    assert "[`sample`](examples/limit/README.md) | `stream.sample` |" in page


def test_it_runs_in_workers_and_after_being_killed_goes_on(outside, sail, tmp_path):
    root = str(tmp_path / "root")
    done = outside.run(*FLOW, "run", root, "sail", **{VARIABLE: "after:append_decision"})
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()[-3000:]
    check(outside.told(*FLOW, "run", root, "sail"))


def test_its_operators_are_assets_and_ops_under_dagster(outside, sail):
    found = json.loads(outside.told(*FLOW, "dagster"))
    assert found["success"]
    assert found["ops"] == [f"outside.{op}" for op in ("begin", "commit", "few_of_each", "few_rows", "rows", "some_rows")]
    assert found["operators"]["few_of_each"] == {"rows": "source", "few_each": "limit_per_key of dagster-operators-limit"}
    assert found["rows"]["few_rows"] == len(EPOCHS[0])
    assert found["lineage"] == ["k", "t", "v"]


def test_a_package_that_cannot_be_loaded_is_named(tmp_path):
    broken = Environment.make(tmp_path / "environment")
    folder = broken.packages / "broken-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-operators\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[dagster_operators.operators]\nbroken = no_such_module:register\n")
    done = broken.run(*FLOW, "explain")
    assert done.returncode != 0
    last = done.stderr.decode().splitlines()[-1]
    assert "cannot be loaded from 'no_such_module:register'" in last
    assert "broken-operators" in last


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", [pytest.param("sail", marks=pytest.mark.sail), pytest.param("spark", marks=pytest.mark.spark)])
def test_it_goes_on_after_being_killed_anywhere(outside, engine, tmp_path):
    root = str(tmp_path / "root")
    kills = ["stage:half_files", "stage:files_written", "after:append_prepared", "after:append_decision", "after:commit_table:2"]
    for failpoint in kills if engine == "sail" else ["after:append_decision"]:
        done = outside.run(*FLOW, "run", root, engine, timeout=300, **{VARIABLE: failpoint})
        assert done.returncode == -signal.SIGKILL, (failpoint, done.stderr.decode()[-3000:])
    check(outside.told(*FLOW, "run", root, engine))
