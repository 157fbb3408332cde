"""The nodes of a dataflow's file that are tables: the messages of an output as rows with columns of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dagster_operators.api.events.conditions import no_condition
from dagster_operators.api.events.node_reader import NodeReader
from dagster_operators.api.events.noted import Noted
from dagster_operators.api.pipeline_graph import PipelineGraph
from dagster_operators.api.queries.located import Located
from dagster_operators.catalog.catalog import near
from dagster_operators.connectors.memory_source import MemorySource
from dagster_operators.errors import OperatorsError
from dagster_operators.operators.events.wiring import KEY, EventOperator, table_of
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from dagster_operators.api.stream import Stream

_KEYS: Final = ("input", "columns", "where", "key")
_COLUMN: Final = re.compile(r"\w+|`[^`]+`")
"""What names a column by itself, so that a list may have it."""


@dataclass
class WrittenTable:
    """A table as it is written.

    Attributes:
        node: The node's id.
        input: The address of the output whose messages it holds.
        columns: Pairs of a column and the expression that it is; all columns of the output's table if there are none.
        where: A condition for messages to be taken; empty if all are.
        key: Columns of which each value has one row, its last; none if all rows stay.
        at: The node.
    """

    node: str
    input: str
    columns: tuple[tuple[str, str], ...]
    where: str
    key: tuple[str, ...]
    at: Located

    @property
    def table(self) -> str:
        """The table's name."""
        return table_of(self.node)

    def steps(self) -> Mapping[str, Callable[[Stream], Stream]]:
        """What is done with the messages, by the key that says so."""
        made: dict[str, Callable[[Stream], Stream]] = {}
        if self.where:
            made["where"] = lambda rows: rows.filter(self.where, name=f"{self.table}_where")
        if self.columns:
            named = dict(self.columns)
            chosen = [f"{expression} AS {name}" for name, expression in named.items()]
            made["columns"] = lambda rows: rows.select(*chosen, name=f"{self.table}_columns")
        if self.key:
            made["key"] = lambda rows: rows.key_by(*self.key).deduplicate(keep="last", name=f"{self.table}_last")
        return made

    def add_to(self, messages: Stream) -> None:
        """Make the table of the messages."""
        columns = list(messages.columns or ())
        rows = messages if self.columns else messages.select(*columns, name=f"{self.table}_columns")
        for step in self.steps().values():
            rows = step(rows)
        rows.to_table(self.table, description=f"The messages of the output {self.input}, as the dataflow's file says.")


class TableReader:
    """Reads them.

    Args:
        noted: Collects what is wrong.
        nodes: Reads what all nodes have.
        relayed: The addresses that tables read in place of outputs of nodes without inputs, by the table's node.
    """

    def __init__(self, noted: Noted, nodes: NodeReader, relayed: Mapping[str, str]) -> None:
        self._noted = noted
        self._nodes = nodes
        self._relayed = relayed
        self._of_sources: Collection[str] = ()

    def tables(
        self, given: Sequence[tuple[str, Located]], operators: Sequence[EventOperator], partitions: Mapping[str, str],
        of_sources: Collection[str],
    ) -> list[WrittenTable]:  # fmt: skip
        """The tables.

        Args:
            given: The id and content of each node that is one.
            operators: The operators of the file.
            partitions: By which column each of them is partitioned, by its path.
            of_sources: The addresses of the outputs of sources.
        """
        self._of_sources = of_sources
        senders = {operator.address(output): operator for operator in operators for output in operator.outputs}
        found = [table for name, node in given if (table := self._table(name, node, senders)) is not None]
        for table in found:
            sender = senders[table.input]
            kind = dict(sender.types)[table.input.removeprefix(f"{sender.path}/")]
            self._try(table, kind, is_partitioned=bool(partitions[sender.path]))
        return found

    def _table(self, name: str, node: Located, senders: Mapping[str, EventOperator]) -> WrittenTable | None:
        what, own = f"the table {name!r}", node.data["table"]
        self._noted.unknown_keys(what, node, ("id", "name", "description", "table"))
        if not isinstance(own.data, dict):
            self._noted.wrong(own, f"{what} is no mapping of keys to values", "write table: {input: node/output}")
            return None
        self._noted.unknown_keys(what, own, _KEYS)
        address = self._relayed.get(name) or self._input(what, own, senders)
        columns, where, key = self._columns(what, own), self._where(what, own), own.data.get("key")
        keys = () if key is None else key.data if isinstance(key.data, tuple) else (key,)
        if address is None or columns is None or where is None:
            return None
        return WrittenTable(name, address, columns, where, tuple(one.text for one in keys), own)

    def _input(self, what: str, own: Located, senders: Mapping[str, EventOperator]) -> str | None:
        """The address of the output that a table reads."""
        given = own.data.get("input")
        if given is None or not isinstance(given.data, str):
            self._noted.wrong(given or own, f"{what} reads nothing", "write input: node/output")
            return None
        sender = senders.get(given.data)
        if given.data in self._of_sources:
            problem = f"{what}: {given.data!r} is the output of a source or of a node without inputs"
            typed = f"of a node without inputs declare its type: output_types: {{{given.data.rpartition('/')[2]}: int64}}, say"
            self._noted.wrong(given, problem, f"{typed}; of a source let an operator send on what it reads, and read its output")
            return None
        if sender is None:
            remedy = near(given.data, senders) or f"there are: {', '.join(senders) or 'none'}"
            self._noted.wrong(given, f"{what}: there is no output {given.data!r} of an operator", remedy)
            return None
        output = given.data.removeprefix(f"{sender.path}/")
        if output not in dict(sender.types):
            problem = f"{what}: the output {given.data!r} has no type, so its values are no column"
            self._noted.wrong(given, problem, f"declare it at the operator: output_types: {{{output}: float64}}")
            return None
        return given.data

    def _where(self, what: str, own: Located) -> str | None:
        """The condition; None if what is written is none."""
        given = own.data.get("where")
        if given is not None and isinstance(given.data, dict | tuple):
            self._noted.wrong(given, f"{what}: its condition is {given.plain()!r}", "write where: value[0] > 5")
            return None
        return "" if given is None else given.text

    def _columns(self, what: str, own: Located) -> tuple[tuple[str, str], ...] | None:
        """The columns of a table, and what they are; None if they are written wrongly."""
        given = own.data.get("columns")
        if given is None:
            return ()
        if isinstance(given.data, tuple):
            return self._listed(what, given.data)
        if not isinstance(given.data, dict):
            self._noted.wrong(given, f"{what}: its columns are {given.text!r}", "write columns: {name: expression}")
            return None
        return tuple((name, expression.text) for name, expression in given.data.items())

    def _listed(self, what: str, given: Sequence[Located]) -> tuple[tuple[str, str], ...] | None:
        """Columns that keep their names; None if what is listed has none."""
        for one in given:
            if isinstance(one.data, dict | tuple) or not _COLUMN.fullmatch(one.text):
                problem = f"{what}: the column {one.text or one.plain()!r} is no name, so the table's has none"
                self._noted.wrong(one, problem, 'write pairs name: expression, as columns: {time: time, mean: "value[0]"}')
                return None
        return tuple((one.text, one.text) for one in given)

    def _try(self, table: WrittenTable, kind: str, *, is_partitioned: bool) -> None:
        """Make the table of no messages, to see what is wrong with it."""
        further = f", {KEY} string" if is_partitioned else ""
        schema = f"time timestamp, seq bigint, value array<{kind}>, metadata string{further}"
        rows = PipelineGraph("looking", "nowhere").source("messages", MemorySource([], schema=schema), event_time="time")
        problem = "" if not table.where else no_condition(table.where, Schema.of(schema).to_arrow())
        if problem:
            self._noted.wrong(table.at.data["where"], f"the table {table.node!r}: {problem}", "compare it: value[0] > 5")
            return
        for key, step in table.steps().items():
            if key == "key" and rows.event_time is None:
                problem = f"the table {table.node!r} has a key and no column with the time, which tells the last row of a key"
                self._noted.wrong(table.at.data[key], problem, "add time: time to columns")
                return
            try:
                rows = step(rows)
            except OperatorsError as error:
                self._noted.wrong(table.at.data[key], f"the table {table.node!r}: {error.problem}", error.remedy)
                return
