"""Random changes, cut anywhere, through operators one behind the other: what DuckDB computes from the rows that are left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from tests.engines import SAIL
from tests.examples import fresh_examples

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.sail]

Row = dict[str, Any]
QUERIES = {
    "groups": "SELECT k, count(*) AS n, sum(v) AS total, max(v) AS most FROM kept GROUP BY k",
    "frequent": "SELECT k, n, total, most FROM groups WHERE n > 1",
    "by_size": "SELECT n, count(*) AS groups, min(total) AS least, count(DISTINCT most) AS kinds FROM groups GROUP BY n",
    "best": """SELECT n, CAST(place AS INT) AS rank, k, total, most FROM (
        SELECT *, row_number() OVER (PARTITION BY n ORDER BY total DESC NULLS LAST, k NULLS FIRST) AS place FROM groups
    ) WHERE place < 3""",
    "shares": """SELECT n, count(*) AS members, sum(v) AS v FROM
        (SELECT v, n FROM kept LEFT JOIN groups ON kept.k = groups.k) GROUP BY n""",
    "apart": """SELECT CAST(place AS INT) AS rank, k, id, total FROM (
        SELECT *, row_number() OVER (ORDER BY total - v DESC NULLS LAST, id) AS place
        FROM (SELECT kept.k, id, v, total FROM kept JOIN groups ON kept.k = groups.k AND n > 1 AND v < total)
    ) WHERE place < 3""",
    "elements": "SELECT x, count(*) AS n FROM (SELECT unnest([v, -v]) AS x FROM kept) GROUP BY x",
}
COLUMNS = {
    "groups": ("k", "n", "total", "most"),
    "frequent": ("k", "n", "total", "most"),
    "by_size": ("n", "groups", "least", "kinds"),
    "best": ("n", "rank", "k", "total", "most"),
    "shares": ("n", "members", "v"),
    "apart": ("rank", "k", "id", "total"),
    "elements": ("x", "n"),
}


def built(root: Path, batches: list[list[Row]]) -> do.Pipeline:
    pipeline = do.Pipeline("p", root=str(root), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource(batches, schema="id long, k string, v long, at long, gone boolean"))
    kept = rows.to_changes("id", order_by="at", deleted="gone").filter("v IS NULL OR v > -2").select("id", "k", "v")
    groups = kept.key_by("k").aggregate(n="count(*)", total="sum(v)", most="max(v)", name="groups")
    groups.to_table("groups")
    frequent = groups.filter("n > 1")
    frequent.to_table("frequent")
    shares = kept.join(groups, on="k", how="left", columns=["v", "n"])
    shares.key_by("n").aggregate(members="count(*)", v="sum(v)").to_table("shares")
    met = kept.join(frequent, on="k", condition="v < total", columns=["id", "v", "total"])
    met.key_by().top(2, by="total - v DESC, id").to_table("apart")
    by_size = groups.key_by("n")
    by_size.aggregate(groups="count(*)", least="min(total)", kinds="count(DISTINCT most)").to_table("by_size")
    by_size.top(2, by="total DESC, k").to_table("best")
    kept.unnest("array(v, -v) AS x").key_by("x").aggregate(n="count(*)").to_table("elements")
    return pipeline


def computed(rows: list[Row]) -> dict[str, list[tuple[Any, ...]]]:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE rows (id BIGINT, k VARCHAR, v BIGINT)")
        for row in rows:
            connection.execute("INSERT INTO rows VALUES (?, ?, ?)", [row["id"], row["k"], row["v"]])
        connection.execute("CREATE VIEW kept AS SELECT * FROM rows WHERE v IS NULL OR v > -2")
        connection.execute(f"CREATE VIEW groups AS {QUERIES['groups']}")
        return {table: sorted(connection.execute(query).fetchall(), key=repr) for table, query in QUERIES.items()}


change = st.fixed_dictionaries(
    {
        "id": st.integers(0, 5),
        "k": st.sampled_from(["a", "b", "c", None]),
        "v": st.sampled_from([None, -3, -1, 0, 1, 7]),
        "gone": st.booleans(),
    }
)


@fresh_examples(4)
@given(epochs=st.lists(st.lists(change, min_size=1, max_size=8), min_size=1, max_size=5))
def test_random_changes(tmp_path_factory: pytest.TempPathFactory, epochs: list[list[Row]]) -> None:
    current: dict[int, Row] = {}
    batches = []
    for number, epoch in enumerate(epochs):
        batches.append([{**row, "at": number * 100 + place} for place, row in enumerate(epoch)])
        current.update({row["id"]: row for row in epoch})
    pipeline = built(tmp_path_factory.mktemp("changes"), batches)
    pipeline.run_until_caught_up()
    found = {
        table: sorted((tuple(row) for row in pipeline.read(table).select(*columns).collect()), key=repr)
        for table, columns in COLUMNS.items()
    }
    assert found == computed([row for row in current.values() if not row["gone"]])
