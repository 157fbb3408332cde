"""A dataflow's YAML file as a pipeline: its sources, its operators, and a table for each output."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dagster_operators.api.events.addresses import connected
from dagster_operators.api.events.clock import Clock
from dagster_operators.api.events.node_reader import NodeReader, WrittenOperator
from dagster_operators.api.events.noted import Noted
from dagster_operators.api.events.python_files import PythonFiles
from dagster_operators.api.events.source_reader import SourceReader
from dagster_operators.api.queries.located import Located, read_yaml
from dagster_operators.api.queries.sources import DeclaredSource
from dagster_operators.errors import PipelineError, QueryError
from dagster_operators.operators.events.event_operators import EventOperators
from dagster_operators.operators.events.wiring import EventOperator, EventSource, table_of

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
        source_reader = SourceReader(self._noted, reader, self._given)
        self._declared = source_reader.declared
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
                sources += source_reader.source(name, node)
            else:
                self._noted.wrong(
                    node.data[kind], f"the node {name!r} is one by {kind!r}, which is not run here", "use operator: or path:"
                )
        for one in written:
            one.env = tuple({**dict(everywhere), **dict(one.env)}.items())
        self.operators = connected(written, [*sources, *source_reader.wrong], nodes, self._noted)
        if not sources and not self._noted.errors:
            sources = [self._clock()]
        self.sources = tuple(sources)
        self._check_tables({f"{one.node}/{one.id}": one.at for one in written})

    def _clock(self) -> EventSource:
        """The source of a dataflow that has timers alone."""
        self._declared["dora"] = DeclaredSource("clock", Clock(), event_time="time")
        return EventSource("dora", (), "time")

    def _check_tables(self, places: Mapping[str, Located]) -> None:
        taken: dict[str, str] = {NAME: "the table of what operators did"}
        for operator in self.operators:
            for output in operator.outputs:
                address, name = operator.address(output), table_of(operator.address(output)).lower()
                if name in taken:
                    problem = f"the output {address!r} would be the table {name!r}, which is {taken[name]}"
                    self._noted.wrong(places[f"{operator.node}/{operator.id}"], problem, "give one of them another id")
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
