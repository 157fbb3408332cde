"""Views over changing tables: after every epoch each answer is DuckDB's over the rows that are there, whatever the epochs."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from jobs.nexmark.reference import difference, rows_of_delta
from jobs.tpch.generator import KEYS, Tpch
from jobs.tpch.job import build
from jobs.tpch.queries import QUERIES
from jobs.tpch.reference import SQL, answers
from jobs.tpch.run import main
from tests.crash.killed import run_and_kill
from tests.engines import EMBEDDED, SAIL

LARGE = 200
"""Beyond this an order is large to q18: at these scales there are some."""


def made(folder: Path, scale: float) -> Tpch:
    """TPC-H's tables; the test is skipped where their generator cannot be had."""
    try:
        return Tpch(folder, scale).make()
    except subprocess.CalledProcessError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"needs tpchgen-cli, which uv could not fetch: {error.stderr.decode()[-300:]}")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Tpch:
    return made(tmp_path_factory.mktemp("tpch"), 0.002)


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory) -> Tpch:
    return made(tmp_path_factory.mktemp("tpch"), 0.01)


def follow(tables: Tpch, folder: Path, steps_per_epoch: int, engine: object, queries: tuple[str, ...] = tuple(QUERIES)) -> None:
    """Every epoch in a pipeline of its own, as after a restart; its answers compared with DuckDB's."""
    tables.write(folder / "changes")
    for end in range(steps_per_epoch, tables.steps + steps_per_epoch, steps_per_epoch):
        pipeline = build(folder, queries, steps_per_epoch=steps_per_epoch, large=LARGE, engine=engine)
        assert not pipeline.run_epoch().empty
        compare(tables, folder, min(end, tables.steps), queries)
    assert pipeline.run_epoch().empty


def compare(tables: Tpch, folder: Path, step: int, queries: tuple[str, ...] = tuple(QUERIES)) -> None:
    snapshot, expected = build(folder, queries, engine=SAIL).snapshot(), answers(tables, step, large=LARGE)
    for query in queries:
        assert expected[query].num_rows, f"{query} is too easy"
        assert not (told := difference(rows_of_delta(snapshot.uri(query)), expected[query])), f"{query} after step {step}: {told}"


def test_there_is_an_answer_to_every_query(tmp_path):
    assert list(QUERIES) == list(SQL)
    assert all(table.description for table in build(tmp_path).tables.values())


def test_changes_add_up_to_the_rows(small):
    """And rows of all kinds change, some of them twice."""
    tables = replace(small, steps=5)
    for name in KEYS:
        there: Counter[tuple[object, ...]] = Counter()
        words: Counter[str] = Counter()
        for step in range(1, tables.steps + 1):
            for *row, op in zip(*tables.changes(name, step).to_pydict().values(), strict=True):
                there[tuple(row)] += 1 if op in {"insert", "update_after"} else -1
                words[op] += step > 1
            assert +there == Counter(zip(*tables.rows(name, step).to_pydict().values(), strict=True))
            assert min(there.values()) >= 0
        assert words["update_before"] == words["update_after"]
        if name in {"orders", "lineitem"}:
            assert min(words[word] for word in ("insert", "update_after", "delete")) > 100
    keys = tables.rows("lineitem", 5).select(["l_orderkey"])
    orders = tables.rows("orders", 5).select(["o_orderkey"])
    assert not keys.join(orders, "l_orderkey", "o_orderkey", "left anti").num_rows  # an order takes its lines along
    other = replace(tables, seed=2)
    assert not other.rows("orders", 3).equals(tables.rows("orders", 3))
    assert isinstance(tables.changes("orders", 2), pa.Table)
    assert tables.changes("orders", 2).equals(replace(tables).changes("orders", 2))


@pytest.mark.usefixtures("sail")
def test_on_sail(small, tmp_path):
    """Those with a semi join and first rows, and an outer join and an aggregate of an aggregate; the slow tests have all."""
    follow(replace(small, steps=2), tmp_path, 1, SAIL, ("q3", "q13"))


@pytest.mark.slow
@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize(("steps", "steps_per_epoch"), [(5, 1), (8, 3), (8, 8)])
def test_any_epochs_on_sail(larger, steps, steps_per_epoch, tmp_path):
    follow(replace(larger, steps=steps, seed=steps_per_epoch), tmp_path, steps_per_epoch, SAIL)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("spark")
def test_on_spark(small, tmp_path):
    follow(replace(small, steps=4), tmp_path, 2, EMBEDDED)


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("sail")
def test_killed_in_the_middle(small, tmp_path, monkeypatch):
    """A process dies with half the files of a stage written, the next one between the commits of two tables."""
    tables = replace(small, steps=4)
    command = ["--folder", str(tmp_path), "--scale", "0.002", "--steps", "4", "--large", str(LARGE)]
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")
    tables.write(tmp_path / "changes")
    (tmp_path / "base").symlink_to(small.base)
    pipeline = build(tmp_path, large=LARGE, engine=SAIL)
    for failpoint, completed in (("stage:half_files#40", 0), ("before:commit_table:2#2", 1)):
        run_and_kill("jobs.tpch.run", [f"main({command!r})"], [failpoint], tmp_path)
        assert len(pipeline.history()) == completed
    epochs = []
    while not (result := build(tmp_path, large=LARGE, engine=SAIL).run_epoch()).empty:
        epochs.append(result.epoch)
        compare(tables, tmp_path, result.epoch)
    assert epochs[-1] == 4


@pytest.mark.usefixtures("sail")
def test_the_command_goes_on_and_tells_of_differences(small, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")
    (tmp_path / "base").symlink_to(small.base)
    command = ["q1", "--folder", str(tmp_path), "--steps", "2", "--check"]
    assert main(command) == 0
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["epoch 1", "q1", "epoch 2", "q1"]
    monkeypatch.setattr("jobs.tpch.run.difference", lambda found, expected: "3 rows missing")
    assert main([*command[:-2], "3", "--check"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].endswith("rows, 3 rows missing")
    with pytest.raises(SystemExit):
        main(["q2", "--folder", str(tmp_path)])
    assert "there is no query q2; there are: q1, q3" in capsys.readouterr().err
