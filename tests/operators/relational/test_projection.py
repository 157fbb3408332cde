"""Select, with_columns, rename and drop: rows, column types, event time, keys, lineage, and what is refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import SchemaError
from dagster_operators.operators.relational.projection import bare_column
from tests.end_to_end.full_computation import moment
from tests.engines import ENGINES, SAIL
from tests.operators.one_table import few, lineage, result, source

BATCH = [
    {"k": "a", "v": 1, "xs": [1, 2], "s": {"a": 1, "b c": "x"}, "ts": moment(1_000_000)},
    {"k": None, "v": None, "xs": None, "s": None, "ts": moment(2_000_000)},
]


def totals() -> do.Stream:
    """An updating stream: keys k and v, values n and xs."""
    return source().key_by("k", "v").aggregate(n="count(*)", xs="collect_list(s.a)")


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_select_computes_the_columns(engine: str) -> None:
    expressions = (
        "K",
        "v + 1 AS `v + 1`",
        "s.a",
        "s.`b c`",
        "CAST(v AS decimal(5,1)) AS d",
        "size(xs) > 1 AS n",
        "'c' AS `c``d`",
    )
    found = result(ENGINES[engine], lambda pipeline: source(pipeline, BATCH).select(*expressions))
    assert list(found.types.items()) == [
        ("K", "string"), ("v + 1", "bigint"), ("a", "bigint"), ("b c", "string"), ("d", "decimal(5,1)"), ("n", "boolean"),
        ("c`d", "string"),
    ]  # fmt: skip
    assert [row[:4] + row[5:] for row in found.rows if row[0]] == [("a", 2, 1, "x", True, "c")]
    assert [row[:5] for row in found.rows if not row[0]] == [(None,) * 5]


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_with_columns_sees_the_columns_as_they_were_and_keeps_their_places(engine: str) -> None:
    def build(pipeline: do.Pipeline) -> do.Stream:
        rows = source(pipeline, BATCH).with_columns({"V": "v * 10", "w": "v + 1", "the k": "upper(k)"}, xs="xs[0]")
        return rows.drop("s", "TS")

    found = result(ENGINES[engine], build)
    assert list(found.types.items()) == [("k", "string"), ("v", "bigint"), ("xs", "bigint"), ("w", "bigint"), ("the k", "string")]
    assert found.rows == Counter([("a", 10, 1, 2, "A"), (None,) * 5])


@pytest.mark.usefixtures("sail")
def test_rename_may_swap() -> None:
    found = result(SAIL, lambda pipeline: source(pipeline, BATCH).select("k", "v").rename({"K": "v", "v": "the k"}))
    assert list(found.types.items()) == [("v", "string"), ("the k", "bigint")]
    assert found.rows == Counter([("a", 1), (None, None)])


@pytest.mark.usefixtures("sail")
def test_columns_that_are_known_only_when_the_pipeline_is_planned() -> None:
    def build(pipeline: do.Pipeline) -> do.Stream:
        rows = source(pipeline, BATCH).transform(lambda frame: frame)
        assert rows.columns is None
        return rows.rename(k="key").with_columns(w="v + 1").drop("xs", "s", "ts").select("key", "w")

    assert result(SAIL, build).rows == Counter([("a", 2), (None, None)])


@pytest.mark.usefixtures("sail")
def test_what_is_wrong_with_such_columns_is_told_when_it_is_planned() -> None:
    def unknown(pipeline: do.Pipeline) -> do.Stream:
        return source(pipeline, BATCH).transform(lambda frame: frame)

    with pytest.raises(SchemaError, match="more than once"):
        result(SAIL, lambda pipeline: unknown(pipeline).rename(k="v"))
    with pytest.raises(SchemaError, match="drop uses column 'w'"):
        result(SAIL, lambda pipeline: unknown(pipeline).drop("w"))
    with pytest.raises(SchemaError, match="rename uses column 'w'"):
        result(SAIL, lambda pipeline: unknown(pipeline).rename(w="x"))
    with pytest.raises(SchemaError, match=r"'w \+ 1 AS w' uses column 'w'.*use one of: k, v") as caught:
        result(SAIL, lambda pipeline: unknown(pipeline).select("w + 1 AS w"))
    assert caught.value.operator == "select"


@pytest.mark.parametrize("build", [lambda rows: rows.key_by("tail num"), lambda rows: rows.filter("v.x > 0")])
def test_a_name_that_expressions_read_as_something_else_is_told_as_it_is_spelt(build: Any) -> None:
    rows = do.Pipeline("p", root="data").source("rows", do.FileSource("in", schema="`tail num` string, `v.x` long"))
    with pytest.raises(SchemaError, match="which its input does not have") as told:
        build(rows)
    assert told.value.remedy == "use one of: tail num, v.x (in expressions: `tail num`, `v.x`)"
    assert rows.filter("`v.x` > 0").key_by("`tail num`").aggregate(n="count(*)").columns == ("tail num", "n")


# --- what is known while the pipeline is built -------------------------------------------------------------------------


def test_the_event_time_is_handed_on_under_its_name_or_lost() -> None:
    rows = source()
    assert rows.select("k", "TS AS at").event_time == "at"
    assert rows.rename(ts="at").event_time == "at"
    assert rows.with_columns(at="ts").event_time == "ts"
    assert rows.select("k", "ts + INTERVAL 1 HOUR AS ts").event_time is None
    assert rows.with_columns(TS="ts + INTERVAL 1 HOUR").event_time is None
    assert rows.drop("ts").event_time is None


def test_the_keys_of_an_updating_stream_are_handed_on_under_their_names() -> None:
    rows = totals()
    assert rows.select("n", "V AS w", "k")._type.keys == ("k", "w")
    assert rows.rename(k="key")._type.keys == ("key", "v")
    assert rows.with_columns(n="n + 1").drop("xs")._type.keys == ("k", "v")


def test_a_star_stands_for_columns_of_any_name() -> None:
    rows = source().select("k AS `a``b`", "v AS `x y`")
    assert rows.select("*", "1 AS one").columns == ("a`b", "x y", "one")


def test_lineage() -> None:
    rows = source().select("*", "v + size(xs) AS n").rename(k="key").with_columns(n="n + length(key)", one="1").drop("s", "ts")
    assert lineage(rows) == {
        "key": "rows.k",
        "v": "rows.v",
        "xs": "rows.xs",
        "n": "rows.k, rows.v, rows.xs",
        "one": "computed",
    }


def test_a_bare_column_is_one_that_is_handed_on_unchanged() -> None:
    stream = source()._type
    assert [bare_column(stream, text) for text in ("K", " `v` ", "k.a", "v + 0", "w")] == ["k", "v", None, None, None]


# --- what is refused, and what to do ------------------------------------------------------------------------------------


def test_columns_that_are_not_there() -> None:
    for build, what in (
        (lambda rows: rows.select("w + 1 AS x"), "'w \\+ 1 AS x'"),
        (lambda rows: rows.with_columns(x="w + 1"), "column 'x'"),
        (lambda rows: rows.rename(w="x"), "rename"),
        (lambda rows: rows.drop("w"), "drop"),
    ):
        with pytest.raises(SchemaError, match=f"{what} uses column 'w', which its input does not have") as caught:
            build(source())
        assert (caught.value.column, caught.value.remedy) == ("w", "use one of: k, v, xs, s, ts")


def test_columns_without_a_name() -> None:
    with pytest.raises(SchemaError, match="'v \\+ 1' has no name") as caught:
        source().select("v + 1")
    assert caught.value.remedy == "write 'v + 1 AS name'"
    assert source().select("v + 1 AS name").columns == ("name",)
    with pytest.raises(SchemaError, match=r"'s\.\*' has no name.*name the fields: s\.field"):
        source().select("s.*")
    with pytest.raises(SchemaError, match=r"has '\*' within an expression.*name the columns: k, v, xs, s, ts"):
        source().select("to_json(struct(*)) AS row")
    assert source().select("to_json(struct(k, v, xs, s, ts)) AS row").columns == ("row",)


def test_two_columns_of_one_name() -> None:
    with pytest.raises(SchemaError, match=r"has column 'k' more than once.*rename one"):
        source().select("k", "v AS K")
    with pytest.raises(SchemaError, match="has column 'v' more than once"):
        source().rename(k="V")
    with pytest.raises(SchemaError, match="'W' is given twice"):
        source().with_columns({"W": "1", "w": "2"})
    with pytest.raises(SchemaError, match=r"'k' is renamed twice.*with_columns makes a second column"):
        source().rename({"k": "a", "K": "b"})
    assert source().with_columns(b="k").rename(k="a").columns == ("a", "v", "xs", "s", "ts", "b")


def test_no_column_at_all() -> None:
    with pytest.raises(SchemaError, match=r"no column to select.*'\*' is all of them"):
        source().select()
    assert source().select("*").columns == ("k", "v", "xs", "s", "ts")
    with pytest.raises(SchemaError, match="no column would be left"):
        source().select("k", "v").drop("k", "V")


def test_the_keys_of_an_updating_stream_cannot_be_lost() -> None:
    for build, key in ((lambda rows: rows.select("k", "n"), "v"), (lambda rows: rows.drop("K"), "k")):
        with pytest.raises(SchemaError, match=f"the key column {key!r} of an updating stream must be kept") as refused:
            build(totals())
        assert "to_changes() before it" in refused.value.remedy
        assert build(totals().to_changes())._type.retracting
    with pytest.raises(SchemaError, match=r"'k' is a key of an updating stream and cannot be replaced.*another name"):
        totals().with_columns(k="upper(k)")
    assert totals().with_columns(upper="upper(k)")._type.keys == ("k", "v")


@pytest.mark.parametrize("expression", ["explode(xs)", "posexplode_outer(xs)", "explode(transform(xs, x -> x + n))"])
def test_a_key_of_an_updating_stream_has_one_row(expression: str) -> None:
    for build in (
        lambda rows: rows.select("k", "v", f"{expression} AS x"),
        lambda rows: rows.with_columns(x=expression),
    ):
        with pytest.raises(
            SchemaError, match=r"makes several rows of one, and the stream is updating, one row per k, v"
        ) as caught:
            build(totals())
        assert caught.value.remedy.startswith("unnest before the aggregate")
    assert source().select("k", "explode(xs) AS x").columns == ("k", "x")


@pytest.mark.usefixtures("sail")
def test_unnesting_before_the_aggregate_gives_a_row_per_element() -> None:
    def build(pipeline: do.Pipeline) -> do.Stream:
        rows = source(pipeline, BATCH[:1], [{**BATCH[0], "xs": [2, 3]}])
        return rows.unnest("xs AS x").key_by("k", "x").aggregate(n="count(*)")

    assert result(SAIL, build).rows == Counter([("a", 1, 1), ("a", 2, 2), ("a", 3, 1)])


# --- any chain of them ---------------------------------------------------------------------------------------------------


Step = tuple[str, Any]
FRESH = ["d", "e", "f"]


@st.composite
def programs(draw: st.DrawFn) -> list[Step]:
    """Steps that fit each other, over the columns k (which stays), a, b and c."""
    columns, steps = ["a", "b", "c"], []
    for _ in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["filter", "with_columns", "rename", "drop", "select"]))
        free = [name for name in ["a", "b", "c", *FRESH] if name not in columns]
        one = draw(st.sampled_from(columns))
        if kind == "filter":
            steps.append((kind, (one, draw(st.integers(-3, 3)))))
        elif kind == "with_columns":
            name, other = draw(st.sampled_from(columns + free[:1])), draw(st.sampled_from(columns))
            steps.append((kind, (name, one, other)))
            columns += [name] if name not in columns else []
        elif kind == "rename" and free:
            steps.append((kind, (one, free[0])))
            columns = [free[0] if name == one else name for name in columns]
        elif kind == "drop" and len(columns) > 1:
            steps.append((kind, one))
            columns.remove(one)
        elif kind == "select":
            kept = draw(st.lists(st.sampled_from(columns), min_size=1, unique=True))
            steps.append((kind, kept))
            columns = list(kept)
    return steps


def over_stream(rows: do.Stream, steps: list[Step]) -> do.Stream:
    for kind, what in steps:
        match kind:
            case "filter":
                rows = rows.filter(f"{what[0]} > {what[1]}")
            case "with_columns":
                rows = rows.with_columns({what[0]: f"{what[1]} - {what[2]}"})
            case "rename":
                rows = rows.rename({what[0]: what[1]})
            case "drop":
                rows = rows.drop(what)
            case "select":
                rows = rows.select("k", *what)
    return rows


def over_rows(rows: list[dict[str, Any]], steps: list[Step]) -> list[dict[str, Any]]:
    for kind, what in steps:
        match kind:
            case "filter":
                rows = [row for row in rows if row[what[0]] is not None and row[what[0]] > what[1]]
            case "with_columns":
                name, one, other = what
                rows = [{**row, name: None if None in (row[one], row[other]) else row[one] - row[other]} for row in rows]
            case "rename":
                rows = [{what[1] if name == what[0] else name: value for name, value in row.items()} for row in rows]
            case "drop":
                rows = [{name: value for name, value in row.items() if name != what} for row in rows]
            case "select":
                rows = [{name: row[name] for name in ("k", *what)} for row in rows]
    return rows


values = st.none() | st.integers(-4, 4)
batches = st.lists(
    st.lists(st.fixed_dictionaries({"k": st.sampled_from("pq"), "a": values, "b": values, "c": values}), max_size=5),
    min_size=1,
    max_size=3,
)
NUMBERS = "k string, a long, b long, c long"


@pytest.mark.usefixtures("sail")
@few
@given(steps=programs(), epochs=batches)
def test_any_chain_gives_what_plain_python_gives(steps: list[Step], epochs: list[list[dict[str, Any]]]) -> None:
    found = result(SAIL, lambda pipeline: over_stream(source(pipeline, *epochs, schema=NUMBERS), steps))
    expected = over_rows([{name: row[name] for name in "kabc"} for rows in epochs for row in rows], steps)
    assert found.rows == Counter(tuple(row.values()) for row in expected)


@pytest.mark.usefixtures("sail")
@few
@given(steps=programs(), epochs=batches)
def test_any_chain_over_current_rows_gives_the_table(steps: list[Step], epochs: list[list[dict[str, Any]]]) -> None:
    def build(pipeline: do.Pipeline) -> do.Stream:
        rows = source(pipeline, *epochs, schema=NUMBERS)
        return over_stream(rows.key_by("k").aggregate(a="sum(a)", b="max(b)", c="count(c)"), steps)

    everything = [row for rows in epochs for row in rows]
    current = []
    for key in {row["k"] for row in everything}:
        a, b, c = ([row[name] for row in everything if row["k"] == key and row[name] is not None] for name in "abc")
        current.append({"k": key, "a": sum(a) if a else None, "b": max(b, default=None), "c": len(c)})
    assert result(SAIL, build).rows == Counter(tuple(row.values()) for row in over_rows(current, steps))
