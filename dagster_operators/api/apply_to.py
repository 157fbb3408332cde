"""How an operator of the user's own is put behind streams: ``apply`` of a stream, and ``do.apply`` of several."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dagster_operators.api.operator_given import check_durations, operator_given
from dagster_operators.operators.arrow.apply import Apply

if TYPE_CHECKING:
    from dagster_operators.api.keyed_stream import KeyedStream
    from dagster_operators.api.stream import Stream
    from dagster_operators.operators.arrow.arrow_operator import ArrowOperator


def apply_to(
    streams: Sequence[KeyedStream],
    operator: ArrowOperator | str,
    config: Mapping[str, Any] | None,
    *,
    name: str | None = None,
    chain: bool = True,
    renamed_from: str | None = None,
) -> Stream:
    """An operator behind several streams that have the same keys, or none.

    Raises:
        PipelineError: This is no operator.
        SchemaError: The streams do not fit it.
    """
    first = streams[0]._stream  # noqa: SLF001
    dataflow = first._dataflow  # noqa: SLF001
    operator = operator_given(operator, config, pipeline=dataflow.name, stream=first.name)
    named = name or operator.name or dataflow.fresh_name(_snake(type(operator).__name__))
    check_durations(operator, pipeline=dataflow.name, name=named)
    settings: dict[str, Any] = {"arrow": operator, "keys": tuple(stream.keys for stream in streams)}
    read = [stream._stream for stream in streams]  # noqa: SLF001
    return first._join(Apply, read, named, chain=chain, renamed_from=renamed_from, **settings)  # noqa: SLF001


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
