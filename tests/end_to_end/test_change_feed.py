"""The change data feed of our own tables: what Delta's readers get of it makes every version out of the one before."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import ChangedPipelineError
from dagster_operators.runtime.stages import updating_table
from tests.engines import ENGINES, SAIL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dagster_operators.runtime.engine import Spark

SCHEMA: Final = "k string, id long, v double, gone boolean, n long"
TABLES: Final = ("totals", "current", "largest", "everything")
Epoch = list[dict[str, Any]]


def row(key: str | None, id_: int, v: float | None, n: int, *, gone: bool = False) -> dict[str, Any]:
    return {"k": key, "id": id_, "v": v, "gone": gone, "n": n}


def build(root: Path, epochs: Sequence[Epoch], engine: Spark = SAIL, *, feed: bool = True) -> do.Pipeline:
    """One table of every kind: an aggregate, current rows that may be deleted, places that move, all rows."""
    pipeline = do.Pipeline("shop", root=str(root), engine=engine)
    rows = pipeline.source("rows", do.MemorySource(epochs, schema=SCHEMA))
    changes = rows.to_changes("id", order_by="n", deleted="gone")
    changes.key_by("k").aggregate(rows="count(*)", largest="max(v)").to_table("totals", change_feed=feed)
    changes.latest("id").to_table("current", change_feed=feed)
    changes.key_by("k").top(2, by="v DESC").to_table("largest", change_feed=feed)
    changes.key_by().aggregate(rows="count(*)").to_table("everything", change_feed=feed)
    return pipeline


def rows_of(found: pa.Table) -> Counter[tuple[Any, ...]]:
    """Rows with how often each is there; a NaN is equal to itself."""
    return Counter(
        tuple((name, repr(value)) for name, value in sorted(one.items()) if not name.startswith("_")) for one in found.to_pylist()
    )


def changes_by_version(feed: Iterable[Mapping[str, Any]]) -> dict[int, dict[str, Counter[tuple[Any, ...]]]]:
    found: dict[int, dict[str, Counter[tuple[Any, ...]]]] = {}
    for one in feed:
        values = tuple((name, repr(value)) for name, value in sorted(one.items()) if not name.startswith("_"))
        found.setdefault(one["_commit_version"], {}).setdefault(one["_change_type"], Counter())[values] += 1
    return found


def check_feed(root: Path, table: str, feed: Sequence[Mapping[str, Any]], first: int = 0) -> None:
    """Every version is the one before with its changes, and no change says what was so already."""
    path = f"{root}/tables/{table}"
    changes = changes_by_version(feed)
    now = rows_of(DeltaTable(path, version=first - 1).to_pyarrow_table()) if first else Counter[tuple[Any, ...]]()
    for version in range(first, DeltaTable(path).version() + 1):
        made = changes.pop(version, {})
        removed = made.get("delete", Counter()) + made.get("update_preimage", Counter())
        added = made.get("insert", Counter()) + made.get("update_postimage", Counter())
        assert not removed - now, "what was not there is taken back"
        assert not removed & added, "what stays as it is has changes"
        assert made.get("update_preimage", Counter()).total() == made.get("update_postimage", Counter()).total()
        now = now - removed + added
        assert now == rows_of(DeltaTable(path, version=version).to_pyarrow_table()), (table, version)
    assert not changes, "changes of versions that are not there"


def feed_of(root: Path, table: str, first: int = 0) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pa.table(DeltaTable(f"{root}/tables/{table}").load_cdf(starting_version=first)).to_pylist()
    return found


EPOCHS: Final = [
    [row("a", 1, 1.0, 1), row("a", 2, 2.0, 1), row(None, 3, float("nan"), 1)],
    [row("a", 1, 1.0, 2), row("b", 4, -0.0, 2)],
    [row("b", 2, 3.0, 3), row(None, 3, None, 3, gone=True)],
    [row("a", 1, 1.0, 4, gone=True), row("b", 2, 3.0, 4, gone=True), row("b", 4, 0.0, 4, gone=True)],
]


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.slow)])
def test_a_feed_tells_inserts_deletes_and_both_sides_of_updates(tmp_path: Path, engine: str) -> None:
    build(tmp_path, EPOCHS, ENGINES[engine]).run_until_caught_up()
    for table in TABLES:
        check_feed(tmp_path, table, feed_of(tmp_path, table))
    told = [(one["_commit_version"], one["_change_type"], one["rows"]) for one in feed_of(tmp_path, "totals") if one["k"] == "a"]
    assert sorted(told) == [
        (1, "insert", 2), (3, "update_postimage", 1), (3, "update_preimage", 2), (4, "delete", 1),
    ]  # fmt: skip


@pytest.mark.sail
@settings(max_examples=4, deadline=None)
@given(
    st.lists(
        st.lists(
            st.builds(
                row,
                st.sampled_from(["a", "b", None]),
                st.integers(1, 4),
                st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")]),
                st.integers(0, 3),
                gone=st.booleans(),
            ),
            min_size=1,
            max_size=5,
        ),
        min_size=2,
        max_size=4,
    ),
    st.booleans(),
)
def test_any_feed_makes_every_version(tmp_path_factory: pytest.TempPathFactory, epochs: list[Epoch], small: bool) -> None:  # noqa: FBT001 - hypothesis draws it
    root = tmp_path_factory.mktemp("feed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(updating_table, "HERE", updating_table.HERE if small else 0)
        build(root, epochs).run_until_caught_up()
    for table in TABLES:
        check_feed(root, table, feed_of(root, table))


@pytest.mark.sail
def test_files_that_are_joined_on_the_way_change_nothing(tmp_path: Path) -> None:
    epochs = [[row("k", number, 0.5, 1)] for number in range(9)]
    pipeline = do.Pipeline("shop", root=str(tmp_path), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource(epochs, schema=SCHEMA))
    rows.key_by("id").aggregate(rows="count(*)").to_table("totals", change_feed=True)
    pipeline.run_until_caught_up()
    assert len(DeltaTable(f"{tmp_path}/tables/totals").file_uris()) < len(epochs), "none was joined: this test shows nothing"
    told = feed_of(tmp_path, "totals")
    assert [one["_change_type"] for one in told] == ["insert"] * len(epochs)
    check_feed(tmp_path, "totals", told)


@pytest.mark.spark
def test_spark_reads_the_feed(tmp_path: Path, spark: Any) -> None:
    build(tmp_path, EPOCHS, SAIL).run_until_caught_up()
    for table in ("totals", "current"):
        reader = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0)
        check_feed(tmp_path, table, [one.asDict() for one in reader.load(f"{tmp_path}/tables/{table}").collect()])


@pytest.mark.sail
def test_a_second_pipeline_follows_the_feed(tmp_path: Path) -> None:
    shop = build(tmp_path / "shop", EPOCHS)
    follower = do.Pipeline("follower", root=str(tmp_path / "follower"), engine=SAIL)
    source = do.DeltaSource(f"{tmp_path}/shop/tables/current", changes=True)
    follower.source("orders", source).as_changes().latest("id").to_table("copy")
    for _ in EPOCHS:
        shop.run_epoch()
        follower.run_until_caught_up()
        copy, original = (
            DeltaTable(f"{tmp_path}/{name}").to_pyarrow_table() for name in ("follower/tables/copy", "shop/tables/current")
        )
        assert rows_of(copy) == rows_of(original)


@pytest.mark.sail
def test_a_table_that_is_there_gets_a_feed_and_keeps_it(tmp_path: Path) -> None:
    pipeline = build(tmp_path, EPOCHS[:2], feed=False)
    pipeline.run_until_caught_up()
    build(tmp_path, EPOCHS[:3]).run_until_caught_up()
    assert DeltaTable(f"{tmp_path}/tables/totals").protocol().min_writer_version == 4
    last = build(tmp_path, EPOCHS)
    last.run_until_caught_up()
    for table in TABLES:
        check_feed(tmp_path, table, feed_of(tmp_path, table, 3), 3)
    last.rollback(2)
    assert rows_of(DeltaTable(f"{tmp_path}/tables/totals").to_pyarrow_table()) == rows_of(
        DeltaTable(f"{tmp_path}/tables/totals", version=2).to_pyarrow_table()
    )


def test_a_root_without_conditional_writes_has_no_feed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pipeline = build(tmp_path, EPOCHS)
    monkeypatch.setattr(pipeline.epochs.coordinator.root, "creates", False)
    with pytest.raises(ChangedPipelineError, match="can have no change data feed") as raised:
        pipeline.run_epoch()
    assert "PipelineSource with changes=True" in raised.value.remedy
