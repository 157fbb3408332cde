"""A change data feed whose rows an operator would count as they are: an update as two rows, a deletion as one more."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from dagster_operators.graph.changes import ChangeKind
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.operator import LogicalOperator
from dagster_operators.graph.ports import InputPort, StreamRef
from dagster_operators.operators.aggregates.aggregation import Aggregation
from dagster_operators.operators.relational.changelog import DELTA_CHANGE
from dagster_operators.operators.relational.source import Source
from dagster_operators.operators.relational.union import Union

_FEEDS: Final = ("delta", "pipeline_source")
_CONSTANT: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
"""A string in an expression."""

_PACKAGE: Final = __name__.partition(".")[0]

_KNOWN_FEEDS: Final[WeakKeyDictionary[Dataflow, dict[StreamRef, tuple[str, ...]]]] = WeakKeyDictionary()
"""What is behind a stream, found once: operators of a dataflow stay as they are, and each new one would ask for all before it."""


def warn_of_feed_as_rows(dataflow: Dataflow, operator: LogicalOperator, streams: Sequence[StreamRef]) -> None:
    """Warn when an operator that takes changes is given a change data feed that nobody has read as changes.

    It is no error: the rows of a feed can be wanted as they are, to count them for one. Who names ``_change_type`` knows them.

    Args:
        dataflow: The graph.
        operator: What reads the streams.
        streams: What it reads.
    """
    ports = operator.inputs([dataflow.type_of(stream) for stream in streams])
    for port, stream in zip(ports, streams, strict=True):
        if _adds_up(operator, port) and not _knows(operator):
            for source in _feeds_behind(dataflow, stream):
                warnings.warn(
                    f"{operator.name!r} takes the change data feed of {source!r} for rows that are all added: an update counts "
                    f"as two rows. To do: read them as changes, pipeline.source({source!r}, ...).as_changes(); or, to have the "
                    f"rows of the feed as they are, keep {DELTA_CHANGE} among the keys",
                    stacklevel=_outside(),
                )


def _feeds_behind(dataflow: Dataflow, stream: StreamRef) -> tuple[str, ...]:
    """The sources of change data feeds whose rows come here as they are, but for those of which somebody asked what they do."""
    found, waiting = _KNOWN_FEEDS.setdefault(dataflow, {}), [stream]
    while waiting:
        if (stream := waiting[-1]) in found:
            waiting.pop()
            continue
        passed = _rows_as_they_are(dataflow, stream)
        if new := [one for one in passed if one not in found]:
            waiting += new
        else:
            behind = dict.fromkeys(feed for one in passed for feed in found[one])
            found[waiting.pop()] = (*behind, *_feed(dataflow.nodes[stream.operator].operator))
    return found[stream]


def _feed(operator: LogicalOperator) -> tuple[str, ...]:
    if isinstance(operator, Source) and operator.connector.kind in _FEEDS and operator.connector.config()["changes"]:
        return (operator.name,)
    return ()


def _rows_as_they_are(dataflow: Dataflow, stream: StreamRef) -> tuple[StreamRef, ...]:
    """The streams whose rows come out here, one for one, without anybody having asked what they do."""
    node = dataflow.nodes[stream.operator]
    passes = stream.is_main and (node.operator.row_wise or isinstance(node.operator, Union))
    return tuple(dict.fromkeys(node.inputs)) if passes and not _knows(node.operator) else ()


def _adds_up(operator: LogicalOperator, port: InputPort) -> bool:
    """Whether it matters to an operator if a row is added or taken back: an aggregate, or one that takes changes, too."""
    return isinstance(operator, Aggregation) or (
        {ChangeKind.APPEND, ChangeKind.RETRACT} <= port.accepts and not operator.row_wise
    )


def _knows(operator: LogicalOperator) -> bool:
    """Whether a setting names the column; in a string constant it is only text."""
    if DELTA_CHANGE not in json.dumps(operator.config(), default=str):
        return False
    waiting: list[Any] = [operator.config()]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += [*value, *value.values()]
        elif isinstance(value, list | tuple | set | frozenset):
            waiting += value
        elif DELTA_CHANGE in _CONSTANT.sub("", str(value)):
            return True
    return False


def _outside() -> int:
    """How many frames up the code is that is not of this package."""
    depth, frame = 1, sys._getframe(1)  # noqa: SLF001 - what warnings itself does since Python 3.12
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == _PACKAGE:
        depth, frame = depth + 1, frame.f_back
    return depth
