"""A dataflow's YAML file as a pipeline: its sources, its operators, and a table for each output."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.api.events.addresses import connected
from dagster_operators.api.events.clock import Clock
from dagster_operators.api.events.node_reader import NodeReader, WrittenOperator
from dagster_operators.api.events.noted import Noted
from dagster_operators.api.events.python_files import PythonFiles
from dagster_operators.api.queries.arguments import ArgumentReader
from dagster_operators.api.queries.located import Located, read_yaml
from dagster_operators.api.queries.sources import DeclaredSource, Sources
from dagster_operators.errors import PipelineError, QueryError
from dagster_operators.operators.events.event_operators import EventOperators
from dagster_operators.operators.events.wiring import ROW, EventOperator, EventSource, table_of

if TYPE_CHECKING:
    from dagster_operators.api.pipeline_graph import PipelineGraph

_TOLD: Final = ("deploy", "debug", "health_check_interval", "strict_types", "exit_when_nodes_finish", "type_rules")
"""Keys that say how dora is to run its processes; they change nothing here."""

_TIME: Final = "event_time_"
SECTIONS: Final = frozenset({"pipeline", "imports", "sources", "loops", "streams", "tables"})
"""What queries in YAML have."""

NAME: Final = "events"
"""The name of the operator, and of the table of what operators did in each epoch."""


class DataflowFile:
    """The file, read and looked at as a whole.

    Args:
        text: In YAML.
        file: Its name in errors.
        folder: Where the files of operators are.
        sources: Sources that nodes may name.

    Raises:
        QueryError: With all that is wrong.
    """

    def __init__(self, text: str, file: str, folder: Path, sources: Mapping[str, DeclaredSource]) -> None:
        self._noted = Noted(file)
        self._given = sources
        self._files = PythonFiles(folder)
        self._declared: dict[str, DeclaredSource] = {}
        self.sources: tuple[EventSource, ...] = ()
        self.operators: tuple[EventOperator, ...] = ()
        try:
            self._root = read_yaml(text)
        except QueryError as error:
            self._noted.note(error)
            self._noted.raise_all()
        if isinstance(self._root.data, dict):
            self._read()
        else:
            self._noted.wrong(self._root, "the file is no dataflow", "write nodes: with a node in each '- id: ...'")
        self._noted.raise_all()

    def add_to(self, pipeline: PipelineGraph) -> None:
        """Make the sources, the operators and their tables in a pipeline."""
        streams = [self._declared[source.node].in_pipeline(pipeline) for source in self.sources]
        if len({stream.event_time for stream in streams}) > 1:
            streams = [stream.rename({str(stream.event_time): _TIME}, name=f"{stream.name}_by_time") for stream in streams]
        first, *others = streams
        made = first.through(
            EventOperators,
            *others,
            name=NAME,
            sources=self.sources,
            operators=self.operators,
            files=tuple(sorted(self._files.texts.items())),
            descriptor=json.dumps(self._root.plain(), sort_keys=True),
        )
        made.to_table(NAME, description="What each event operator did in each epoch.")
        for operator in self.operators:
            for output in operator.outputs:
                address = operator.address(output)
                made.side_output(address, name=table_of(address)).to_table(
                    table_of(address), description=f"The messages of the output {address}."
                )

    # --- reading -----------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        self._noted.unknown_keys("a dataflow", self._root, ("nodes", "env", *_TOLD))
        reader = NodeReader(self._noted, self._files)
        everywhere = reader.env(self._root)
        written: list[WrittenOperator] = []
        sources: list[EventSource] = []
        nodes = []
        for name, kind, node in reader.nodes(self._root):
            nodes.append(name)
            if kind in ("operator", "operators"):
                written += reader.operators(name, kind, node)
            elif kind == "path":
                written.append(reader.script(name, node))
            elif kind == "source":
                sources += self._source(name, node, reader)
            else:
                self._noted.wrong(
                    node.data[kind], f"the node {name!r} is one by {kind!r}, which is not run here", "use operator: or path:"
                )
        for one in written:
            one.env = tuple({**dict(everywhere), **dict(one.env)}.items())
        self.operators = connected(written, sources, nodes, self._noted)
        if not sources and not self._noted.errors:
            sources = [self._clock()]
        self.sources = tuple(sources)
        self._check_tables()

    def _clock(self) -> EventSource:
        """The source of a dataflow that has timers alone."""
        self._declared["dora"] = DeclaredSource("clock", Clock(), event_time="time")
        return EventSource("dora", (), "time")

    def _source(self, name: str, node: Located, reader: NodeReader) -> list[EventSource]:
        self._noted.unknown_keys(f"the source {name!r}", node, ("id", "name", "description", "source", "outputs"))
        declared = self._declare(name, node.data["source"])
        outputs = self._outputs(name, node, reader)
        if declared is None:
            return []
        if declared.event_time is None:
            self._noted.wrong(
                node.data["source"],
                f"the source {name!r} has no event time, by which messages are put in order",
                "give it event_time: column",
            )
            return []
        self._declared[name] = declared
        return [EventSource(name, outputs, declared.event_time)]

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

    def _outputs(self, name: str, node: Located, reader: NodeReader) -> tuple[tuple[str, str], ...]:
        given = node.data.get("outputs")
        if given is None or not isinstance(given.data, tuple | dict) or not given.data:
            self._noted.wrong(given or node, f"the source {name!r} has no outputs", "write outputs: [rows], or {output: column}")
            return ()
        for value in given.data if isinstance(given.data, tuple) else ():
            reader.check_output(value, f"the source {name!r}")
        if isinstance(given.data, tuple):
            return tuple((value.text, ROW) for value in given.data)
        return tuple((output, column.text) for output, column in given.data.items())

    def _check_tables(self) -> None:
        taken: dict[str, str] = {NAME: "the table of what operators did"}
        for operator in self.operators:
            for output in operator.outputs:
                address, name = operator.address(output), table_of(operator.address(output)).lower()
                if name in taken:
                    problem = f"the output {address!r} would be the table {name!r}, which is {taken[name]}"
                    self._noted.note(PipelineError(problem, line=1, character=1, remedy="give one of them another id"))
                taken[name] = f"that of {address!r}"


def text_of(path: str | PathLike[str]) -> str:
    """The text of a YAML file.

    Raises:
        PipelineError: It cannot be read.
    """
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"the file cannot be read: {error}", file=str(path), remedy="correct its name") from None


def is_dataflow(text: str) -> bool:
    """Whether a text is a dataflow of event operators, and no queries; what is neither is told as a dataflow.

    >>> is_dataflow("nodes: []"), is_dataflow("pipeline: p"), is_dataflow("[")
    (True, False, True)
    """
    try:
        root = read_yaml(text)
    except QueryError:
        return True
    return not (isinstance(root.data, dict) and "nodes" not in root.data and SECTIONS & root.data.keys())


def _identifier(node: str) -> str:
    """The name of a node's source in the pipeline."""
    return table_of(node)


def _no_stream(given: Located) -> Any:
    raise PipelineError("a source is made of no stream", **given.place)
