"""Arroyo's case ``debezium_agg`` over generated input of its kind: change events in, an aggregate, change events out.

The output is replayed to a table, as who reads it would do: an insert of a key that is there, or an update or delete of
one that is not, is an error.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

import dagster_operators as do
from tests.crash.killed import run_and_kill
from tests.engines import ENGINES

SCHEMA = "id long, customer_name string, product_name string, quantity int, price double, order_date timestamp, status string"
Order = dict[str, Any]
Table = dict[str, dict[str, Any]]


def events(count: int) -> list[str]:
    """Orders that are placed, change and are cancelled, as PostgreSQL's connector tells them."""
    chance = random.Random(count)  # noqa: S311 - the same events each time
    there: dict[int, Order] = {}
    lines = []
    for number in range(count):
        kind = chance.choice("cccuud") if there else "c"
        key = 3107 + number if kind == "c" else chance.choice(sorted(there))
        before = there.pop(key, None)
        after = None
        if kind != "d":
            after = there[key] = {
                "id": key, "customer_name": chance.choice(["Ann", "Bo", "Cy"]) + str(chance.randrange(9)),
                "product_name": chance.choice(("Mouse", "Monitor", "Desk") if number < count / 2 else ("Mouse", "Lamp")),
                "quantity": chance.randrange(1, 6), "price": chance.randrange(100, 200_000) / 100,
                "order_date": 1_734_539_354_748_899 + 37_000 * number, "status": "Shipped",
            }  # fmt: skip
        of_source = {"connector": "postgresql", "db": "testdb", "table": "orders", "lsn": number}
        lines.append(json.dumps({"before": before, "after": after, "source": of_source, "op": kind, "ts_ms": number}))
    return lines


def write(lines: list[str], folder: Path, size: int) -> Path:
    """The events in files of so many."""
    folder.mkdir()
    for number, start in enumerate(range(0, len(lines), size)):
        path = folder / f"{number:06d}.json"
        path.write_text("\n".join(lines[start : start + size]) + "\n", encoding="utf-8")
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    return folder


def build(root: str, folder: str, engine: str, parallelism: int = 1) -> do.Pipeline:
    pipeline = do.Pipeline("case", root=f"{root}/root", engine=ENGINES[engine], parallelism=parallelism)
    source = do.FileSource(f"{folder}/*.json", format="debezium-json", schema=SCHEMA, key="id", max_files=1)
    orders = pipeline.source("orders", source).with_columns(id="concat('p_', product_name)")
    products = orders.key_by("id").aggregate(c="count(*)", d="count(DISTINCT customer_name)", q="sum(quantity + 5) + 10")
    products.to_table("products")
    products.to_changes().to_sink(do.FileSink(f"{root}/out", format="debezium-json", key="id"), name="out")
    return pipeline


def run(root: str, folder: str, engine: str) -> None:
    build(root, folder, engine).run_until_caught_up()


def expected(lines: list[str]) -> Table:
    orders: dict[int, Order] = {}
    for line in lines:
        event = json.loads(line)
        if event["before"] is not None:
            orders.pop(event["before"]["id"])
        if event["after"] is not None:
            orders[event["after"]["id"]] = event["after"]
    found = {}
    for product in {order["product_name"] for order in orders.values()}:
        mine = [order for order in orders.values() if order["product_name"] == product]
        q = sum(order["quantity"] + 5 for order in mine) + 10
        key = f"p_{product}"
        found[key] = {"id": key, "c": len(mine), "d": len({order["customer_name"] for order in mine}), "q": q}
    return found


def replayed(folder: Path) -> Table:
    table: Table = {}
    for path in sorted(folder.glob("*.json")):
        for line in path.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            event = event.get("payload", event)
            if event["op"] != "c":
                assert table.pop(event["before"]["id"]) == event["before"]
            if event["op"] != "d":
                assert event["after"]["id"] not in table
                table[event["after"]["id"]] = event["after"]
    return table


def check(pipeline: do.Pipeline, root: Path, lines: list[str]) -> None:
    assert replayed(root / "out") == expected(lines)
    assert {row.id: row.asDict() for row in pipeline.read("products").collect()} == expected(lines)


@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize(
    ("count", "size", "parallelism"), [(160, 40, 3), (160, 500, 1), pytest.param(12, 1, 3, marks=pytest.mark.slow)]
)
def test_on_sail(count: int, size: int, parallelism: int, tmp_path: Path) -> None:
    lines = events(count)
    pipeline = build(str(tmp_path), str(write(lines, tmp_path / "in", size)), "sail", parallelism)
    pipeline.run_until_caught_up()
    check(pipeline, tmp_path, lines)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(("count", "size", "parallelism"), [(12, 3, 3), (160, 60, 1), (830, 830, 3)])
def test_on_spark(count: int, size: int, parallelism: int, tmp_path: Path) -> None:
    lines = events(count)
    pipeline = build(str(tmp_path), str(write(lines, tmp_path / "in", size)), "spark", parallelism)
    pipeline.run_until_caught_up()
    check(pipeline, tmp_path, lines)


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.timeout(900)
@pytest.mark.parametrize("engine", [pytest.param("sail", marks=pytest.mark.sail), pytest.param("spark", marks=pytest.mark.spark)])
def test_killed_in_the_middle(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Once with half of an epoch's files written, and once between the commits of table and sink; on Spark just there."""
    lines = events(160)
    folder = write(lines, tmp_path / "in", 40 if engine == "sail" else 60)
    failpoints = ["stage:half_files#9", "before:commit_participant#2"][engine == "spark" :]
    call = f"run({str(tmp_path)!r}, {str(folder)!r}, {engine!r})"
    run_and_kill(__name__, [call] * len(failpoints), failpoints, tmp_path)
    request.getfixturevalue(engine)
    pipeline = build(str(tmp_path), str(folder), engine)
    pipeline.run_until_caught_up()
    check(pipeline, tmp_path, lines)
