"""What a file holds of the changed keys is what a plain comparison says, and files of other keys are not read."""

from __future__ import annotations

import json
import math
import tempfile
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import example, given
from hypothesis import strategies as st

from dagster_operators.runtime.stages import changed_keys
from dagster_operators.runtime.stages.changed_keys import ChangedKeys, Held
from dagster_operators.runtime.stages.staged_rows import arrow_schema
from dagster_operators.state import key_hash
from dagster_operators.storage.parquet_stats import delta_stats
from dagster_operators.storage.root import Root
from dagster_operators.transactions.manifest import FileEntry
from tests.examples import fresh_examples

if TYPE_CHECKING:
    import pytest

VALUES: dict[str, list[Any]] = {
    "long": [0, 1, -1, 2**62, 7, None],
    "short": [0, 1, -3, None],
    "string": ["", "a", "B", "é" * 40, None],
    "double": [0.0, -0.0, math.nan, 1.5, None],
    "float": [0.0, -0.0, math.nan, None],
    "boolean": [True, False, None],
    "date": [date(2024, 2, 29), date(1582, 10, 4), None],
    "timestamp": [
        datetime(2024, 2, 29, 1, 2, 3, 4, UTC),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, tzinfo=UTC),
        None,
    ],
    "decimal(20,2)": [Decimal("1.50"), Decimal("-3.00"), None],
    "binary": [b"", b"\x00\xff", None],
}
Keys = list[tuple[Any, ...]]


def schema_of(types: tuple[str, ...]) -> str:
    fields = [{"name": f"k{n}", "type": kind, "nullable": True, "metadata": {}} for n, kind in enumerate(types)]
    return json.dumps({"type": "struct", "fields": fields})


def write(folder: Path, name: str, keys: Keys, schema: pa.Schema) -> FileEntry:
    name = f"e1-g1-0a/{name}"
    (folder / "tables/t/e1-g1-0a").mkdir(parents=True, exist_ok=True)
    columns = [pa.array([key[n] for key in keys], field.type) for n, field in enumerate(schema)]
    file = folder / "tables/t" / name
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), file)
    return FileEntry(name, file.stat().st_size, len(keys), delta_stats(pq.read_metadata(file)))


def same(value: Any) -> Any:
    """Equal for values that Spark takes for the same key."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[str, ...], Keys, list[Keys]]:
    types = tuple(draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=2)))
    key = st.tuples(*(st.sampled_from(VALUES[kind]) for kind in types))
    changed = draw(st.lists(key, max_size=6, unique_by=lambda key: tuple(map(same, key))))
    return types, changed, draw(st.lists(st.lists(key, min_size=1, max_size=6), min_size=1, max_size=4))


def plainly(changed: Keys, keys: Keys) -> Held:
    wanted = {tuple(map(same, key)) for key in changed}
    found = [tuple(map(same, key)) in wanted for key in keys]
    return Held.ALL if all(found) else Held.SOME if any(found) else Held.NONE


@fresh_examples(60)
@example((("long",), [(None,)], [[(None,)], [(1,)], [(1,), (None,)]]))
@example((("long",), [(None,), (7,), (8,), (9,)], [[(None,), (0,)], [(0,), (1,)]]))  # null lies within no bounds
@example((("double", "string"), [(-0.0, None), (math.nan, "a")], [[(0.0, None)], [(math.nan, "a")], [(0.0, "a")]]))
@example((("binary", "binary"), [(b"", None)], [[(None, b"")]]))  # their hashes are equal
@example((("binary", "binary"), [(b"", None), (None, b"")], [[(b"", b"")], [(b"", None)]]))
@given(cases())
def test_files_hold_what_a_comparison_finds(case: tuple[tuple[str, ...], Keys, list[Keys]]) -> None:
    types, changed, files = case
    schema_json = schema_of(types)
    schema, names = arrow_schema(schema_json), [f"k{n}" for n in range(len(types))]
    with tempfile.TemporaryDirectory() as folder:
        root = Root(folder)
        half = len(changed) // 2
        entries = [
            write(Path(folder), f"new-{n}", part, schema) for n, part in enumerate((changed[:half], changed[half:])) if part
        ]
        stored = [write(Path(folder), f"old-{n}", keys, schema) for n, keys in enumerate(files)]
        keys = ChangedKeys(root, "tables/t", entries, schema_json, names)
        held = keys.held_by("tables/t", stored)
        exactly = [plainly(changed, keys) for keys in files]
        if changed and not keys.are_exact:  # two of them have one hash: files may be taken to hold some that hold none, or all
            assert all(held[file.path] in (found, Held.SOME) for file, found in zip(stored, exactly, strict=True))
            return
        assert [held[file.path] for file in stored] == exactly
        if changed:
            for file, rows in zip(stored, files, strict=True):
                batch = pq.read_table(Path(folder, "tables/t", file.path), schema=schema).to_batches()[0]
                assert keys.among(batch).tolist() == [plainly(changed, [row]) is Held.ALL for row in rows]


def numbers(folder: Path, *ranges: range) -> list[FileEntry]:
    schema = arrow_schema(schema_of(("long",)))
    return [write(folder, f"{keys.start}-{keys.stop}-{n}", [(key,) for key in keys], schema) for n, keys in enumerate(ranges)]


def keys_of(folder: Path, entries: list[FileEntry]) -> ChangedKeys:
    return ChangedKeys(Root(str(folder)), "tables/t", entries, schema_of(("long",)), ["k0"])


def test_files_of_other_keys_are_not_read(tmp_path: Path) -> None:
    changed, low, high, touched = numbers(tmp_path, range(10, 20), range(10), range(20, 30), range(15, 25))
    for file in (low, high):
        (tmp_path / "tables/t" / file.path).unlink()
    held = keys_of(tmp_path, [changed]).held_by("tables/t", [low, high, touched])
    assert list(held.values()) == [Held.NONE, Held.NONE, Held.SOME]


def test_a_file_without_bounds_is_looked_into(tmp_path: Path) -> None:
    changed, low, touched = numbers(tmp_path, range(10, 20), range(10), range(12, 14))
    unknown = [FileEntry(file.path, file.size, file.rows) for file in (low, touched)]
    assert list(keys_of(tmp_path, [changed]).held_by("tables/t", unknown).values()) == [Held.NONE, Held.ALL]


def test_keys_that_come_again_and_again(tmp_path: Path) -> None:
    schema = arrow_schema(schema_of(("long",)))
    changed = write(tmp_path, "new", [(1,), (2,), (None,), (1,), (None,), (1,)], schema)
    keys = keys_of(tmp_path, [changed])
    assert keys.are_exact
    same, more = (write(tmp_path, f"old-{n}", rows, schema) for n, rows in enumerate([[(2,), (None,), (1,)], [(1,), (0,)]]))
    assert list(keys.held_by("tables/t", [same, more]).values()) == [Held.ALL, Held.SOME]


def test_files_of_others_are_not_looked_into(tmp_path: Path) -> None:
    changed, file = numbers(tmp_path, range(10, 20), range(12, 14))
    theirs = FileEntry("part-0.parquet", file.size, file.rows, file.stats)
    assert keys_of(tmp_path, [changed]).held_by("tables/t", [theirs]) == {"part-0.parquet": Held.SOME}


def test_too_many_keys_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_keys, "MOST", 9)
    changed, low, within, same = numbers(tmp_path, range(10, 20), range(10), range(12, 14), range(10, 20))
    keys = keys_of(tmp_path, [changed])
    assert list(keys.held_by("tables/t", [low, within, same]).values()) == [Held.NONE, Held.SOME, Held.SOME]
    assert not keys.are_known
    monkeypatch.undo()
    monkeypatch.setattr(changed_keys, "_MOST_BYTES", 79)
    assert not keys_of(tmp_path, [changed]).are_known


def test_equal_hashes_of_different_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file may be read for nothing, but no row is taken for one that changed."""
    hash_columns = key_hash.hash_columns
    monkeypatch.setattr(key_hash, "hash_columns", lambda columns: hash_columns(columns) * 0)
    changed, same, others = numbers(tmp_path, range(10, 11), range(10, 11), range(10, 30))
    other = write(tmp_path, "other", [(11,), (10**6,)], arrow_schema(schema_of(("long",))))
    unbounded = FileEntry(other.path, other.size, other.rows)
    keys = keys_of(tmp_path, [changed])
    assert keys.are_exact
    held = keys.held_by("tables/t", [same, others, unbounded])
    assert list(held.values()) == [Held.ALL, Held.SOME, Held.NONE]
    batch = pa.record_batch([pa.array([10, 11, 12])], names=["k0"])
    assert keys.among(batch).tolist() == [True, False, False]
    several = keys_of(tmp_path, numbers(tmp_path, range(40, 50)))
    assert not several.are_exact
    assert list(several.held_by("tables/t", [unbounded]).values()) == [Held.SOME]


def test_what_cannot_be_hashed_here(tmp_path: Path) -> None:
    nested = {"type": "array", "elementType": "long", "containsNull": True}
    collated = {"name": "k0", "type": "string", "nullable": True, "metadata": {"__COLLATIONS": {"k0": "icu.UNICODE_CI"}}}
    for field in ({"name": "k0", "type": nested, "nullable": True, "metadata": {}}, collated, {**collated, "name": "k.0"}):
        schema = json.dumps({"type": "struct", "fields": [field]})
        keys = ChangedKeys(Root(str(tmp_path)), "tables/t", [FileEntry("new", 1, 1)], schema, [field["name"]])
        assert keys.held_by("tables/t", [FileEntry("e1-g1-0a/old", 1, 1)]) == {"e1-g1-0a/old": Held.SOME}
        assert not keys.are_known
        assert not keys.are_exact


def test_without_keys_every_row_is_of_the_one_key(tmp_path: Path) -> None:
    keys = ChangedKeys(Root(str(tmp_path)), "tables/t", [FileEntry("new", 1, 1)], schema_of(()), [])
    assert keys.held_by("tables/t", [FileEntry("old", 1, 1)]) == {"old": Held.ALL}
    nothing = ChangedKeys(Root(str(tmp_path)), "tables/t", [], schema_of(()), [])
    assert nothing.held_by("tables/t", [FileEntry("old", 1, 1)]) == {"old": Held.NONE}


def test_keys_that_cover_others(tmp_path: Path) -> None:
    some, more = (keys_of(tmp_path, numbers(tmp_path, keys)) for keys in (range(5, 8), range(4, 9)))
    assert more.covers(some)
    assert not some.covers(more)
