"""What every source is to the package: it offers slices, and reads exactly the slice it is given.

Choosing a slice happens once for an epoch, on the driver, without Spark; the choice is stored in the ledger before a stage runs.
Reading may happen several times, in several processes, and gives the same rows each time or an error that says what changed.
"""

from __future__ import annotations

import enum
import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self, TypeAlias

from dagster_operators.connectors.required_places import RequiredPlace, required_places
from dagster_operators.errors import PipelineError, SourceError
from dagster_operators.functions.captured import capture, restore
from dagster_operators.graph.slice import JSON, SourceSlice
from dagster_operators.graph.values import Fields, canonical_fields, check_fields
from dagster_operators.operators.engine_schema import empty_as_declared
from dagster_operators.types.data_type import Field
from dagster_operators.types.ddl import parse_ddl
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dagster_operators.storage.root import Root

OnCorrupt: TypeAlias = Literal["fail", "reject"]
"""What a record does that cannot be parsed: fail the epoch, or go to the rejects."""


class Unknown(enum.Enum):
    """The type of ``UNKNOWN``."""

    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN
"""The answer is not to be had without reading the rows."""


@dataclass(frozen=True)
class SliceChoice:
    """The slice a source offers for the next epoch.

    Args:
        slice: What the epoch is to read.
        more: There is further data beyond the slice right now.
        news: Whether the slice is worth an epoch; False when only ``idle`` is to be told.
        idle: Nothing is to be expected for now, so the source's watermark goes along with the others'.
        final: Nothing will come after the slice, ever.
        reached: The time before which nothing will come after the slice, if the source says so.
    """

    slice: SourceSlice
    more: bool
    news: bool = True
    idle: bool = False
    final: bool = False
    reached: int | None = None


PART: Final = "_dagster_operators_part"
"""The column of :meth:`Connector.read_parts` that names the part that a row is of."""


@dataclass(frozen=True)
class Parts:
    """Parts of a source, each with rows in the order of their time as far as the source's lateness goes: partitions of a topic.

    Attributes:
        read: Those that the slice has rows of.
        holding: Those that hold the source's watermark back behind the slice: it is the least of theirs.
        idle: The others. Where none holds it back, it is the largest that one of them had.
    """

    read: tuple[str, ...]
    holding: tuple[str, ...]
    idle: tuple[str, ...] = ()


@dataclass(frozen=True)
class Extent:
    """How much a slice is, known without reading its rows.

    Attributes:
        files: How many files it is in.
        bytes: How many bytes these have together.
        rows: How many rows it has; None where a row takes a byte at least, as in text.
    """

    files: int
    bytes: int
    rows: int | None


class Connector(ABC):
    """A source of rows. Subclasses are frozen dataclasses, so that a pipeline's definition is data.

    Positions and items are JSON, because the ledger stores them: a *position* stays small however long the history, the *items*
    of a slice are its exact content.
    """

    kind: ClassVar[str]
    """The name of this kind of source in the ledger, in plans and in ``explain``."""
    secrets: ClassVar[tuple[str, ...]] = ()
    """The settings that plans leave out."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and canonical_fields(self.encode()) == canonical_fields(other.encode())

    def __hash__(self) -> int:
        return hash(type(self))

    def encode(self) -> Fields:
        """All settings as values: what equality covers and plans store. Of secrets only which were given."""
        settings = {name: _as_value(getattr(self, name)) for name in _settings(type(self)) if name not in self.secrets}
        return {**settings, "left_out": self.left_out or tuple(name for name in self.secrets if getattr(self, name))}

    @classmethod
    def decode(cls, fields: Fields) -> Self:
        """The connector that was encoded, still without its secrets; reads nothing.

        Raises:
            PlanError: A setting is unknown or missing.
        """
        known = {name: needed for name, needed in _settings(cls).items() if name not in cls.secrets}
        check_fields(f"a source of the kind {cls.kind!r}", fields, {**known, "left_out": False})
        made = cls(**{name: restore(value) for name, value in fields.items() if name != "left_out"})
        object.__setattr__(made, "_left_out", tuple(fields.get("left_out", ())))
        return made

    @property
    def left_out(self) -> tuple[str, ...]:
        """The secrets that a plan left out and that were not given again yet."""
        found: tuple[str, ...] = self.__dict__.get("_left_out", ())
        return found

    def with_secrets(self, secrets: Mapping[str, Any]) -> Self:
        """The connector with secrets that were left out."""
        given = {name: secrets[name] for name in self.left_out if name in secrets}
        made = replace(self, **given)  # type: ignore[type-var]
        object.__setattr__(made, "_left_out", tuple(name for name in self.left_out if name not in given))
        return made

    def without_rows(self) -> Self:
        """The connector without rows that it holds itself."""
        return self

    def placed(self, source: str, root: str, storage_options: Mapping[str, str] | None) -> Connector:  # noqa: ARG002
        """The connector as the source of that name of a pipeline with this storage root; most do not depend on either."""
        return self

    @property
    @abstractmethod
    def uri(self) -> str:
        """Where the data lives, as lineage shows it; without secrets."""

    def below(self, root: Root) -> Connector:  # noqa: ARG002  # most need no access to a store
        """The source as a pipeline with this storage root reads it."""
        return self

    @property
    def declared_schema(self) -> str | None:
        """The schema the user gave, as DDL."""
        return None

    @property
    def required(self) -> tuple[RequiredPlace, ...]:
        """The places that the declared schema calls NOT NULL. A row without such a value is no row of the source."""
        declared = self.declared_schema
        return () if declared is None else required_places(parse_ddl(declared))

    def planned_schema(self, session: SparkSession) -> str:
        """The schema by which a pipeline is planned: required places may be null in it, as engines would go wrong by a null."""
        schema_json, required = self.infer_schema(session), self.required
        if not required:
            return schema_json
        columns = {place.column.lower() for place in required if not place.is_nested}
        with_places = {place.column.lower() for place in required if place.is_nested}

        def planned(field: Field) -> Field:
            name = field.name.lower()
            kind = Schema((field,)).with_nulls().fields[0].type if name in with_places else field.type
            return replace(field, type=kind, nullable=field.nullable or name in columns)

        return Schema(tuple(map(planned, Schema.from_json(schema_json)))).to_json()

    @property
    def row_keys(self) -> tuple[str, ...] | None:
        """Where the rows say what is done to the current row of a key, in the columns of ``graph.changes.ENTRY``: its columns."""
        return None

    @property
    def on_unknown(self) -> str:
        """Of such rows, what an update or deletion of a key does that is not there."""
        return getattr(self, "unknown", None) or "repair"

    @property
    def row_order(self) -> str | None:
        """Of such rows, SQL for their order where they say it themselves; None where they come in it."""
        return None

    @property
    def most_deleted(self) -> float | None:
        """Where each slice has all rows there are, the share of those before that one may lack; None where slices add up."""
        return None

    @property
    def reader(self) -> Connector:
        """What reads the rows: the connector itself, unless it is one around another."""
        return self

    def outdated(self, piece: SourceSlice) -> bool:  # noqa: ARG002  # what came is there to be read
        """Whether an epoch that was begun, and not committed, had better read what there is now in place of a slice."""
        return False

    def told(self, items: JSON) -> dict[str, Any]:  # noqa: ARG002  # most slices have many parts
        """What errors about a slice name as its place, if that is one thing."""
        return {}

    @property
    def on_corrupt(self) -> OnCorrupt:
        """What happens to records that cannot be parsed."""
        return "fail"

    @abstractmethod
    def config(self) -> dict[str, JSON]:
        """All settings as JSON, for ``explain`` and docs; without secrets."""

    @abstractmethod
    def identity(self) -> dict[str, JSON]:
        """The settings that give positions their meaning: another value means another source. Limits are not among them."""

    def positions(self) -> dict[str, JSON]:
        """What gives positions their meaning, spelled in one way however the user spelled it, and known of a plan too."""
        return self.identity()

    def may_go_on_from(self, before: Connector) -> bool:
        """Whether a position of another source of the kind can mean the same here, as where data was moved."""
        return before.kind == self.kind

    def continuing(self, before: Connector) -> Connector:  # noqa: ARG002  # positions of most mean the same wherever they are
        """The source as it goes on from the position of another one, of which it was decided that it is the same data."""
        return self

    def kept_position(self, position: JSON | None) -> JSON | None:
        """The position as it is recorded after an epoch that reads nothing; it may tell what :meth:`continuing` was told."""
        return position

    def check_position(self, position: JSON) -> None:  # noqa: B027  # most need not say what they take
        """See that a position that somebody wrote is one that :meth:`choose` takes; that of the ledger always is.

        Raises:
            PipelineError: It is not; the message says what it must have.
        """

    def written_position(self, position: JSON, before: JSON | None) -> JSON:  # noqa: ARG002  # most say where all of them is
        """A position that somebody wrote, completed by where the source stands, if it only says where parts of it go on."""
        return position

    def fingerprint(self) -> str:
        """A hash of ``identity``, equal in every process."""
        text = json.dumps({"kind": self.kind, **self.identity()}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @abstractmethod
    def infer_schema(self, session: SparkSession) -> str:
        """The schema as a Spark StructType in JSON: the declared one, else what the data there is now shows.

        Raises:
            MissingInputError: Nothing is declared and there is no data to look at.
        """

    @abstractmethod
    def choose(self, start: JSON | None, consumed: Callable[[], Iterator[JSON]]) -> SliceChoice | None:
        """The next slice after ``start``, or None when there is nothing new.

        Args:
            start: The position after the last committed slice; None when there is none.
            consumed: Gives the items of every committed slice, oldest first; called only by sources that need them.
        """

    def news(self, start: JSON | None, consumed: Callable[[], Iterator[JSON]]) -> JSON | None:
        """Something that changes with the data after ``start``, or None when there is nothing new; changes nothing itself."""
        choice = self.choose(start, consumed)
        return None if choice is None or not choice.news else choice.slice.end

    def restore_times(self, start: JSON | None, consumed: Callable[[], Iterator[JSON]]) -> list[str]:  # noqa: ARG002
        """Give files that have the size they had when they were read, and another time of change, that time again.

        Args:
            start: Where the source stands.
            consumed: The items of every committed slice, oldest first.

        Returns:
            Their paths.

        Raises:
            PipelineError: The source does not know files by their time of change, or it cannot be set.
        """
        raise PipelineError("the source does not know what it read by times of change", remedy="name a FileSource")

    def backlog(self, start: JSON | None, consumed: Callable[[], Iterator[JSON]]) -> Mapping[str, int]:  # noqa: ARG002
        """How much waits behind ``start``, whatever an epoch's limits, in units that can be counted without reading rows.

        The arguments are those of :meth:`choose`. What cannot be told is left out.
        """
        return {}

    def by_clock(self, start: JSON | None) -> JSON | None:
        """What a position has become by now if nothing came behind it: parts may have become idle since."""
        return start

    def is_over(self, start: JSON | None) -> bool:  # noqa: ARG002
        """Whether nothing will ever come after a position, because the source said so when it left it."""
        return False

    @property
    def cut(self) -> str | None:
        """What sources and lookups have in common that are read as of one moment; None where each is read by itself."""
        return None

    def cut_at(self, positions: Sequence[JSON | None]) -> int | None:  # noqa: ARG002
        """That moment, as far as this source may go; ``positions`` are those of all sources that have the cut in common."""
        return None

    def as_of(self, cut: int | None) -> Connector:  # noqa: ARG002
        """The source as it was at a moment that :meth:`cut_at` gave; None is before there was anything."""
        return self

    def time(self) -> tuple[str, int] | None:
        """The event time of the rows and how far it has come, where whoever made them tells."""
        return None

    @abstractmethod
    def verify(self, items: JSON, schema_json: str) -> None:
        """Look for what would make reading ``items`` fail, as far as that is cheap to see without Spark.

        Called before the slice is written into the ledger (so that a broken file does not hold an epoch up) and by ``read``.

        Raises:
            SourceError: Something is missing, has changed since the slice was chosen, or does not fit the schema.
        """

    def with_content(self, items: JSON) -> JSON:
        """The items with digests of the files that they name, where the source can tell; what :meth:`verify` compares later."""
        return items

    def pin_with_content(self, pin: JSON) -> JSON:
        """The same of a lookup table: what :meth:`pin` gave, which each epoch names anew."""
        return self.with_content(pin)

    def other_content(self, items: JSON) -> Sequence[str]:  # noqa: ARG002  # most sources keep no files
        """The files of ``items`` that have another content than :meth:`with_content` saw; all that are there are read through."""
        return ()

    @property
    def holds_rows(self) -> bool:
        """Whether the rows are in the program that defines it, so that nobody reads them without that."""
        return False

    @property
    def forgets(self) -> str:
        """Why what was read once cannot be read again; empty if it can, as long as nobody takes it away."""
        return ""

    def together(self, before: JSON, after: JSON) -> JSON | None:  # noqa: ARG002
        """The items of two slices, one right behind the other, as those of one slice; None if they cannot be read so."""
        return None

    def verify_again(self, items: JSON, schema_json: str) -> None:
        """Look whether ``items`` are still what they were, once the last query that reads them is done.

        Between ``verify`` and that something may have been taken away or written to, which engines may read as it is then.

        Raises:
            SourceError: They are not; what was read of them is thrown away.
        """
        self.verify(items, schema_json)

    def verify_position(self, position: JSON | None) -> None:  # noqa: B027  # what most read is told by the items alone
        """Look whether a position of an earlier epoch means what it meant then, so that what led to it can be read again.

        Raises:
            SourceError: What was read then is another one now, whose items are called the same.
        """

    @abstractmethod
    def read(self, session: SparkSession, items: JSON, schema_json: str, *, corrupt: OnCorrupt = "fail") -> DataFrame:
        """Exactly the rows of ``items``, the same ones every time, in the columns of the schema.

        With ``corrupt="reject"`` the columns of ``dagster_operators.connectors.rejects`` follow, whose ``split_rejects`` takes
        the good rows and the rejects apart.
        """

    def parts(self, piece: SourceSlice) -> Parts | None:  # noqa: ARG002  # the rows of most are of one time
        """The parts of the source that have times of their own; None where the source as a whole has one."""
        return None

    def read_parts(self, session: SparkSession, items: JSON, schema_json: str, *, corrupt: OnCorrupt = "fail") -> DataFrame:
        """As :meth:`read`, with the column :data:`PART`; asked only of a source that has :meth:`parts`."""
        return self.read(session, items, schema_json, corrupt=corrupt)

    @property
    def knows_places(self) -> bool:
        """Whether the source knows where each of its rows is."""
        return False

    @property
    def gives_places(self) -> bool:
        """Whether the columns of ``graph.places`` come behind the rows."""
        found: bool = self.__dict__.get("_gives_places", False)
        return found

    def with_places(self) -> Self:
        """The connector, giving the rows' places if it knows them."""
        made = copy(self)
        object.__setattr__(made, "_gives_places", self.knows_places)
        return made

    def extent(self, items: JSON) -> Extent | None:  # noqa: ARG002  # most cannot tell
        """How much ``items`` are, after ``verify``; None if that is not known for certain without reading rows."""
        return None

    def bytes_of(self, items: JSON) -> int | None:  # noqa: ARG002  # most cannot tell
        """How many bytes the files of a slice or of a pinned table have, as far as that is known without opening them."""
        return None

    @property
    def may_be_corrupt(self) -> bool:
        """Whether single records may be found corrupt while they are parsed, so that all have to be."""
        return False

    @property
    def skips_files(self) -> bool:
        """Whether :meth:`read_some` can leave files out."""
        return False

    def read_some(self, session: SparkSession, items: JSON, schema_json: str, any_of: Sequence[str]) -> DataFrame:  # noqa: ARG002
        """As :meth:`read`, but files may be left out that have no row for which one of these conditions holds."""
        return self.read(session, items, schema_json)

    @abstractmethod
    def explain_failure(self, session: SparkSession, error: BaseException, items: JSON, schema_json: str) -> SourceError | None:
        """What an error that the engine raised while it read ``items`` says about the input.

        None if the error is about something else. May read again to find the place.
        """

    @abstractmethod
    def largest_event_time(self, items: JSON, column: str) -> int | Unknown | None:
        """The largest value of a timestamp column in microseconds, None without any, ``UNKNOWN`` if only a read can tell."""

    @abstractmethod
    def null_count(self, items: JSON, column: str) -> int | Unknown:
        """How many rows have no value in a column; ``UNKNOWN`` if only a read can tell."""

    @abstractmethod
    def pin(self) -> JSON:
        """All the data there is right now, as a value that ``read_pinned`` reads again later; for lookups."""

    @abstractmethod
    def read_pinned(self, session: SparkSession, pin: JSON, schema_json: str) -> DataFrame:
        """All rows of what ``pin`` gave."""


def _settings(kind: type) -> dict[str, bool]:
    """The settings of a connector's class, and whether they must be given."""
    settings = (part for part in fields(kind) if part.init)
    return {part.name: part.default is MISSING and part.default_factory is MISSING for part in settings}


def _as_value(value: Any) -> Any:
    """A setting as a value: a mapping as sorted pairs, a path as text."""
    if isinstance(value, Mapping):
        return capture(dict(sorted(value.items())))
    return os.fspath(value) if isinstance(value, os.PathLike) else capture(value)


def parse_schema(session: SparkSession, ddl: str) -> str:
    """A DDL schema as a Spark StructType in JSON, parsed by the engine."""
    return str(empty_as_declared(session, ddl).schema.json())
