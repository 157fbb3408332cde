"""Complete extracts of a table, one after the other: what they change is found by the key."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from dagster_operators.arguments import checked_constructor
from dagster_operators.connectors.connector import Connector, OnCorrupt, SliceChoice, Unknown
from dagster_operators.connectors.debezium_reader import DEBEZIUM, keys_of
from dagster_operators.connectors.delta_source import DeltaSource
from dagster_operators.connectors.file_source import FileSource
from dagster_operators.connectors.memory_source import MemorySource
from dagster_operators.connectors.read_failure import SET_ASIDE
from dagster_operators.connectors.written_position import check_keys
from dagster_operators.errors import BadInputError, PipelineError, SourceError
from dagster_operators.graph.slice import JSON, SourceSlice
from dagster_operators.graph.values import Fields, check_fields
from dagster_operators.operators.aggregates.partial_results import one_zero_one_nan
from dagster_operators.types.names import quoted
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dagster_operators.storage.root import Root

_REPEATED: Final = re.compile(r"extract: (the key .*? is there more than once)")


@checked_constructor
@dataclass(frozen=True, eq=False)
class SnapshotSource(Connector):
    """Extracts of a table, each with all rows that there are then: a stream of what changes from one to the next.

    An epoch reads one extract: the next file of a :class:`FileSource`, the newest version of a :class:`DeltaSource`, the next
    batch of a :class:`MemorySource`. It is compared, by the key, with the rows that the last one left: rows that are new, others,
    or gone make changes; rows that are equal make none. Files are taken by time of change, and a file that is written anew is a
    new extract. The rows there are stay in the state of an operator ``<source>_changes``, so extracts that were read may go.

    Args:
        source: Where the extracts are.
        key: The columns that tell the rows of an extract apart; a key that is there twice is an error.
        max_deleted: The largest share of the rows there are that an extract may lack, from 0 to 1. With more the epoch fails, as
            an extract that is empty or half written would delete rows that are there.

    >>> source = SnapshotSource(FileSource("extracts/*.csv", schema="id long, price double"), key="id", max_deleted=0.2)
    >>> source.row_keys, source.most_deleted
    (('id',), 0.2)
    """

    kind: ClassVar[str] = "snapshot"

    source: FileSource | DeltaSource | MemorySource
    key: str | Sequence[str]
    max_deleted: float = 0.5

    def __post_init__(self) -> None:
        _check_source(self.source)
        keys: object = self.key
        named = (keys,) if isinstance(keys, str) else tuple(keys) if isinstance(keys, Sequence) else ()
        if not named or not all(isinstance(name, str) and name for name in named):
            raise PipelineError(
                f"{keys!r} is no key", remedy="name the columns that tell an extract's rows apart: SnapshotSource with key='id'"
            )
        share: object = self.max_deleted
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise PipelineError(f"max_deleted is a share from 0 to 1, not {share!r}", remedy="write 0.5 for half of the rows")
        object.__setattr__(self, "max_deleted", float(share))

    # --- settings --------------------------------------------------------------------------------------------------------

    @override
    def encode(self) -> Fields:
        return {"source": self.source, "key": self.row_keys, "max_deleted": self.max_deleted}

    @classmethod
    @override
    def decode(cls, fields: Fields) -> SnapshotSource:
        check_fields(f"a source of the kind {cls.kind!r}", fields, {"source": True, "key": True, "max_deleted": True})
        return cls(**fields)

    @property
    @override
    def left_out(self) -> tuple[str, ...]:
        return self.source.left_out

    @override
    def with_secrets(self, secrets: Mapping[str, Any]) -> SnapshotSource:
        return replace(self, source=self.source.with_secrets(secrets))

    @override
    def without_rows(self) -> SnapshotSource:
        return replace(self, source=self.source.without_rows())

    @property
    @override
    def holds_rows(self) -> bool:
        return self.source.holds_rows

    @override
    def below(self, root: Root) -> SnapshotSource:
        return self if isinstance(self.source, MemorySource) else replace(self, source=self.source.below(root))

    @property
    def uri(self) -> str:
        """Where the extracts are."""
        return self.source.uri

    @property
    @override
    def declared_schema(self) -> str | None:
        return self.source.declared_schema

    @property
    @override
    def row_keys(self) -> tuple[str, ...]:
        return keys_of(self.key) or ()

    @property
    @override
    def most_deleted(self) -> float | None:
        return self.max_deleted

    @property
    @override
    def reader(self) -> Connector:
        return self.source

    def config(self) -> dict[str, JSON]:
        """What the extracts are read by, the key and the bound."""
        of: JSON = {"kind": self.source.kind, **self.source.config()}
        return {"extracts": of, "key": list(self.row_keys), "max_deleted": self.max_deleted}

    def identity(self) -> dict[str, JSON]:
        """What the extracts are read from."""
        return {"extracts": self.source.kind, **self.source.identity()}

    @override
    def positions(self) -> dict[str, JSON]:
        return {"extracts": self.source.kind, **self.source.positions()}

    @override
    def may_go_on_from(self, before: Connector) -> bool:
        return isinstance(before, SnapshotSource) and type(before.source) is DeltaSource is type(self.source)

    @override
    def check_position(self, position: JSON) -> None:
        if isinstance(self.source, FileSource):
            check_keys(position, {"files": int, "digest": str, "last": list})
        else:
            self.source.check_position(position)

    # --- extracts --------------------------------------------------------------------------------------------------------

    def infer_schema(self, session: SparkSession) -> str:
        """The schema of the extracts."""
        return self.source.infer_schema(session)

    def choose(self, start: JSON | None, consumed: Callable[[], Iterator[JSON]]) -> SliceChoice | None:
        """The next extract: of files and batches one after the other, of a table the newest version.

        Raises:
            MissingInputError: The folder or table is missing.
            BadInputError: A file is older than the last one that was read, or the table was replaced.
        """
        match self.source:
            case FileSource():
                return self.source.next_extract(start, consumed)
            case DeltaSource():
                return self.source.next_extract(start)
            case _:
                return self.source.choose(start, consumed)

    @override
    def outdated(self, piece: SourceSlice) -> bool:
        newer = self.source.next_extract(piece.start) if isinstance(self.source, DeltaSource) else None
        return newer is not None and newer.slice.end != piece.end

    @override
    def told(self, items: JSON) -> dict[str, Any]:
        return self.source.told(items)

    def verify(self, items: JSON, schema_json: str) -> None:
        """Look whether the extract is there and has all columns."""
        self.source.verify(items, schema_json)

    @override
    def verify_again(self, items: JSON, schema_json: str) -> None:
        self.source.verify_again(items, schema_json)

    @override
    def with_content(self, items: JSON) -> JSON:
        return self.source.with_content(items)

    @override
    def other_content(self, items: JSON) -> Sequence[str]:
        return self.source.other_content(items)

    @override
    def verify_position(self, position: JSON | None) -> None:
        self.source.verify_position(position)

    @property
    @override
    def may_be_corrupt(self) -> bool:
        return self.source.may_be_corrupt

    def read(self, session: SparkSession, items: JSON, schema_json: str, *, corrupt: OnCorrupt = "fail") -> DataFrame:
        """The rows of an extract; a key that is there twice fails the query."""
        rows = self.source.read(session, items, schema_json, corrupt=corrupt)
        keys = [name for name in rows.columns if name.lower() in {key.lower() for key in self.row_keys}]
        if not keys:
            return rows
        kinds = {name: kind.sql for name, kind in Schema.from_json(schema_json).types.items()}
        kind = kinds[keys[0]]
        by = ", ".join(one_zero_one_nan(quoted(key), kinds[key].lower()) for key in keys)
        told = ", ', ', ".join(f"coalesce(CAST({quoted(key)} AS STRING), 'null')" for key in keys)
        failed = f"CAST(raise_error(concat('extract: the key ', {told}, ' is there more than once')) AS {kind})"
        checked = f"CASE WHEN count(1) OVER (PARTITION BY {by}) > 1 THEN {failed} ELSE {quoted(keys[0])} END AS {quoted(keys[0])}"
        return rows.selectExpr(*(checked if name == keys[0] else quoted(name) for name in rows.columns))

    def explain_failure(self, session: SparkSession, error: BaseException, items: JSON, schema_json: str) -> SourceError | None:
        """The key that an extract has twice, or what made the engine fail while it read it."""
        if found := _REPEATED.search(str(error)):
            return BadInputError(
                f"in an extract {found[1]}", column=", ".join(self.row_keys), **self.told(items),
                remedy="put an extract without repeated rows in its place, or name all columns that tell rows apart: "
                "key=('id', 'line'), say",
            )  # fmt: skip
        told = self.source.explain_failure(session, error, items, schema_json)
        if told is None or told.remedy != SET_ASIDE:
            return told
        return type(told)(told.problem, **told.where, remedy="correct the file: without the record, its row would be deleted")

    def largest_event_time(self, items: JSON, column: str) -> int | Unknown | None:
        """That of the extract."""
        return self.source.largest_event_time(items, column)

    def null_count(self, items: JSON, column: str) -> int | Unknown:
        """That of the extract."""
        return self.source.null_count(items, column)

    def pin(self) -> JSON:
        """Nothing: a lookup reads a table."""
        raise PipelineError(
            "a lookup reads a table, not extracts of one",
            remedy="write them to a table, with latest(key).to_table(...), and look that up",
        )

    def read_pinned(self, session: SparkSession, pin: JSON, schema_json: str) -> DataFrame:
        """The rows of an extract."""
        return self.read(session, pin, schema_json)


def _check_source(source: object) -> None:
    """Refuse what gives no extracts."""
    if not isinstance(source, FileSource | DeltaSource | MemorySource):
        raise PipelineError(f"{source!r} gives no extracts", remedy="give a FileSource, a DeltaSource or a MemorySource")
    if isinstance(source, FileSource) and (source.format == DEBEZIUM or source.corrupt != "fail"):
        if source.format == DEBEZIUM:
            raise PipelineError("change events are no extracts", remedy="read them without SnapshotSource")
        raise PipelineError(
            'an extract whose corrupt records are rejected would delete their rows: corrupt="reject"', remedy='use corrupt="fail"'
        )
    if isinstance(source, DeltaSource) and (source.changes or source.starting_version is not None):
        setting = "changes=True" if source.changes else "starting_version"
        raise PipelineError(f"a version of a table is a whole extract: {setting} has no place there", remedy="leave it out")
