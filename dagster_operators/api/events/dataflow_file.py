"""A dataflow's YAML file as a pipeline: its sources, its operators, and a table for each output."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dagster_operators.api.events.addresses import connected
from dagster_operators.api.events.clock import Clock
from dagster_operators.api.events.given_stream import GivenStream
from dagster_operators.api.events.input_types import check_input_types
from dagster_operators.api.events.modules import expanded
from dagster_operators.api.events.node_reader import NodeReader, has_inputs
from dagster_operators.api.events.noted import Noted
from dagster_operators.api.events.partitions import Partitions, partitions
from dagster_operators.api.events.python_files import PythonFiles
from dagster_operators.api.events.relays import FILE, TEXT, relays
from dagster_operators.api.events.sender import EPOCH, Sender
from dagster_operators.api.events.settings_of_dora import check_settings
from dagster_operators.api.events.source_reader import SourceReader
from dagster_operators.api.events.table_reader import TableReader, WrittenTable
from dagster_operators.api.events.written import WrittenOperator
from dagster_operators.api.queries.located import Located, read_yaml
from dagster_operators.api.queries.sources import DeclaredSource
from dagster_operators.errors import PipelineError, QueryError
from dagster_operators.operators.events.event_operators import BY_ARRIVAL, BY_TIME, EventOperators
from dagster_operators.operators.events.wiring import SENT, EventOperator, EventSource, never_told, table_of

if TYPE_CHECKING:
    from dagster_operators.api.pipeline_graph import PipelineGraph
    from dagster_operators.api.stream import Stream

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
        is_checked: Whether the file is looked at alone: commands that its ``build`` installs may be missing then.

    Attributes:
        named_types: The types of outputs that have but a name in dora, by address: their first messages say what they are.

    Raises:
        QueryError: With all that is wrong.
    """

    def __init__(
        self, text: str, file: str, folder: Path, sources: Mapping[str, DeclaredSource], *, is_checked: bool = False
    ) -> None:
        self._noted = Noted(file, is_checked=is_checked)
        self._given = sources
        self._files = PythonFiles(folder)
        self._declared: dict[str, DeclaredSource] = {}
        self.sources: tuple[EventSource, ...] = ()
        self.operators: tuple[EventOperator, ...] = ()
        self.tables: list[WrittenTable] = []
        self.named_types: dict[str, str] = {}
        self._partitions: Partitions = {}
        self._order = BY_TIME
        self._messages: dict[str, Stream] = {}
        try:
            self._root = read_yaml(text)
        except QueryError as error:
            self._noted.note(error)
            self._noted.raise_all()
        if isinstance(self._root.data, dict) and "module" in self._root.data:
            problem = "the file is a module, whose nodes run in a dataflow"
            self._noted.wrong(self._root.data["module"], problem, "give the file of a dataflow that has it: module: its path")
        elif isinstance(self._root.data, dict):
            self._root, lost = expanded(self._root, folder, self._noted)
            self._read(lost)
        else:
            self._noted.wrong(self._root, "the file is no dataflow", "write nodes: with a node in each '- id: ...'")
        self._noted.raise_all()

    @property
    def remarks(self) -> list[str]:
        """The remarks of ``check`` on a file that is right."""
        by_name = "has the type {} by its name alone: its first message says what the others have to be"
        return [*self._noted.remarks, *(f"{address} {by_name.format(kind)}" for address, kind in self.named_types.items())]

    def add_to(self, pipeline: PipelineGraph) -> None:
        """Make the sources, the operators and their tables in a pipeline."""
        taken: dict[str, Stream] = {}
        for by in dict.fromkeys(self._partitions[operator.path] for operator in self.operators):
            self._add_part(pipeline, by, taken)
        if not self.operators:
            self._add_part(pipeline, "", taken)
        for table in self.tables:
            table.add_to(self._messages[table.input])

    def put_behind(self, name: str) -> Stream:
        """The operators behind the streams that were given for sources; their outputs are side outputs of what comes back.

        Raises:
            PipelineError: The file has sources of its own, tables, or operators that are partitioned in several ways.
        """
        parts = [*dict.fromkeys(self._partitions[operator.path] for operator in self.operators)]
        own = [node for node, one in self._declared.items() if not isinstance(one, GivenStream)]
        problem = remedy = ""
        if own:
            problem = f"the node {own[0]!r} is a source of the file's own"
            remedy = "make it a source of the pipeline, and give its stream, too: stream.events(file, other); source: other"
        elif self.tables:
            problem, remedy = f"the node {self.tables[0].node!r} is a table", "write side_output(...).to_table(...) instead"
        elif len(parts) != 1:
            problem, remedy = "its operators are partitioned in several ways", "make a file for each, or one partition_by"
        if problem:
            raise PipelineError(problem, operator=name, remedy=remedy)
        sources = self._sources_of(self.operators, parts[0])
        return self._made(name, parts[0], self.operators, sources, [_stream(self._declared[one.node]) for one in sources])

    def _add_part(self, pipeline: PipelineGraph, by: str, taken: dict[str, Stream]) -> None:
        """The operators that are partitioned by a column, or by none."""
        operators = tuple(one for one in self.operators if self._partitions[one.path] == by)
        sources = self._sources_of(operators, by)
        for source in sources:
            if source.node not in taken:
                taken[source.node] = self._declared[source.node].in_pipeline(pipeline)
        streams = [taken[source.node] for source in sources]
        name = part_name(by)
        made = self._made(name, by, operators, sources, streams)
        told = f", for each {by}" if by else ""
        made.to_table(name, description=f"What each event operator did in each epoch{told}.")
        for source in sources:
            # Parts that read a source have the same late rows: the first gives them their name.
            if source.outputs and source.late not in self._messages:
                self._messages[source.late] = made.side_output(source.late, name=table_of(source.late))
        for operator in operators:
            for output in operator.outputs:
                address = operator.address(output)
                messages = self._messages[address] = made.side_output(address, name=table_of(address))
                messages.to_table(table_of(address), description=f"The messages of the output {address}{told}.")

    def _made(
        self,
        name: str,
        by: str,
        operators: tuple[EventOperator, ...],
        sources: tuple[EventSource, ...],
        streams: list[Stream],
    ) -> Stream:
        """The operators behind streams."""
        if len({stream.event_time for stream in streams}) > 1:
            by_time = [f"{stream.name}_by_time_for_{name}" if by else f"{stream.name}_by_time" for stream in streams]
            renamed = zip(streams, by_time, strict=True)
            streams = [stream.rename({str(stream.event_time): _TIME}, name=called) for stream, called in renamed]
        first, *others = streams
        return first.through(
            EventOperators,
            *others,
            name=name,
            sources=sources,
            operators=operators,
            files=tuple(sorted(self._files.texts.items())),
            descriptor=json.dumps(self._root.plain(), sort_keys=True),
            partition_by=by,
            order=self._order,
            closes=BY_TIME if self._order == BY_TIME else "",
        )

    def _sources_of(self, operators: Sequence[EventOperator], by: str) -> tuple[EventSource, ...]:
        """The sources that operators read; without partitions, all that there are."""
        if not by and not any(self._partitions.values()):
            return self.sources
        read = {one.source for operator in operators for one in operator.inputs}
        found = tuple(source for source in self.sources if read & {address for address, _ in source.addresses()})
        return found or self.sources

    # --- reading -----------------------------------------------------------------------------------------------------

    def _read(self, lost: Collection[str]) -> None:
        self._noted.unknown_keys("a dataflow", self._root, ("nodes", "env", "order", *_TOLD))
        check_settings("the dataflow", self._root, self._noted)
        self._order = self._said_order()
        reader = NodeReader(self._noted, self._files)
        source_reader = SourceReader(self._noted, reader, self._given)
        self._declared = source_reader.declared
        everywhere = reader.env(self._root)
        written: list[WrittenOperator] = []
        sources: list[EventSource] = []
        senders: list[WrittenOperator] = []
        nodes, tables = [*lost], []
        for name, kind, node in reader.nodes(self._root):
            nodes.append(name)
            if kind in ("operator", "operators"):
                written += reader.operators(name, kind, node)
            elif kind == "path":
                (written if has_inputs(node) else senders).append(reader.script(name, node))
            elif kind == "source":
                sources += source_reader.source(name, node)
            elif kind == "table":
                tables.append((name, node))
            else:
                self._noted.wrong(
                    node.data[kind], f"the node {name!r} is one by {kind!r}, which is not run here", "use operator: or path:"
                )
        added = relays(tables, senders)
        written += added
        self._files.texts |= {FILE: TEXT} if added else {}
        for one in (*written, *senders):
            one.env = tuple({**dict(everywhere), **dict(one.env)}.items())
        nodes += reader.unsure
        sources += map(self._sender, senders)
        self.operators = connected(
            written, [*sources, *source_reader.wrong], nodes, dict(tables), self._noted, unsure=reader.unsure
        )
        self._begin_circles(written, sources)
        check_input_types(self._root, written, self.operators, self._noted)
        for one, operator in zip(written, self.operators, strict=True):
            typed = dict(one.types)
            named = {output: kind.text for output, kind in one.said.items() if output not in typed}
            self.named_types |= {operator.address(output): kind for output, kind in named.items()}
        self._partitions = partitions(
            written, self.operators, sources, source_reader.columns.get, types=source_reader.types, noted=self._noted
        )
        of_sources = {address for source in sources for address, _ in source.addresses()}
        relayed = {one.node: f"{one.path}/{one.outputs[0]}" for one in added}
        self.tables = TableReader(self._noted, reader, relayed).tables(tables, self.operators, self._partitions, of_sources)
        if not sources and not self._noted.errors:
            sources = [self._clock()]
        self.sources = tuple(sources)
        self._check_tables({f"{one.node}/{one.id}": one.at for one in written})

    def _begin_circles(self, written: Sequence[WrittenOperator], sources: Sequence[EventSource]) -> None:
        """Scripts that read each other alone are live, or they never began; operators that nothing comes to are errors."""
        if self._noted.errors:
            return
        addresses = {address for source in sources for address, _ in source.addresses()}
        at = {one.path: one.at for one in written}
        lost = {one.path for one in never_told(self.operators, addresses)}
        self.operators = tuple(
            replace(one, state="live")
            if one.path in lost and one.language == "script" and "state" not in at[one.path].data
            else one
            for one in self.operators
        )
        for one in never_told(self.operators, addresses):
            text = f"{one.path!r} is told of nothing: what it reads comes of no source, timer or node without inputs"
            self._noted.remark(at[one.path], text)

    def _said_order(self) -> str:
        """The order of messages from epoch to epoch."""
        given = self._root.data.get("order")
        if given is None or given.data in (BY_TIME, BY_ARRIVAL):
            return BY_TIME if given is None else str(given.data)
        self._noted.wrong(given, f"the order of messages is {given.text or given.plain()!r}", f"write {BY_TIME} or {BY_ARRIVAL}")
        return BY_TIME

    def _sender(self, written: WrittenOperator) -> EventSource:
        """The source that a node without inputs is."""
        files = {path: text for path, text in self._files.texts.items() if path.endswith(".py")}
        descriptor = json.dumps(self._root.plain(), sort_keys=True)
        seconds = written.time_limit / 1e6 if "time_limit" in written.at.data else EPOCH
        more = [written.routes] if written.routes else []
        sender = Sender(written.node, written.file, files, written.outputs, written.env, descriptor, seconds, written.args, *more)
        self._declared[written.node] = DeclaredSource(table_of(written.node), sender, event_time=SENT)
        return EventSource(written.node, tuple((output, "value") for output in written.outputs), SENT)

    def _clock(self) -> EventSource:
        """The source of a dataflow that has timers alone."""
        self._declared["dora"] = DeclaredSource("clock", Clock(), event_time="time")
        return EventSource("dora", (), "time")

    def _check_tables(self, places: Mapping[str, Located]) -> None:
        """See that no two outputs or nodes would be the same table."""
        parts = map(part_name, ("", *self._partitions.values()))
        taken: dict[str, str] = {part.lower(): "the table of what operators did" for part in parts}
        for operator in self.operators:
            for output in operator.outputs:
                address, name = operator.address(output), table_of(operator.address(output)).lower()
                if name in taken:
                    problem = f"the output {address!r} would be the table {name!r}, which is {taken[name]}"
                    self._noted.wrong(places[f"{operator.node}/{operator.id}"], problem, "give one of them another id")
                taken[name] = f"that of {address!r}"
        for table in self.tables:
            name = table.table.lower()
            if name in taken:
                problem = f"the node {table.node!r} would be the table {name!r}, which is {taken[name]}"
                self._noted.wrong(table.at, problem, "give it another id")
            taken[name] = f"that of {table.node!r}"


def _stream(declared: DeclaredSource) -> Stream:
    if not isinstance(declared, GivenStream) or declared.stream is None:
        raise TypeError(declared)
    return declared.stream


def part_name(by: str) -> str:
    """The name of the operators that are partitioned by a column, and of the table of what they did.

    >>> part_name(""), part_name("sensor-id")
    ('events', 'events_by_sensor_id')
    """
    return f"{NAME}_by_{table_of(by)}" if by else NAME


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
