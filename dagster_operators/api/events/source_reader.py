"""The nodes of a dataflow's file that are sources of this package."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.api.events.given_stream import GivenStream
from dagster_operators.api.events.node_reader import NodeReader
from dagster_operators.api.events.noted import Noted
from dagster_operators.api.pipeline_graph import PipelineGraph
from dagster_operators.api.queries.arguments import ArgumentReader
from dagster_operators.api.queries.located import Located
from dagster_operators.api.queries.sources import DeclaredSource, Sources
from dagster_operators.catalog.catalog import near
from dagster_operators.connectors.connector import Connector
from dagster_operators.errors import OperatorsError, PipelineError
from dagster_operators.operators.events.wiring import ROW, EventSource, table_of
from dagster_operators.time.watermark import parse_duration
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

_SETTINGS: Final = ("event_time", "lateness", "finished", "asset_key", "event_time_ahead", "renamed_from")
"""What a source has beside where its rows come from."""


class SourceReader:
    """Reads them.

    Args:
        noted: Collects what is wrong.
        nodes: Reads what all nodes have.
        given: Sources that nodes may name.

    Attributes:
        declared: The sources by the ids of their nodes.
        columns: Their columns, as far as they are known.
        types: The types of their columns, of sources that declare a schema.
        wrong: The outputs of sources that something else is wrong with, so that inputs that read others are told, too.
    """

    def __init__(self, noted: Noted, nodes: NodeReader, given: Mapping[str, DeclaredSource]) -> None:
        self._noted = noted
        self._nodes = nodes
        self._given = given
        self.declared: dict[str, DeclaredSource] = {}
        self.columns: dict[str, tuple[str, ...] | None] = {}
        self.types: dict[str, pa.Schema] = {}
        self.wrong: list[EventSource] = []

    def source(self, name: str, node: Located) -> list[EventSource]:
        """What a node that is a source is; nothing if something is wrong with it."""
        self._noted.unknown_keys(f"the source {name!r}", node, ("id", "name", "description", "source", "outputs"))
        declared = self._declare(name, node.data["source"])
        outputs = self._outputs(name, node)
        if declared is not None and self._is_right(name, declared, node):
            if declared.event_time is not None:
                self.declared[name] = declared
                derived = isinstance(declared, GivenStream) and declared.is_derived
                return [EventSource(name, outputs, declared.event_time, derived)]
            self._noted.wrong(
                node.data["source"],
                f"the source {name!r} has no event time, by which messages are put in order",
                "give it event_time: column; a source of from_yaml(sources=...) has it by "
                "sources = do.Sources(); sources.add('shop', FileSource(...), event_time='at')",
            )
        if outputs:
            self.wrong.append(EventSource(name, outputs, ""))
        return []

    def _declare(self, name: str, given: Located) -> DeclaredSource | None:
        if isinstance(given.data, str):
            if given.data not in self._given:
                remedy = (
                    f"there are: {', '.join(self._given)}"
                    if self._given
                    else "declare it here, or give it to from_yaml(sources=)"
                )
                self._noted.wrong(given, f"there is no source {given.data!r}", remedy)
            return self._given.get(given.data)
        reader = ArgumentReader(_no_stream, self._noted.note)
        parameters = [*inspect.signature(Sources.add).parameters.values()][1:]
        connector = next(one for one in parameters if one.name == "connector")
        settings = [one for one in parameters if one.name not in ("name", "connector")]
        made = reader.with_one_value(f"the source {name!r}", connector, settings, given)
        if made is not None:
            with reader.telling(f"the source {name!r}", given):
                return DeclaredSource(_identifier(name), *made.positional, **made.named)
        return None

    def _outputs(self, name: str, node: Located) -> tuple[tuple[str, str], ...]:
        given = node.data.get("outputs")
        if given is None or not isinstance(given.data, tuple | dict) or not given.data:
            self._noted.wrong(given or node, f"the source {name!r} has no outputs", "write outputs: [rows], or {output: column}")
            return ()
        for value in given.data if isinstance(given.data, tuple) else ():
            self._nodes.check_output(value, f"the source {name!r}")
        if isinstance(given.data, tuple):
            return tuple((value.text, ROW) for value in given.data)
        return tuple((output, column.text) for output, column in given.data.items())

    def _is_right(self, name: str, declared: DeclaredSource, node: Located) -> bool:
        """Whether a pipeline takes the source, and it has the columns that its outputs are; what is wrong is noted."""
        before = len(self._noted.errors)
        written = node.data["source"]
        try:
            parse_duration(declared.lateness)
        except ValueError as error:
            self._noted.wrong(_setting(written, "lateness"), f"the source {name!r}: the lateness: {error}", "write '1 hour', say")
        columns = self.columns[name] = self._columns(name, replace(declared, lateness="0 seconds"), written)
        outputs = node.data.get("outputs")
        if columns is not None and outputs is not None and isinstance(outputs.data, dict):
            for output, column in outputs.data.items():
                if column.text not in (ROW, *columns):
                    remedy = near(str(column.text), columns) or f"there are: {', '.join(columns)}; or '*' for the whole row"
                    problem = f"the output '{name}/{output}' is the column {column.text!r}, which the source does not have"
                    self._noted.wrong(column, problem, remedy)
        return len(self._noted.errors) == before

    def _columns(self, name: str, declared: DeclaredSource, written: Located) -> tuple[str, ...] | None:
        """The columns of a source, if it says so; what a pipeline does not take is noted."""
        if isinstance(declared, GivenStream):
            return declared.stream.columns if declared.stream is not None else None
        try:
            columns = declared.in_pipeline(PipelineGraph("looking", "nowhere")).columns
        except OperatorsError as error:
            place = _blamed(error, declared, written).place
            where = {key: value for key, value in error.where.items() if key not in ("pipeline", "position")}
            self._noted.note(type(error)(error.problem, remedy=error.remedy, **{**where, **place}))
            return None
        connector = declared.connector
        schema = connector.declared_schema if isinstance(connector, Connector) else connector.output_schema()
        if schema is not None:
            with suppress(OperatorsError):  # a type that only the engine knows
                self.types[name] = Schema.of(schema).to_arrow()
        return columns


def _blamed(error: OperatorsError, declared: DeclaredSource, written: Located) -> Located:
    """The value in a source that an error is about, as far as that can be told."""
    if error.where.get("column") is not None and error.where["column"] == declared.event_time:
        return _setting(written, "event_time")
    parts = written.data if isinstance(written.data, dict) else {}
    maker = next((value for key, value in parts.items() if key not in _SETTINGS), written)
    return _setting(maker, "schema") if "expression" in error.where else maker


def _setting(written: Located, key: str) -> Located:
    return written.data[key] if isinstance(written.data, dict) and key in written.data else written


def _identifier(node: str) -> str:
    """The name of a node's source in the pipeline."""
    return table_of(node)


def _no_stream(given: Located) -> Any:
    raise PipelineError(
        "a source is made of no stream", remedy="leave the line out, or name the stream of an operator", **given.place
    )
