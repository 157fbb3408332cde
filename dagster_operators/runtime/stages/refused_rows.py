"""What an operator on changes refused in the midst of a query, which engines hand on as the text of an exception of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.connectors.change_events import ChangeEvents
from dagster_operators.connectors.debezium_reader import NO_EVENT
from dagster_operators.errors import BadInputError
from dagster_operators.graph.changes import ADDS, REMOVES
from dagster_operators.operators.relational.changelog import AsChanges, Latest
from dagster_operators.operators.relational.source import Source
from dagster_operators.operators.relational.to_changes import ToChanges

if TYPE_CHECKING:
    from dagster_operators.runtime.stages.stage_work import StageWork

_UNKNOWN: Final = re.compile(r"to_changes: (a row of the operation \w+ has the key .*?, which is (?:not )?there)")
_UNSENT: Final = re.compile(r"to_changes: the value of column (\w+) (was not sent for the key .*?, whose row is not there)")
_LACKS: Final = re.compile(r"to_changes: (an extract lacks \d+ of the \d+ rows there are, more than max_deleted=\S+ allows)")
_TWICE: Final = re.compile(r"upsert: (two rows of the epoch have the key .*?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_NO_KEY: Final = re.compile(r"latest: (a key has several rows at the end of the epoch, so it is no key)")
_NO_CHANGE: Final = re.compile(r"as_changes: (a change is called .*?, which is none)", re.DOTALL)

_NO_EVENT: Final = re.compile(rf"{NO_EVENT}(.*?)(?: SQLSTATE: \w+)?$", re.MULTILINE)


def refused_rows(work: StageWork, text: str) -> BadInputError | None:  # noqa: PLR0911 - one for each text
    """The error that an engine's text amounts to; None if it is about something else.

    Args:
        work: The stage.
        text: What the engine's exception says.
    """
    if found := _UNKNOWN.search(text):
        return BadInputError(
            found[1], **_refused_by(work, lambda one: one.unknown == "fail"), **work.where(),
            remedy='correct the input; or have such rows repaired by unknown="repair", and rebuild(...) the tables behind it',
        )  # fmt: skip
    if found := _UNSENT.search(text):
        told = f"the value of column {bytes.fromhex(found[1]).decode()} {found[2]}"
        has_order = any(one.order is not None for one in _operators(work) if isinstance(one, ToChanges))
        instead = (
            "let such updates wait for their rows, by unknown='repair'" if has_order
            else "leave out updates of rows that are not there, by unknown='ignore'"
        )  # fmt: skip
        return BadInputError(
            told, **_refused_by(work, lambda one: one.max_deleted is None), **work.where(),
            remedy=f"correct the event; or {instead}; or leave the column out of the schema; rebuild(...) the tables behind it "
            "then. With REPLICA IDENTITY FULL PostgreSQL sends all values",
        )  # fmt: skip
    if found := _LACKS.search(text):
        return BadInputError(
            found[1], **_refused_by(work, lambda one: one.max_deleted is not None), **work.where(),
            remedy="if it is not complete, put a complete one in its place; if it is, let it through: "
            "SnapshotSource with max_deleted=1.0",
        )  # fmt: skip
    if found := _NO_CHANGE.search(text):
        readers = [one for one in _operators(work) if isinstance(one, AsChanges)]
        where = {"operator": readers[0].name, "expression": readers[0].change} if len(readers) == 1 else {}
        return BadInputError(
            found[1], **where, **work.where(),
            remedy=f"changes are {', '.join((*ADDS, *REMOVES))}; say what other words mean: "
            "with_columns(op=\"CASE op WHEN 'I' THEN 'insert' WHEN 'D' THEN 'delete' END\").as_changes('op')",
        )  # fmt: skip
    if found := _NO_EVENT.search(text):
        events = [one for one in _operators(work) if isinstance(one, ChangeEvents)]
        where = {"operator": events[0].name, "column": events[0].column} if len(events) == 1 else {}
        return BadInputError(
            f"a change event cannot be read: {found[1]}", **where, **work.where(),
            remedy="correct the input; or leave such rows out before from_debezium(...), with filter(...)",
        )  # fmt: skip
    if found := _TWICE.search(text):
        return BadInputError(
            found[1], **work.where(),
            remedy="correct the input; or say which row of a key is the last one, in place of mode='upsert': "
            "to_changes('id', order_by='at').latest('id').to_table('t')",
        )  # fmt: skip
    if found := _NO_KEY.search(text):
        kinds = [one for one in _operators(work) if isinstance(one, Latest)]
        where = {"operator": kinds[0].name, "column": ", ".join(kinds[0].keys)} if len(kinds) == 1 else {}
        return BadInputError(
            found[1], **where, **work.where(),
            remedy="name columns that together tell the rows apart: latest('id', 'city'); or of several rows keep one: "
            "key_by(...).top(1, by=...)",
        )  # fmt: skip
    return None


def _refused_by(work: StageWork, may: Callable[[ToChanges], bool]) -> dict[str, Any]:
    """The operator that refused a row, its source, and the file if the epoch has one of it alone; as far as that can be told."""
    found = [one.name for one in _operators(work) if isinstance(one, ToChanges) and may(one)]
    if len(found) != 1:
        return {}
    nodes = work.dataflow.nodes
    before = nodes[found[0]].inputs[0].operator
    if not isinstance(nodes[before].operator, Source):
        return {"operator": found[0]}
    items, connector = work.items(before), work.connector(before)
    told = connector.told(items) if items is not None and connector is not None else {}
    return {"operator": found[0], "source": before, **told}


def _operators(work: StageWork) -> Iterator[Any]:
    """The operators of the stage; a rule may have put in others than the dataflow has."""
    nodes = work.dataflow.nodes
    yield from (nodes[name].operator for name in work.stage.operators if name in nodes)
