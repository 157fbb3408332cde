"""The driver's side of a batch stage: the graph of programs, the task for the workers, and what they report."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import dagster_operators.errors
from dagster_operators.errors import OperatorsError, PipelineError, SchemaError, StageFailedError
from dagster_operators.functions.shipping import pickled
from dagster_operators.graph.exchange import Broadcast, Gather
from dagster_operators.graph.places import PLACES
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.batch_operator import (
    ORIGIN,
    SEQUENCE,
    BatchOperator,
    PortSchemas,
    column_types,
    key_types,
    keys_of,
    numbered,
)
from dagster_operators.operators.physical import Rows
from dagster_operators.operators.worker_program import OriginTimes
from dagster_operators.planner.inner_loops import Way, ways
from dagster_operators.planner.physical_plan import PhysicalNode, PhysicalPlan
from dagster_operators.runtime.stages.numbered_rows import NumberedRows
from dagster_operators.runtime.stages.stage_work import StageWork
from dagster_operators.runtime.workers.batch_result import BatchResult
from dagster_operators.runtime.workers.held_times import from_record, to_record
from dagster_operators.runtime.workers.process_program import ProcessProgram
from dagster_operators.runtime.workers.program_graph import Edge, Target
from dagster_operators.runtime.workers.program_state import ProgramState
from dagster_operators.runtime.workers.shuffle import EVERYWHERE, EntryRows, Shuffle
from dagster_operators.runtime.workers.staying_keys import is_told_by_state
from dagster_operators.runtime.workers.task import REPORT_SCHEMA, Entry, GraphTask, NumberedFiles, ProgramTask, Routing
from dagster_operators.time.frontier import Frontier
from dagster_operators.transactions.codec import decode
from dagster_operators.transactions.manifest import FileEntry
from dagster_operators.types.arrow_schema import arrow_type
from dagster_operators.types.data_type import DataType

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from dagster_operators.operators.worker_program import WorkerProgram

Places = Mapping[str, Mapping[str, tuple[str, str]]]
"""For each program the ports that somebody reads outside of the graph, with their dataset and the attempt's folder in it."""


InputRows = Mapping[StreamRef, "Rows | NumberedRows"]
"""The rows of each stream: on the engine, or as the files that they are staged in."""


@dataclass(frozen=True)
class ProgramTimes:
    """The times that programs run under.

    Attributes:
        begin: The frontier of each one's inputs as the epoch began.
        watermarks: The same in event time.
        end: The frontier of a stream from outside as the epoch ends.
        origins: The watermarks of the origins of each one's inputs.
    """

    begin: Mapping[str, Frontier]
    watermarks: Mapping[str, int]
    end: Callable[[StreamRef], Frontier]
    origins: Mapping[str, OriginTimes]


def run_programs(work: StageWork, names: Sequence[str], rows: InputRows, times: ProgramTimes, places: Places) -> BatchResult:
    """Run the batch operators of a stage over an epoch's rows.

    Args:
        work: The attempt at the stage.
        names: The operators, in topological order, all distributed alike.
        rows: The rows of each stream that they read from outside.
        times: The watermarks.
        places: Where rows go that leave them.

    Raises:
        OperatorFailedError: User code raised.
        StageFailedError: A subtask gave no report.
        PipelineError: The engine cannot bring the rows of an input where it wants them.
    """
    programs = _Programs(work, names, rows, times, places)
    return BatchResult() if programs.has_nothing_to_do else programs.result(programs.run())


class _Programs:
    """A graph of programs, and how it is run."""

    def __init__(self, work: StageWork, names: Sequence[str], rows: InputRows, times: ProgramTimes, places: Places) -> None:
        self._work = work
        self._nodes = {name: work.plan.physical.nodes[name] for name in names}
        self._operators = {name: _batch(node) for name, node in self._nodes.items()}
        self._ports: dict[str, PortSchemas] = {name: work.plan.analysed[name].facts for name in names}
        self._states = {
            name: ProgramState(work, name, operator.tables(self._ports[name]), times.watermarks[name])
            for name, operator in self._operators.items()
        }
        self._times = times
        self._places = places
        self._edges, targets = _connected(work.plan.physical, self._nodes)
        self._check_columns()
        self._keyed = any(keys for _, keys in targets if keys != EVERYWHERE)
        self._single = not self._keyed and any(
            isinstance(edge.exchange, Gather) for node in self._nodes.values() for edge in node.inputs
        )
        self._parallelism = 1 if self._single else work.parallelism
        self._order = next(filter(None, map(_order, self._operators.values())), ())
        self._empty = all(rows[stream] is None for stream, _ in targets)
        schemas = [self._schema(inputs[0]) for inputs in targets.values()]
        self._reads_files = self._moved and self._parallelism == 1 and self._can_read([rows[one] for one, _ in targets], schemas)
        self._entries = [
            Entry(schema, tuple(inputs), times.end(stream), self._files(rows[stream]))
            for schema, ((stream, _), inputs) in zip(schemas, targets.items(), strict=True)
        ]
        ways = zip(targets, self._entries, strict=True)
        into = [EntryRows(self._frame(rows[stream]), entry.schema, keys) for (stream, keys), entry in ways]
        self._hashed = self._kinds(next(entry for entry in into if entry.keys != EVERYWHERE))
        self._shuffle = Shuffle(
            work.session,
            into,
            self._hashed,
            self._parallelism,
            self._order,
        )

    def _can_read(self, rows: Sequence[Rows | NumberedRows], schemas: Sequence[pa.Schema]) -> bool:
        """Whether the worker can read the rows itself, in the order that is wanted: engines hand them through Python twice."""
        from dagster_operators.runtime.workers.staged_order import can_be_ordered

        return all(one is None or isinstance(one, NumberedRows) for one in rows) and can_be_ordered(self._order, schemas)

    def _files(self, rows: Rows | NumberedRows) -> NumberedFiles | None:
        return rows.found if self._reads_files and isinstance(rows, NumberedRows) else None

    def _frame(self, rows: Rows | NumberedRows) -> Rows:
        if isinstance(rows, NumberedRows):
            return None if self._reads_files else rows.frame(self._work.session)
        return rows

    def _check_columns(self) -> None:
        """See that rows that a union hands on have the columns of its first input in their order.

        Raises:
            PipelineError: They have others.
        """
        for edge in self._edges:
            given = self._ports[edge.source].outputs[edge.port].names
            wanted = self._ports[edge.target].inputs[edge.input].names
            if given != wanted:
                raise PipelineError(
                    f"rows in a worker keep their columns: {edge.source!r} gives {', '.join(given)}, not {', '.join(wanted)}",
                    operator=edge.target,
                    remedy="let all streams of a union in the loop have their columns in the same order",
                )

    @property
    def has_nothing_to_do(self) -> bool:
        """Without rows, only operators that keep state or time can have anything to do."""
        return not self._moved and self._empty

    @property
    def _moved(self) -> bool:
        return self._keyed or self._single

    def _schema(self, target: Target) -> pa.Schema:
        name, index = target
        schema = self._ports[name].inputs[index]
        operator = self._operators[name]
        return numbered(schema, placed=operator.is_placed) if operator.is_numbered else schema

    def _kinds(self, first: EntryRows) -> list[DataType]:
        """What keys are hashed as, the same for all: what a state table says, otherwise the type in the first stream."""
        found = key_types(first.keys, first.schema, {})
        for name, node in reversed(self._nodes.items()):
            declared, own = column_types(self._states[name].tables), keys_of(node.inputs[0].exchange)
            found = [declared.get(key, kind) for key, kind in zip(own, found, strict=True)]
        return found

    def run(self) -> list[dict[str, Any]]:
        """What all subtasks report."""
        if not self._moved:
            rows = self._shuffle.unmoved()
            return [] if rows is None else self._reports(rows, "none")
        if self._reads_files:
            return self._complete(self._reports(self._shuffle.alone(), "from files"))
        subtasks = range(self._parallelism)
        if self._work.engine == "sail":  # it has no repartitionById; the rows of a subtask meet all the same
            return self._complete(self._reports(self._shuffle.by_column(subtasks), "by column"))
        rows = self._shuffle.by_partition()
        reports = [] if rows is None else self._reports(rows, "by partition")
        # Without rows there may be no partitions, and yet time passes in each subtask.
        silent = set(subtasks) - {report["subtask"] for report in reports}
        if silent:
            reports += self._reports(self._shuffle.by_column(silent, with_rows=False), "by column")
        return self._complete(reports)

    def _reports(self, rows: DataFrame, routing: Routing) -> list[dict[str, Any]]:
        _refuse_names(self._work.engine, rows.columns)
        reports = [json.loads(row.report) for row in rows.mapInArrow(_shipped(self._task(routing)), REPORT_SCHEMA).collect()]
        for report in reports:
            if "error" in report:
                raise _error(report)
        return reports

    def _complete(self, reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
        missing = set(range(self._parallelism)) - {report["subtask"] for report in reports}
        if missing:
            raise StageFailedError(f"subtasks {sorted(missing)} gave no report", remedy="see the engine's log")
        return reports

    def _task(self, routing: Routing) -> GraphTask:
        work = self._work
        return GraphTask(
            epoch=work.attempt.epoch,
            round=work.round,
            root=work.coordinator.root.path("").rstrip("/"),
            files=work.coordinator.root.shipped,
            programs=_Copies([_payload(name, operator) for name, operator in self._operators.items()]),
            members=tuple(map(self._member, self._nodes)),
            edges=tuple(self._edges),
            entries=tuple(self._entries),
            parallelism=self._parallelism,
            order=self._order,
            routing=routing,
            cache=work.cache,
            notes=next((f"{one.dataset}/{work.directory(one.dataset)}" for one in work.stage.outputs), ""),
        )

    def _member(self, name: str) -> ProgramTask:
        state, ports, times = self._states[name], self._ports[name], self._times
        begin = self._work.attempt.begin
        return ProgramTask(
            name=name,
            logical=self._nodes[name].logical,
            identity=self._work.identity(name),
            keys=keys_of(self._nodes[name].inputs[0].exchange),
            inputs=len(ports.inputs),
            ports=ports.outputs,
            places=self._places[name],
            partitions={port: self._work.partitions.get(place[0], ()) for port, place in self._places[name].items()},
            tables=state.tables,
            state_files=state.files,
            state_directories=state.directories,
            merges=state.merges,
            begin=times.begin[name],
            watermark=times.watermarks[name],
            held=from_record(name, ports.outputs, begin.held, begin.watermarks),
            origins=times.origins[name],
            staying=dict(self._staying(name)),
        )

    def _staying(self, name: str) -> Iterator[tuple[str, Mapping[str, pa.DataType]]]:
        """The ports of a program whose rows are read by their key in the same subtask, where no state tells keys of others."""
        keys = keys_of(self._nodes[name].inputs[0].exchange)
        for edge in self._edges if keys and self._parallelism > 1 else ():
            if edge.source == name:
                read_by = keys_of(self._nodes[edge.target].inputs[edge.input].exchange)
                tables = self._operators[edge.target].tables(self._ports[edge.target])
                if read_by == keys and not is_told_by_state(keys, tables):
                    yield edge.port, dict(zip(keys, map(arrow_type, self._hashed), strict=True))

    def result(self, reports: Sequence[Mapping[str, Any]]) -> BatchResult:
        """What the subtasks did together."""
        found = BatchResult()
        written: dict[str, dict[str, list[FileEntry]]] = defaultdict(lambda: defaultdict(list))
        for report in reports:
            found.add(report)
            for operator, tables in report["state"].items():
                for table, entries in tables.items():
                    written[operator][table] += [decode(FileEntry, entry) for entry in entries]
        found.states = [change for name, state in self._states.items() for change in state.changes(written[name])]
        found.watermarks = {name: mark for name, mark in found.watermarks.items() if self._operators[name].holds_time}
        for name, watermark in found.watermarks.items():
            found.held |= to_record(name, self._ports[name].outputs, found.held_at[name], watermark)
        return found


def _connected(
    plan: PhysicalPlan, nodes: Mapping[str, PhysicalNode]
) -> tuple[list[Edge], dict[tuple[StreamRef, tuple[str, ...]], list[Target]]]:
    """The edges between programs, and the inputs that get rows from outside, by stream and keys."""
    edges: list[Edge] = []
    targets: dict[tuple[StreamRef, tuple[str, ...]], list[Target]] = defaultdict(list)
    for name, node in nodes.items():
        for index, edge in enumerate(node.inputs):
            for way in ways(plan, edge.stream):
                if way.stream.operator in nodes:
                    edges.append(_edge(way, name, index))
                elif isinstance(edge.exchange, Broadcast):
                    targets[way.stream, EVERYWHERE].append((name, index))
                else:
                    targets[way.stream, keys_of(edge.exchange)].append((name, index))
    return edges, targets


def _edge(way: Way, target: str, index: int) -> Edge:
    source, port, loop = way.stream.operator, way.stream.port, way.loop
    if loop is None:
        return Edge(source, port, target, index)
    return Edge(source, port, target, index, feedback=True, loop=loop.name, limit=loop.limit, ends=loop.ends)


def _order(operator: BatchOperator) -> tuple[str, ...]:
    """What rows are to come in the order of: if they are numbered, no tie is left open."""
    order = operator.ordered_by
    places = PLACES if operator.is_placed else ()
    return (*order, ORIGIN, *places, SEQUENCE) if order and operator.is_numbered else order


class _Copies:
    """Gives fresh copies of programs; what of them is defined in the user's modules travels along."""

    def __init__(self, payloads: Sequence[bytes]) -> None:
        self._payloads = payloads

    def __call__(self) -> list[WorkerProgram]:
        import pickle

        return [pickle.loads(payload) for payload in self._payloads]  # noqa: S301 - they came with the query, as Spark's functions do


def _payload(name: str, operator: BatchOperator) -> bytes:
    payload, isolation = pickled(operator.program(), operator.module, name), operator.isolation
    return payload if isolation is None else pickled(ProcessProgram(payload, isolation), None, name)


def _shipped(task: GraphTask) -> Any:
    """The function that the engine calls for each partition."""
    payload = pickled(task, None, "operator")

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pickle

        from dagster_operators.runtime.workers.worker import partition_number, run_partition

        return run_partition(pickle.loads(payload), partition_number(), batches)  # noqa: S301 - as above

    return work


def _error(report: Mapping[str, Any]) -> OperatorsError:
    kind = getattr(dagster_operators.errors, report["error"], StageFailedError)
    found: OperatorsError = kind(report["problem"], remedy=report["remedy"], **report["where"])
    return found


def _batch(node: PhysicalNode) -> BatchOperator:
    if not isinstance(node.operator, BatchOperator):
        raise TypeError(f"not a batch operator: {node.operator!r}")
    return node.operator


_PARTING: Final = {"Sail": (("a dot", "."),), "Spark": (("a dot", "."), ("a backtick", "`"))}
"""What in a column's name parts it, or ends it, where an engine hands rows to its workers."""


def _refuse_names(engine: str, columns: Iterable[str]) -> None:
    """Refuse rows that an engine cannot hand to its workers: it takes a dot in a name for one between a struct and its field."""
    told_as = "Sail" if engine == "sail" else "Spark"
    for name in columns:
        for told, sign in _PARTING[told_as]:
            if sign in name:
                raise SchemaError(
                    f"a column with {told} in its name cannot be handed to workers on {told_as}", column=name,
                    remedy=f"rename it before: rename({{{name!r}: {name.replace(sign, '_')!r}}})",
                )  # fmt: skip
