"""The driver's side of a batch stage: the shuffle by key group, the task for the workers, and what they report."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dagster_operators.errors
from dagster_operators.connectors.sql_text import literal
from dagster_operators.errors import OperatorsError, StageFailedError
from dagster_operators.functions.shipping import pickled
from dagster_operators.graph.key_group import KEY_GROUPS, key_group
from dagster_operators.graph.ports import MAIN
from dagster_operators.operators.arrow.apply import BatchOperator, PortSchemas, routing_types
from dagster_operators.operators.physical import Rows, quoted
from dagster_operators.operators.worker_program import Report
from dagster_operators.runtime.stages.stage_work import StageWork
from dagster_operators.runtime.workers.process_program import ProcessProgram
from dagster_operators.runtime.workers.program_graph import chain
from dagster_operators.runtime.workers.task import MARKER, PORT, REPORT_SCHEMA, SUBTASK, Entry, GraphTask, ProgramTask, Routing
from dagster_operators.state.merge_plan import expired_files, plan_merges
from dagster_operators.state.state_file import StateFile
from dagster_operators.time.frontier import Frontier
from dagster_operators.transactions.codec import decode
from dagster_operators.transactions.manifest import Change, FileEntry
from dagster_operators.types.arrow_schema import spark_type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from dagster_operators.operators.worker_program import WorkerProgram


@dataclass
class BatchResult:
    """What a chain of batch operators did in an epoch.

    Attributes:
        files: The files of each (operator, port) that somebody reads.
        states: What the commit is to do to the state tables.
        watermarks: The output watermark of each operator that holds time.
        late: Late rows of each operator.
        rejected: Rejected rows of each operator.
        metrics: Figures of each operator, as ``operator.figure``.
        commit_data: For each operator that commits what its subtasks left, by subtask.
    """

    files: dict[tuple[str, str], list[FileEntry]] = field(default_factory=lambda: defaultdict(list))
    states: list[Change] = field(default_factory=list)
    watermarks: dict[str, int] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    rejected: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    metrics: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    commit_data: dict[str, dict[str, Any]] = field(default_factory=lambda: defaultdict(dict))


@dataclass(frozen=True)
class ChainTimes:
    """The watermarks that a chain runs under.

    Attributes:
        begin: The input watermark of each operator as the epoch began.
        end: That of the first operator as it ends.
        held: The output watermark of each operator as the epoch began.
    """

    begin: Mapping[str, int]
    end: int
    held: Mapping[str, int]


def run_chain(
    work: StageWork,
    names: Sequence[str],
    inputs: Sequence[Rows],
    times: ChainTimes,
    places: Mapping[str, Mapping[str, tuple[str, str]]],
) -> BatchResult:
    """Run a chain of batch operators over an epoch's rows.

    Args:
        work: The attempt at the stage.
        names: The operators, each fed by the main output of the one before.
        inputs: The rows of the first one's inputs.
        times: The watermarks.
        places: For each operator the ports that somebody reads, with their dataset and folder.

    Raises:
        OperatorFailedError: User code raised.
        StageFailedError: A subtask gave no report.
    """
    chain = _Chain(work, names, inputs, times, places)
    if chain.has_nothing_to_do:
        return BatchResult()
    return chain.result(chain.run())


class _Chain:
    def __init__(
        self,
        work: StageWork,
        names: Sequence[str],
        inputs: Sequence[Rows],
        times: ChainTimes,
        places: Mapping[str, Mapping[str, tuple[str, str]]],
    ) -> None:
        self._work = work
        self._names = names
        self._operators = [_batch(work.plan.physical.nodes[name].operator) for name in names]
        self._ports: list[PortSchemas] = [work.plan.analysed[name].facts for name in names]
        self._tables = {
            name: operator.tables(ports) for name, operator, ports in zip(names, self._operators, self._ports, strict=True)
        }
        self._first, self._first_inputs = self._operators[0], self._ports[0].inputs
        self._inputs = inputs
        self._times = times
        self._places = places
        self._shuffled = bool(self._first.logical.keys[0]) or self._first.logical.single
        self._parallelism = 1 if self._first.logical.single else work.parallelism
        self._before = {
            (name, state.name): [
                StateFile.of(entry.path, entry.rows, entry.size) for entry in work.before(f"state/{name}.{state.name}")
            ]
            for name, operator in zip(names, self._operators, strict=True)
            for state in operator.states
        }
        self._expired = {
            (name, table): set(expired_files(self._tables[name][table], files, times.begin[name]))
            for (name, table), files in self._before.items()
        }
        self._merges = {
            (name, table): plan_merges(
                self._tables[name][table], [file for file in files if file not in self._expired[name, table]]
            )
            for (name, table), files in self._before.items()
        }

    @property
    def has_nothing_to_do(self) -> bool:
        """Without rows, only operators that keep state or time can have anything to do."""
        return not self._shuffled and all(rows is None for rows in self._inputs)

    def run(self) -> list[dict[str, Any]]:
        """What all subtasks report."""
        if not self._shuffled:
            rows = self._inputs[0]
            return [] if rows is None else self._reports(rows, "none")
        subtasks = range(self._parallelism)
        if self._work.engine == "sail":  # it has no repartitionById; the rows of a subtask meet all the same
            return self._complete(self._reports(self._marked(subtasks).repartition(len(subtasks), SUBTASK), "by column"))
        rows = self._placed()
        reports = [] if rows is None else self._reports(rows, "by partition")
        # Without rows there may be no partitions, and yet time passes in each subtask.
        silent = set(subtasks) - {report["subtask"] for report in reports}
        if silent:
            reports += self._reports(self._marked(silent, with_rows=False).repartition(len(silent), SUBTASK), "by column")
        return self._complete(reports)

    def _reports(self, rows: DataFrame, routing: Routing) -> list[dict[str, Any]]:
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

    # --- the way there -----------------------------------------------------------------------------------------------

    def _placed(self) -> DataFrame | None:
        """All inputs as one frame, each row in the partition that is its subtask; None without rows."""
        from pyspark.sql import functions as F

        rows = self._union()
        if rows is None:
            return None
        n = self._parallelism
        placed = rows.repartition(1) if n == 1 else rows.repartitionById(n, F.col(SUBTASK))
        # What a row carries through the shuffle, and then value by value into Arrow, is much of what a stage costs.
        return placed.drop(SUBTASK, PORT) if len(self._inputs) == 1 else placed.drop(SUBTASK)

    def _marked(self, subtasks: Collection[int], *, with_rows: bool = True) -> DataFrame:
        """A marker for each of the subtasks, so that they run, and the rows of all inputs if wanted; each with its subtask."""
        types = self._tagged_types(alone=len(self._inputs) == 1)
        nulls = [f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in types]
        chosen = ", ".join(map(str, sorted(subtasks)))
        one = self._work.session.range(0, 1, 1, 1)
        markers = one.selectExpr(f"explode(array({chosen})) AS {SUBTASK}", f"{MARKER} AS {PORT}", *nulls)
        rows = self._union() if with_rows else None
        return markers if rows is None else markers.unionByName(rows)

    def _union(self) -> DataFrame | None:
        """The rows of all inputs, each with its subtask and input; None without rows."""
        alone, union = len(self._inputs) == 1, None
        for index, (rows, keys) in enumerate(zip(self._inputs, self._first.logical.keys, strict=True)):
            tagged = self._tagged(index, rows, keys, alone=alone)
            if tagged is not None:
                union = tagged if union is None else union.unionByName(tagged)
        return union

    def _tagged_types(self, *, alone: bool) -> list[tuple[str, str]]:
        if alone:
            return [(field.name, spark_type(field.type)) for field in self._first_inputs[0]]
        return [(f"_{index}", _struct(schema)) for index, schema in enumerate(self._first_inputs)]

    def _tagged(self, index: int, rows: Rows, keys: Sequence[str], *, alone: bool) -> DataFrame | None:
        if rows is None:
            return None
        n = self._parallelism
        kinds = routing_types(self._first.logical, self._first_inputs)
        group = key_group([f"CAST({quoted(name)} AS {kind})" for name, kind in zip(keys, kinds, strict=True)])
        subtask = f"CAST({group} * {n} div {KEY_GROUPS} AS INT)" if n > 1 else "0"
        head = [f"{subtask} AS {SUBTASK}", f"{index} AS {PORT}"]
        names = self._first_inputs[index].names
        if alone:
            return rows.selectExpr(*head, *map(quoted, names))
        columns = ", ".join(f"{literal(name)}, {quoted(name)}" for name in names)
        others = [
            f"CAST(NULL AS {_struct(schema)}) AS _{other}" if other != index else f"named_struct({columns}) AS _{other}"
            for other, schema in enumerate(self._first_inputs)
        ]
        return rows.selectExpr(*head, *others)

    def _task(self, routing: Routing) -> GraphTask:
        work, first = self._work, self._names[0]
        return GraphTask(
            epoch=work.attempt.epoch,
            root=work.coordinator.root.path("").rstrip("/"),
            files=work.coordinator.root.files,
            programs=_Programs(self._operators),
            members=tuple(map(self._member, self._names, self._operators, self._ports)),
            edges=chain(self._names, MAIN),
            entries=tuple(Entry(schema, ((first, index),)) for index, schema in enumerate(self._first_inputs)),
            parallelism=self._parallelism,
            routing=routing,
            cache=work.cache,
        )

    def _member(self, name: str, operator: BatchOperator, ports: PortSchemas) -> ProgramTask:
        tables = self._tables[name]
        return ProgramTask(
            name=name,
            keys=operator.logical.keys[0],
            inputs=len(ports.inputs),
            ports=ports.outputs,
            places=self._places[name],
            tables=tables,
            state_files={table: self._before[name, table] for table in tables},
            state_directories={table: self._work.directory(f"state/{name}.{table}") for table in tables},
            merges={table: self._merges[name, table] for table in tables},
            begin=Frontier.from_watermark(self._times.begin[name]),
            end=Frontier.from_watermark(self._times.end),
            held=dict.fromkeys(ports.outputs, Frontier.from_watermark(self._times.held[name])),
        )

    # --- and back ----------------------------------------------------------------------------------------------------

    def result(self, reports: Iterable[Mapping[str, Any]]) -> BatchResult:
        found = BatchResult()
        written: dict[tuple[str, str], list[FileEntry]] = defaultdict(list)
        ends: dict[str, list[int]] = defaultdict(list)
        for report in reports:
            for operator, port, entry in report["files"]:
                found.files[operator, port].append(decode(FileEntry, entry))
            for operator, tables in report["state"].items():
                for table, entries in tables.items():
                    written[operator, table] += [decode(FileEntry, entry) for entry in entries]
            for operator, told in ((name, Report.from_json(told)) for name, told in report["programs"].items()):
                ends[operator].append(told.watermark)
                found.late[operator] += told.late
                found.rejected[operator] += told.rejected
                for figure, value in told.metrics.items():
                    found.metrics[f"{operator}.{figure}"] += value
                if told.commit_data is not None:
                    found.commit_data[operator][str(report["subtask"])] = told.commit_data
        found.watermarks = {
            name: min(ends[name])
            for name, operator in zip(self._names, self._operators, strict=True)
            if operator.logical.holds_time and ends[name]
        }
        found.states = list(self._changes(written))
        return found

    def _changes(self, written: Mapping[tuple[str, str], Sequence[FileEntry]]) -> Iterator[Change]:
        for operator, table in self._before:
            gone = {file.path for merge in self._merges[operator, table] for file in merge.files}
            gone |= {file.path for file in self._expired[operator, table]}
            adds = tuple(sorted(written.get((operator, table), ()), key=lambda entry: entry.path))
            if adds or gone:
                yield Change(f"state/{operator}.{table}", adds, tuple(sorted(gone)))


class _Programs:
    """Gives fresh copies of programs; what of them is defined in the user's modules travels along."""

    def __init__(self, operators: Sequence[BatchOperator]) -> None:
        self._payloads = list(map(_payload, operators))

    def __call__(self) -> list[WorkerProgram]:
        import pickle

        return [pickle.loads(payload) for payload in self._payloads]  # noqa: S301 - they came with the query, as Spark's functions do


def _payload(operator: BatchOperator) -> bytes:
    name = operator.logical.name
    payload = pickled(operator.program(), operator.module, name)
    isolation = operator.isolation
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


def _batch(operator: object) -> BatchOperator:
    if not isinstance(operator, BatchOperator):
        raise TypeError(f"not a batch operator: {operator!r}")
    return operator


def _struct(schema: pa.Schema) -> str:
    return f"struct<{','.join(f'{quoted(field.name)}:{spark_type(field.type)}' for field in schema)}>"
