"""What a stage reads: slices of sources, pinned lookup tables, the rows of upstream stages; and the event time in them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.connectors.connector import PART, UNKNOWN, Connector, Parts
from dagster_operators.connectors.rejects import lacks_time, split_rejects, split_untimed
from dagster_operators.connectors.sql_text import literal
from dagster_operators.errors import BadInputError, PipelineError, SourceError, located
from dagster_operators.graph.origins import origins_of
from dagster_operators.graph.places import FILE, PLACES
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.batch_operator import BatchOperator
from dagster_operators.operators.one_nan import with_one_nan
from dagster_operators.operators.one_task import FEW_BYTES, FEW_ROWS, in_one_task, joins_in_one_task, made_of
from dagster_operators.operators.physical import EVERYTHING, Needed, Rows
from dagster_operators.operators.relational.source import Source
from dagster_operators.operators.rows_by_time import micros_of
from dagster_operators.operators.worker_program import Ending, OriginTimes
from dagster_operators.planner.plan import without_marks
from dagster_operators.planner.stages import Stage
from dagster_operators.runtime.event_time import LAST, Frontiers, at_beginning, held_in, time_of_parts
from dagster_operators.runtime.stages.numbered_rows import NumberedRows
from dagster_operators.runtime.stages.observed import Observed
from dagster_operators.runtime.stages.required_columns import RequiredColumns, split_required
from dagster_operators.runtime.stages.stage_work import StageWork
from dagster_operators.runtime.stages.staged_files import StagedFiles
from dagster_operators.runtime.stages.times_ahead import TimesAhead
from dagster_operators.time.frontier import Frontier
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK, advance
from dagster_operators.transactions.manifest import FileEntry
from dagster_operators.transactions.stage_keys import StageKey

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_NO_FIGURES: Final[Mapping[str, Any]] = {}


_FEW_FILES: Final = 16
_FEW_CHARACTERS: Final = 1024 * 1024
"""So long a text may be if its rows are to be few: how many it has is not known, and each takes some four characters at least."""


def gathered(rows: DataFrame, connector: Connector, items: Any, *, files: int = _FEW_FILES) -> DataFrame:
    """Rows that a connector has read, by one task of Spark if they are known to be few.

    Args:
        rows: The rows.
        connector: What has read them.
        items: What they are.
        files: Only if they are in no more files than this, which one task opens one after another.
    """
    extent = connector.extent(items) if joins_in_one_task(rows.sparkSession) else None
    if extent is None or extent.bytes > FEW_BYTES or extent.files > files:
        return rows
    if extent.rows is None:
        return in_one_task(rows, extent.bytes, extent.bytes if extent.bytes <= _FEW_CHARACTERS else None)
    return in_one_task(rows, extent.bytes, extent.rows if extent.rows <= FEW_ROWS else None)


class StageInputs:
    """The inputs of one attempt at a stage.

    Args:
        work: The attempt.
        files: Reads below the storage root.
        observed: Takes figures along with the rows.

    Attributes:
        rejected: The records of each source that could not be parsed, as rows.
        to_parse: The rows of each source that must be parsed to the end, and of which no figures are taken.
    """

    def __init__(self, work: StageWork, files: StagedFiles, observed: Observed) -> None:
        self._work = work
        self._files = files
        self._observed = observed
        self._required = RequiredColumns(observed)
        self._ends: dict[str, int] = {}
        self._part_ends: dict[str, dict[str, int]] = {}
        begin = work.attempt.begin
        self._begin = Frontiers(work.dataflow, at_beginning(begin.watermarks), held_in(begin.held))
        self._end = Frontiers(work.dataflow, self._end_of_source, self._held_at_end)
        self._last = Frontiers(work.dataflow, self._last_of_source, self._held_at_end)
        self.rejected: dict[str, DataFrame] = {}
        self.to_parse: dict[str, DataFrame] = {}
        self._read_from: set[str] = set()
        self._clock = time.time_ns() // 1_000

    def upstream(self, stream: StreamRef) -> Rows:
        """The rows that another stage staged in this epoch (of an updating table: those that changed)."""
        return self._read(stream, *self._staged(stream))

    def numbered(self, stream: StreamRef, schema: pa.Schema, placed: bool) -> NumberedRows | None:  # noqa: FBT001
        """The same with the number of each row, and perhaps with its place in the source.

        Raises:
            PipelineError: The stage is of a loop, whose rounds would give the same numbers again.
        """
        work = self._work
        if work.stage.goes_round:
            raise PipelineError("rows that go round in a loop have no numbers", remedy="ask for them before the loop")
        stage, keys = self._staged(stream)
        dataset, files = self._files_of(stream, stage, keys)
        if not files:
            return None
        root, epoch = work.coordinator.root, work.attempt.epoch
        return NumberedRows.of(root, files, schema, dataset=dataset, stream=stream, epoch=epoch, placed=placed)

    def fed_back(self, variable: str) -> Rows:
        """The rows that went round to a loop variable: those of the round before."""
        work = self._work
        *around, number = work.key.iteration
        if number == 0:
            return None
        name, stream = work.stage.feedback[variable]
        return self._read(stream, work.plan.stage(name), [str(StageKey(name, (*around, number - 1)))])

    def _staged(self, stream: StreamRef) -> tuple[Stage, list[str]]:
        """The stage that a stream comes from, and the keys of the attempts at it that this stage reads."""
        work = self._work
        stage = next(stage for stage in work.plan.stages if stage.output(stream))
        if stage.goes_round and stage.loop == work.stage.loop:
            return stage, [str(StageKey(stage.name, work.key.iteration))]
        return stage, [key for key in work.attempt.upstream if StageKey.parse(key).stage == stage.name]

    def _read(self, stream: StreamRef, stage: Stage, keys: Iterable[str]) -> Rows:
        """A stream's rows in the attempts that are read of its stage."""
        dataset, files = self._files_of(stream, stage, keys)
        return self._files.read(dataset, files, self._work.plan.schemas[stream]) if files else None

    def _files_of(self, stream: StreamRef, stage: Stage, keys: Iterable[str]) -> tuple[str, list[FileEntry]]:
        """Where those rows are."""
        work, output = self._work, stage.output(stream)
        if output is None:
            raise PipelineError(
                f"the stage {stage.name} does not write the stream {stream}", **work.where(),
                remedy="start a new run, which plans the epoch anew",
            )  # fmt: skip
        dataset = work.place_of(output)
        changes = [work.attempt.upstream[key].change(dataset) for key in keys]
        return dataset, [entry for change in changes if change for entry in change.rows_of_epoch]

    def whole_table(self, operator: str) -> Rows:
        """All rows that the table has behind the epoch which an operator's input goes to: the stage that writes it ran before."""
        work = self._work
        (edge,) = work.plan.physical.nodes[operator].inputs
        stage, keys = self._staged(edge.stream)
        output = stage.output(edge.stream)
        if output is None or output.table is None:
            raise PipelineError(
                f"{edge.stream} goes to no table, so that not all of its rows can be read", **work.where(), operator=operator,
                remedy="write it to a table, and read that",
            )  # fmt: skip
        dataset = output.dataset
        there = {file.path: file for file in work.coordinator.files(dataset, work.attempt.begin.base_versions[dataset])}
        for change in filter(None, (work.attempt.upstream[key].change(dataset) for key in keys[-1:])):
            there = {path: file for path, file in there.items() if path not in change.removes}
            there |= {file.path: file for file in change.adds}
        return self._files.read(dataset, there.values(), without_marks(work.plan.schemas[edge.stream]))

    def source(self, operator: str, needed: Needed = EVERYTHING) -> Rows:
        """The slice of a source that the epoch reads.

        All of it counts for the event time, and all that cannot be parsed is rejected, whatever is needed.
        """
        items = self._work.items(operator)
        if items is None:
            return None
        connector = self._reader(operator)
        self._read_from.add(operator)
        column = self._work.dataflow.nodes[operator].type.event_time
        is_timed = column is not None and operator not in self._work.attempt.begin.slices.timed
        parts = self._parts(operator).read if is_timed else ()
        with located(source=operator):
            rows = self._rows(connector, operator, items, needed.any_of, with_parts=bool(parts))
            rows = with_one_nan(rows, self._work.schemas[operator])
            rows = read = gathered(rows, connector, items, files=1)
        # A table with rows that are marked as deleted is read without places.
        places = PLACES if connector.gives_places and FILE in rows.columns else ()
        rows = self._complete(operator, connector, items, rows, column if is_timed else None)
        if column is None or not is_timed:
            return made_of(needed.of(rows, *places), read)
        largest, nulls = connector.largest_event_time(items, column), connector.null_count(items, column)
        if parts:
            largest = UNKNOWN
        ahead = self._ahead(operator)
        if connector.on_corrupt == "reject":
            if nulls is UNKNOWN or nulls:
                rows, untimed = split_untimed(rows, column)
                self.rejected[operator], nulls = self.rejected[operator].unionByName(untimed), 0
            if ahead is not None and ahead.may_be_beyond(largest):
                rows, early = ahead.split(rows)
                self.rejected[operator], largest = self.rejected[operator].unionByName(early), UNKNOWN
        rows = needed.of(rows, *places, *([PART] if parts else ()))
        if largest is UNKNOWN or nulls is UNKNOWN:
            micros = micros_of(column)
            figures = {"largest": f"max({micros})", "nulls": f"count_if({lacks_time(column, rows.columns)})"}
            figures |= {f"part {part}": f"max(CASE WHEN {PART} = {literal(part)} THEN {micros} END)" for part in parts}
            watched = self._observed.watch(f"source {operator}", rows, figures)
            return made_of(watched.drop(PART) if parts else watched, read)
        self._check_nulls(operator, column, nulls)
        self._ends[operator] = self._advanced(operator, largest)
        return made_of(rows, read)

    def _complete(self, source: str, connector: Connector, items: Any, rows: DataFrame, time_column: str | None) -> DataFrame:
        """The rows of a source without its rejects; where it has none, what is to be known of the rows is noted.

        Args:
            source: The source.
            connector: What has read the rows.
            items: What they are.
            rows: The rows.
            time_column: The event time, where nulls in it are looked at elsewhere.
        """
        beside = [] if time_column is None else [time_column]
        if connector.on_corrupt == "reject":
            rows, rejected = split_rejects(rows)
            rows, incomplete = split_required(connector, rows, beside=beside)
            for records in incomplete:
                rejected = rejected.unionByName(records)
            self.rejected[source] = rejected
            return rows
        if connector.may_be_corrupt and time_column is None:
            self.to_parse[source] = rows
        return self._required.of_source(source, connector, items, rows, beside=beside)

    def _reader(self, source: str) -> Connector:
        """What reads a source; with places if its stream has readers and all of them want these: in a table they were columns."""
        connector = self._connector(source)
        stream = StreamRef(source)
        output = self._work.stage.output(stream)
        readers = [node for node in self._work.plan.physical.nodes.values() if any(edge.stream == stream for edge in node.inputs)]
        placed = bool(readers) and all(isinstance(node.operator, BatchOperator) and node.operator.is_placed for node in readers)
        return connector.with_places() if placed and output is not None and output.table is None else connector

    def _rows(self, connector: Connector, operator: str, items: Any, any_of: Sequence[str], *, with_parts: bool) -> DataFrame:
        """The rows of a slice, without files that have none that is needed, unless all must be seen."""
        session, schema = self._work.session, self._work.schemas[operator]
        if with_parts:
            return connector.read_parts(session, items, schema, corrupt=connector.on_corrupt)
        if not any_of or connector.on_corrupt == "reject" or connector.required:
            return connector.read(session, items, schema, corrupt=connector.on_corrupt)
        column = self._work.dataflow.nodes[operator].type.event_time
        if column is not None:  # rows that are not read must count for the watermark too
            connector.verify(items, schema)
            if UNKNOWN in (connector.largest_event_time(items, column), connector.null_count(items, column)):
                return connector.read(session, items, schema)
        return connector.read_some(session, items, schema, any_of)

    def pinned(self, operator: str) -> DataFrame:
        """A lookup table as it was when the epoch began."""
        connector = self._connector(operator)
        self._read_from.add(operator)
        with located(operator=operator):
            items = self._work.items(operator)
            table = connector.read_pinned(self._work.session, items, self._work.schemas[operator])
            table = self._required.of_lookup(operator, connector, table)
            return gathered(with_one_nan(table, self._work.schemas[operator]), connector, items)

    def verify_again(self) -> None:
        """Look whether sources and lookup tables are still what they were, after the last query that reads them.

        Raises:
            SourceError: One is not.
            BadInputError: A row has no value in a column that its source declares NOT NULL.
        """
        for operator in self._read_from:
            try:
                self._connector(operator).verify_again(self._work.items(operator), self._work.schemas[operator])
            except SourceError as error:
                error.remedy = "run again: nothing of the epoch is committed, and it is begun anew with what is there then"
                raise error.at(source=operator) from None
        self._required.check()

    def watermark_begin(self, operator: str) -> int:
        """The watermark of an operator's input when the epoch began."""
        return self._begin.watermark_of_input(self._logical(operator))

    def frontier_begin(self, operator: str) -> Frontier:
        """The frontier of an operator's inputs together when the epoch began."""
        return self._begin.of_input(self._logical(operator))

    def watermark_end(self, operator: str) -> int:
        """The watermark of an operator's input at the end of the epoch."""
        return self._end.watermark_of_input(self._logical(operator))

    def frontier_end(self, stream: StreamRef) -> Frontier:
        """The frontier of a stream at the end of the epoch."""
        logical = self._logical(stream.operator)
        # Between the parts of an operator time is that of its inputs.
        return self._end.of(stream) if logical == stream.operator else self._end.of_input(logical)

    def frontier_of_result(self, stream: StreamRef, told: Mapping[str, int], held: Mapping[str, Frontier]) -> Frontier:
        """The frontier at the end of the epoch of a stream that the stage puts out.

        Args:
            stream: The stream.
            told: The watermarks of the stage's own operators that hold time.
            held: What those hold at their outputs.
        """
        at_end = Frontiers(
            self._work.dataflow,
            lambda name: told[name] if name in told else self._end_of_source(name),
            lambda port: held.get(str(port)) if port.operator in told else self._held_at_end(port),
        )
        return at_end.of(stream)

    def origins(self, operator: str) -> OriginTimes:
        """The watermarks of the origins of a batch operator's input, at the beginning and at the end of the epoch.

        The streams that it reads are the origins of one whose rows are numbered: it is in them that they have their numbers.
        """
        physical, dataflow = self._work.plan.physical.nodes[operator].operator, self._work.dataflow
        read = dataflow.nodes[self._logical(operator)].inputs
        is_numbered = isinstance(physical, BatchOperator) and physical.is_numbered
        origins = tuple(dict.fromkeys(read)) if is_numbered else origins_of(dataflow, *read)
        begin, end = ({str(one): at.watermark(one) for one in origins} for at in (self._begin, self._end))
        before = {one: set(dataflow.leading_to(one)) for one in origins}
        ending = self._ending(read) if is_numbered else Ending()
        return OriginTimes(begin, end, any(map(self._goes_on, {each for some in before.values() for each in some})), ending)

    def _ending(self, read: Sequence[StreamRef]) -> Ending:
        """What ends with the epoch, for an operator that reads some streams."""
        slices = self._work.attempt.begin.slices
        ended = [place for place, one in enumerate(read) if self._sources_before(one) <= slices.ended]
        last, of_sources = map(self._last.watermark, read), map(self._last_of_sources, read)
        return Ending(tuple(last), slices.stops, ended if slices.stops else (), tuple(of_sources))

    def _last_of_sources(self, stream: StreamRef) -> int:
        """The last event time of the sources that a stream is made of."""
        timed = [one for one in self._sources_before(stream) if self._work.dataflow.nodes[one].type.event_time]
        return max(map(self._last_of_source, sorted(timed)), default=MIN_WATERMARK)

    def _sources_before(self, stream: StreamRef) -> set[str]:
        """The sources that a stream is made of."""
        dataflow = self._work.dataflow
        return {one.operator for one in dataflow.leading_to(stream) if isinstance(dataflow.nodes[one.operator].operator, Source)}

    def _goes_on(self, stream: StreamRef) -> bool:
        """Whether a stream is that of a source without an event time that may have rows in a later epoch."""
        operator = self._work.dataflow.nodes[stream.operator].operator
        is_timeless = isinstance(operator, Source) and not operator.event_time
        return is_timeless and stream.operator not in self._work.attempt.begin.slices.finished

    def _logical(self, operator: str) -> str:
        return self._work.plan.physical.nodes[operator].logical

    def watermarks(self) -> dict[str, int]:
        """The watermark at the end of the epoch of each source that the stage reads, directly or through other stages."""
        found = {
            source: mark for manifest in self._work.attempt.upstream.values() for source, mark in manifest.watermarks.items()
        }
        for name in self._work.stage.operators:
            operator = self._work.dataflow.nodes[name].operator
            if isinstance(operator, Source) and operator.event_time:
                found[name] = self._end_of_source(name)
                found |= {f"{name}.{part}": mark for part, mark in self._part_ends.get(name, {}).items()}
        return found

    def held(self) -> dict[str, Frontier]:
        """What operators of other stages hold at the end of the epoch that the stage reads from, directly or through others."""
        return {stream: held for manifest in self._work.attempt.upstream.values() for stream, held in manifest.held.items()}

    def _held_at_end(self, stream: StreamRef) -> Frontier | None:
        """What is held at an output at the end of the epoch: what the operator told in it, else what it held before."""
        attempt = self._work.attempt
        told = next((manifest for manifest in attempt.upstream.values() if stream.operator in manifest.watermarks), attempt.begin)
        return told.held.get(str(stream))

    def _end_of_source(self, source: str) -> int:
        for manifest in self._work.attempt.upstream.values():
            if source in manifest.watermarks:
                return manifest.watermarks[source]
        if source not in self._ends:
            name, largest = f"source {source}", None
            figures: dict[str, Any] = {}
            if name in self._observed.names():
                figures = self._observed.values(name)
                self._check_nulls(source, self._work.dataflow.nodes[source].type.event_time or "", int(figures["nulls"] or 0))
                largest = figures["largest"]
            self._ends[source] = self._advanced(source, largest, figures)
        return self._ends[source]

    def _last_of_source(self, source: str) -> int:
        """The last event time of a source that is finished; of another one its watermark."""
        key, begin = f"{source}.{LAST}", self._work.attempt.begin
        end = self._end_of_source(source)
        if end != MAX_WATERMARK:
            return end
        told = [manifest.watermarks[key] for manifest in self._work.attempt.upstream.values() if key in manifest.watermarks]
        return told[0] if told else self._part_ends.get(source, {}).get(LAST, begin.watermarks.get(key, MIN_WATERMARK))

    def _note_last(self, source: str, lateness: int, largest: int | None) -> None:
        """Note the last event time that there was of a source with an end: at that its watermark tells it no more."""
        record, key = self._work.attempt.begin, f"{source}.{LAST}"
        marks = [record.watermarks.get(source, MIN_WATERMARK), record.slices.watermarks.get(source, MIN_WATERMARK)]
        seen = [mark + lateness for mark in marks if MIN_WATERMARK < mark < MAX_WATERMARK]
        known = [marks[key] for marks in (record.watermarks, record.slices.watermarks) if key in marks]
        found = max([*seen, *known, *([] if largest is None else [largest])], default=MIN_WATERMARK)
        if found > MIN_WATERMARK:
            self._part_ends.setdefault(source, {})[LAST] = found

    def _parts(self, source: str) -> Parts:
        """The parts of a source that have times of their own; none where it has one time."""
        connector, piece = self._work.connector(source), self._work.attempt.begin.slices.offsets.get(source)
        found = connector.parts(piece) if connector is not None and piece is not None else None
        return found or Parts((), ())

    def _advanced_by_parts(self, source: str, begin: int, lateness: int, figures: Mapping[str, Any]) -> int | None:
        """The watermark of a source from those of its parts; None where it has none."""
        parts, marks = self._parts(source), self._work.attempt.begin.watermarks
        ends = {
            part: advance(marks.get(f"{source}.{part}", begin), figures.get(f"part {part}"), lateness)
            for part in sorted({*parts.read, *parts.holding, *parts.idle})
        }
        moved = {*parts.read, *parts.holding}  # the others keep what they have, if anything
        told = {part: end for part, end in ends.items() if end != MIN_WATERMARK and part in moved}
        self._part_ends[source] = self._part_ends.get(source, {}) | told
        return time_of_parts(parts, ends, begin) if ends else None

    def _advanced(self, source: str, largest: int | None, figures: Mapping[str, Any] = _NO_FIGURES) -> int:
        record, operator = self._work.attempt.begin, self._work.dataflow.nodes[source].operator
        is_finished = source in record.slices.finished
        if isinstance(operator, Source) and (operator.finished or is_finished):
            self._note_last(source, operator.lateness, largest)
        if is_finished:
            return MAX_WATERMARK
        said = record.slices.watermarks.get(source, MIN_WATERMARK)
        if source in record.slices.idle and largest is None:
            return max(said, self._others(source))
        lateness = operator.lateness if isinstance(operator, Source) else 0
        begin = at_beginning(record.watermarks)(source)
        if (ahead := self._ahead(source)) is not None:
            ahead.check(largest, begin)
        of_parts = self._advanced_by_parts(source, begin, lateness, figures)
        return max(said, advance(begin, largest, lateness) if of_parts is None else of_parts)

    def _ahead(self, source: str) -> TimesAhead | None:
        operator = self._work.dataflow.nodes[source].operator
        return TimesAhead(source, operator, self._clock) if isinstance(operator, Source) else None

    def _others(self, idle: str) -> int:
        """The watermark of an idle source: where those of the sources that are not idle stood when the epoch began.

        It catches up for good: rows that come later than that are late, since windows may have closed without them.
        """
        record, dataflow = self._work.attempt.begin, self._work.dataflow
        begin = at_beginning(record.watermarks)
        others = [
            begin(name)
            for name in self._work.plan.sources
            if name not in record.slices.idle
            and isinstance(operator := dataflow.nodes[name].operator, Source)
            and operator.event_time
        ]
        return max(begin(idle), min(others, default=begin(idle)))

    def _check_nulls(self, source: str, column: str, nulls: int) -> None:
        if nulls:
            raise BadInputError(
                f"{nulls} rows have no event time",
                source=source,
                column=column,
                remedy='correct the input; or set such rows aside: a FileSource with corrupt="reject" does; or read it without '
                "event_time and filter such rows out in a pipeline before this one",
            )

    def _connector(self, operator: str) -> Connector:
        connector = self._work.connector(operator)
        if connector is None:
            raise PipelineError(
                "the operator reads no source or lookup table",
                operator=operator,
                remedy="please report this: the plan should have been refused",
            )
        return connector
