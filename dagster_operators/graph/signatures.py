"""Signatures of streams: equal ones have equal rows, so that equal parts of pipelines can be found and computed once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.ports import StreamRef


def signatures(dataflow: Dataflow) -> Mapping[str, str]:
    """What each operator of a dataflow computes, all that comes before it included: its signature and those of its inputs.

    Operators with equal signatures put out equal rows at each port, if both have been there from the start. What is not
    repeatable, and a source, is like no other.

    Args:
        dataflow: The dataflow.

    Returns:
        The signature by the operator's name; one pass over the graph.
    """
    found: dict[str, str] = {}
    for node in dataflow:
        parts = [node.operator.signature(), *(of_stream(found, stream) for stream in node.inputs)]
        found[node.name] = hashlib.sha256(" ".join(parts).encode()).hexdigest()[:32]
    return found


def of_stream(signed: Mapping[str, str], stream: StreamRef) -> str:
    """The signature of a stream: of its operator, with the port.

    >>> of_stream({"hourly": "ab"}, StreamRef("hourly", "late"))
    'ab.late'
    """
    return f"{signed[stream.operator]}.{stream.port}"
