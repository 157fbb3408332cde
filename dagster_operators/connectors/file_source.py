"""Files in a folder or bucket: each is read once, whenever it arrives."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from typing_extensions import override

from dagster_operators.arguments import checked_constructor
from dagster_operators.connectors import parquet_format
from dagster_operators.connectors.connector import UNKNOWN, Connector, Extent, OnCorrupt, SliceChoice, Unknown, parse_schema
from dagster_operators.connectors.debezium_reader import (
    DEBEZIUM,
    ENTRY_COLUMNS,
    OnUnknown,
    check_events,
    keys_of,
    order_in_state,
    read_events,
)
from dagster_operators.connectors.dialect import reader_paths
from dagster_operators.connectors.file_format import SUFFIXES, Format, common_format, is_plain
from dagster_operators.connectors.json_names import warn_of_other_names
from dagster_operators.connectors.missing_columns import MissingColumns, check_missing_columns, refuse_void
from dagster_operators.connectors.moved_files import names_of, position_with, without_name
from dagster_operators.connectors.parquet_bounds import may_have_any
from dagster_operators.connectors.read_failure import explain_read_failure
from dagster_operators.connectors.root_in_folder import refuse_a_root
from dagster_operators.connectors.several_files import some_at_a_time
from dagster_operators.connectors.slicing import SeenFiles, SliceLimits, files_of
from dagster_operators.connectors.text_format import TextFormat, bounded_lines, require_text
from dagster_operators.connectors.text_reader import TextReader, check_options
from dagster_operators.connectors.unexpected_files import warn_of_no_match, warn_of_other_content, warn_of_other_sizes
from dagster_operators.connectors.written_position import check_keys
from dagster_operators.errors import BadInputError, MissingInputError, PipelineError, SourceError
from dagster_operators.graph.slice import JSON, SourceSlice
from dagster_operators.graph.values import Fields
from dagster_operators.operators.engine_kind import reads_like_spark
from dagster_operators.operators.engine_schema import empty
from dagster_operators.storage.access import Access
from dagster_operators.storage.input_content import as_listed, other_content, require_unchanged, with_content
from dagster_operators.storage.location import FileLocation, SourceFile, changed_file, older_extract
from dagster_operators.types.inferred import as_spark_infers
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dagster_operators.storage.root import Root


@checked_constructor
@dataclass(frozen=True, eq=False)
class FileSource(Connector):
    """CSV, JSON-lines or Parquet files, or change events of a table.

    Files are taken by time of change and then name. A file is known by its path, size and time of change: one that was read is
    never read again, one that arrives late is read however old it is, and one that changes after it was read is an error.
    Write files elsewhere and move them in when they are complete; names that start with "." or "_", or end in ".tmp", ".part"
    or ".crc", are left alone until then.

    Args:
        path: A folder (with all below it), a glob, a file, or the URI of one of them.
        format: ``"csv"``, ``"json"`` (an object a line) or ``"parquet"``; by the files' suffix when None. ``"debezium-json"``: a
            change event a line, which makes the source a stream of changes; the schema is that of the table's rows.
        schema: The columns to read, as DDL; inferred from the files there are when the pipeline first runs when None. CSV columns
            are matched by the header's names; a file may have more columns. If it has fewer, ``missing_columns`` decides.
        options: Options of Spark's reader, such as ``sep``, ``header`` (true for CSV unless given) or ``nullValue``.
        max_files: The most files an epoch reads.
        max_bytes: The most bytes an epoch reads, at least one file.
        max_rows: After how many rows an epoch takes no further file.
        corrupt: What happens to a record that cannot be parsed: ``"fail"`` the epoch, or ``"reject"`` the record.
        storage_options: Access to an object store, which the engine is told, too. By default the pipeline's, if
            the files lie on the store of the pipeline's root, else what the environment says.
        key: Of ``"debezium-json"``, change events of a table: the columns of the table's key.
        unknown: Of these, what an update or deletion of a key does that is not there: ``"repair"`` (the default),
            ``"ignore"`` or ``"fail"``.
        order_by: Of these, the field of an event that says its place among those of its key, a whole number such as
            ``"source.lsn"``: then events may come in any order, and again. By default they come in order.
        missing_columns: What happens to a Parquet file, or a CSV file with a header, without some columns of the schema:
            ``"fail"`` (the default) refuses it, ``"null"`` makes these columns null. In JSON they are always null.

    >>> source = FileSource("input/flights/*.csv", schema="origin string, dep_delay double", max_files=100)
    >>> source.uri, source.on_corrupt
    ('input/flights/*.csv', 'fail')
    """

    kind: ClassVar[str] = "files"
    secrets: ClassVar[tuple[str, ...]] = ("storage_options",)

    path: str | os.PathLike[str]
    format: Format | None = None
    schema: str | None = None
    options: Mapping[str, str | bool | int] | None = None
    max_files: int | None = None
    max_bytes: int | None = None
    max_rows: int | None = None
    corrupt: OnCorrupt = "fail"
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    key: str | Sequence[str] | None = None
    unknown: OnUnknown | None = None
    order_by: str | None = None
    missing_columns: MissingColumns = "fail"
    _location: FileLocation = field(init=False, repr=False)
    _limits: SliceLimits = field(init=False, repr=False)
    _seen: SeenFiles = field(init=False, repr=False, default_factory=SeenFiles)
    _former_name: str = field(init=False, repr=False, default="")

    @classmethod
    @override
    def decode(cls, fields: Fields) -> Self:
        return super().decode({**fields, "missing_columns": fields.get("missing_columns") or "fail"})  # earlier plans say nothing

    def __post_init__(self) -> None:
        if self.format not in {None, *SUFFIXES.values(), DEBEZIUM}:
            raise PipelineError(
                f"a FileSource reads csv, json, parquet and {DEBEZIUM}, not {self.format!r}", remedy="choose one of them"
            )
        check_events(self.format == DEBEZIUM, self.schema, self.key, self.options, unknown=self.unknown, order_by=self.order_by)
        if self.corrupt not in {"fail", "reject"}:
            raise PipelineError(f'corrupt is "fail" or "reject", not {self.corrupt!r}', remedy="choose one of them")
        check_missing_columns(self.missing_columns, self.format, has_header=self._text("csv").has_header)
        if self.path and not isinstance(self.path, str | os.PathLike):
            raise PipelineError(f"{self.path!r} is no path", remedy="name a folder, a glob or a file: FileSource('in/*.csv')")
        if not self.path:
            raise PipelineError("a FileSource needs a path", remedy="name a folder, a glob or a file: FileSource('in/*.csv')")
        if self.options is not None and not isinstance(self.options, Mapping):
            raise PipelineError(
                f"options are a mapping, not of type {type(self.options).__name__}", remedy="write options={'sep': ';'}, say"
            )
        object.__setattr__(self, "_location", FileLocation(os.fspath(self.path), Access.of(self.storage_options)))
        object.__setattr__(self, "_limits", SliceLimits(self.max_files, self.max_bytes, self.max_rows))
        self._text("csv")

    @property
    def uri(self) -> str:
        """The path as it was given."""
        return self._location.path

    @property
    def declared_schema(self) -> str | None:
        """The schema as DDL; that of change events with what they do to a row."""
        return f"{self.schema}, {ENTRY_COLUMNS}" if self.format == DEBEZIUM else self.schema

    @property
    @override
    def row_keys(self) -> tuple[str, ...] | None:
        return keys_of(self.key)

    @property
    @override
    def row_order(self) -> str | None:
        return order_in_state(self.order_by)

    @property
    def on_corrupt(self) -> OnCorrupt:
        """What happens to records that cannot be parsed; Parquet has none."""
        return self.corrupt

    def config(self) -> dict[str, JSON]:
        """All settings but the access to the object store."""
        limits: dict[str, JSON] = {"max_files": self.max_files, "max_bytes": self.max_bytes, "max_rows": self.max_rows}
        options = dict(self._text("csv").options)
        return {
            "path": self.uri,
            "format": self.format,
            "schema": self.schema,
            "options": options,
            "corrupt": self.corrupt,
            **({} if self.row_keys is None else {"key": list(self.row_keys), "unknown": self.on_unknown}),
            **({} if self.order_by is None else {"order_by": self.order_by}),
            **({} if self.missing_columns == "fail" else {"missing_columns": self.missing_columns}),
            **limits,
        }

    def identity(self) -> dict[str, JSON]:
        """The path, which the files' names are relative to."""
        return {"path": self.uri}

    @override
    def positions(self) -> dict[str, JSON]:
        folder, name = self.base
        return {"folder": folder, "name": name} if name else {"folder": folder}

    @property
    def base(self) -> tuple[str, str]:
        """The folder that files are named relative to, and what their names begin with there."""
        return self._location.base()

    @override
    def may_go_on_from(self, before: Connector) -> bool:
        """Whether files are named as they were: the folder was moved, not another one above or below it taken."""
        if not isinstance(before, FileSource):
            return False
        (old, named), (new, name) = (("/".join(filter(None, source.base)), source.base[1]) for source in (before, self))
        nested = old != new and (f"{old}/".startswith(f"{new}/") or f"{new}/".startswith(f"{old}/"))
        return before.base[0] == self.base[0] or (bool(named) == bool(name) and not nested)

    @override
    def continuing(self, before: Connector) -> FileSource:
        """With the name that a folder or file had before it was moved, of which names of files begin with in the ledger."""
        if not isinstance(before, FileSource) or before.base[1] in ("", self.base[1]) or not self.base[1]:
            return self
        made = replace(self)
        object.__setattr__(made, "_former_name", before.base[1])
        return made

    @override
    def check_position(self, position: JSON) -> None:
        check_keys(position, {"files": int, "digest": str}, ("names",))

    @override
    def kept_position(self, position: JSON | None) -> JSON | None:
        return position_with(position, names_of(position, self._former_name, self.base[1]))

    def below(self, root: Root) -> FileSource:
        """With the root's access if the files lie on the same store and have no ``storage_options`` of their own."""
        options = root.options_for(self.uri) if self.storage_options is None else None
        return replace(self, storage_options=options) if options else self

    @property
    @override
    def knows_places(self) -> bool:
        return self.format != DEBEZIUM

    def infer_schema(self, session: SparkSession) -> str:
        """The declared schema; else that of the first Parquet file, or of all CSV or JSON files there are."""
        check_options(session, self._text("json" if self.format == "json" else "csv"))
        if self.declared_schema is not None:
            return parse_schema(session, self.declared_schema)
        files = self._location.find()
        if not files:
            raise MissingInputError(
                "there is no file yet to infer the schema from", file=self.uri, remedy="give the source a schema="
            )
        read = files[:1] if (kind := self._format(files)) == "parquet" else files
        if kind != "parquet":
            some_at_a_time(lambda file: require_text(self._location, file, self._text(kind)), read)
        try:
            found = self._inferred(session, read)
        except Exception as error:
            for file in read:
                self._check_inferable(session, file)
            raise BadInputError(
                f"no schema can be inferred from the files ({_first_line(error)})",
                file=self.uri,
                remedy="give the source a schema=",
            ) from error
        self._check_inferred(Schema.from_json(found).names)
        return found

    def _check_inferred(self, names: Sequence[str]) -> None:
        """Refuse what no table can have: no column at all, or several whose names differ in case alone."""
        times = Counter(name.lower() for name in names)
        alike = [name for name in names if times[name.lower()] > 1]
        if alike or not names:
            told = f"have {' and '.join(alike)}, which differ in case alone" if alike else "are empty"
            raise BadInputError(
                f"no schema can be inferred from the files: they {told}", file=self.uri,
                remedy="give the source a schema=" + (" with one of them" if alike else ""),
            )  # fmt: skip

    def _inferred(self, session: SparkSession, files: Sequence[SourceFile]) -> str:
        kind = self._format(files)
        options: dict[str, str] = {}
        if kind == "parquet" and (by_footer := parquet_format.inferred(self._location, files[0])) is not None:
            return by_footer.to_json()
        if kind != "parquet":
            text = self._text(kind)
            options = dict(text.options)
            if kind == "csv":
                options = {"inferSchema": "true", **options, "header": str(text.has_header).lower()}
        paths = reader_paths(session, self._location.file_uris(files))
        found = str(session.read.format(kind).options(**options).load(paths).schema.json())
        return found if kind == "parquet" else as_spark_infers(found, zoned=not reads_like_spark(session))

    def _check_inferable(self, session: SparkSession, file: SourceFile) -> None:
        try:
            self._inferred(session, [file])
        except Exception as error:
            raise BadInputError(
                f"no schema can be inferred from a file, which is truncated or not of its format ({_first_line(error)})",
                file=self._location.full_path(file),
                remedy="correct or remove the file",
            ) from error

    def choose(self, start: JSON | None, consumed: Callable[[], Iterator[JSON]]) -> SliceChoice | None:
        """The next files that were never read, within the limits.

        Raises:
            MissingInputError: The folder is missing or may not be read.
            BadInputError: A file that was read has changed, or a file is of another format than the rest.
        """
        names = names_of(start, self._former_name, self.base[1])
        found, new = self._listed(start, consumed, names)
        refuse_a_root(self._location, new, found, kind=self.format, is_first=start is None)
        if not found and start is None:
            warn_of_no_match(self._location)
        if not new:
            named = self.kept_position(start)
            return None if named == start else SliceChoice(SourceSlice(start, named, None), more=False, news=False)
        taken = self._limits.take(new, self._count_rows)
        self._format(taken)
        items: list[JSON] = [file.to_json() for file in taken]
        end = position_with(self._seen.position_after(taken), names)
        return SliceChoice(SourceSlice(start, end, items), more=len(taken) < len(new))

    def _listed(
        self, start: JSON | None, consumed: Callable[[], Iterator[JSON]], names: Sequence[str]
    ) -> tuple[list[SourceFile], list[SourceFile]]:
        """All files that there are, and those that were never read."""
        found = self._location.find()
        self._seen.move_to(start, consumed)
        seen, new = self._seen.among([file.path for file in found], names), []
        for file in found:
            before = seen.get(without_name(file.path, names))
            if before is None:
                new.append(file)
            elif (before.size, before.modified) != (file.size, file.modified):
                raise changed_file(self._location.full_path(file), before, file)
        return found, new

    @override
    def restore_times(self, start: JSON | None, consumed: Callable[[], Iterator[JSON]]) -> list[str]:
        names = names_of(start, self._former_name, self.base[1])
        found = self._location.find()
        self._seen.move_to(start, consumed)
        seen = self._seen.among([file.path for file in found], names)
        then = [(file, seen.get(without_name(file.path, names))) for file in found]
        same = [(file, was) for file, was in then if was and file.size == was.size and file.modified != was.modified]
        content = {without_name(file.path, names): file for items in consumed() for file in files_of(items)} if same else {}
        known = [replace(content[without_name(file.path, names)], path=file.path) for file, _ in same]
        others = set(other_content(self._location, known))
        touched = [(file, was) for file, was in same if self._location.full_path(file) not in others]
        for file, was in touched:
            self._location.set_time(file, was.modified)
        warn_of_other_content(sorted(others))
        warn_of_other_sizes(self._location, [(file, was) for file, was in then if was and file.size != was.size])
        return [self._location.full_path(file) for file, _ in touched]

    @override
    def backlog(self, start: JSON | None, consumed: Callable[[], Iterator[JSON]]) -> Mapping[str, int]:
        """From the listing."""
        _, new = self._listed(start, consumed, names_of(start, self._former_name, self.base[1]))
        return {"files": len(new), "bytes": sum(file.size for file in new)}

    def next_extract(self, start: JSON | None, consumed: Callable[[], Iterator[JSON]]) -> SliceChoice | None:
        """The next file that was never read, of files each of which has all rows there are; one may take the place of another.

        Raises:
            BadInputError: It is older than the last one that was read.
        """
        found = self._location.find()
        self._seen.move_to(start, consumed)
        seen = self._seen.among([file.path for file in found], ())
        new = sorted(file for file in found if seen.get(file.path) != file)
        refuse_a_root(self._location, new, found, kind=self.format, is_first=start is None)
        if not new:
            return None
        if isinstance(start, dict) and new[0] < (last := SourceFile.from_json(start["last"])):
            raise older_extract(self._location.full_path(new[0]), last.path)
        self._format(new[:1])
        file, position = new[0].to_json(), self._seen.position_after(new[:1])
        end = {**position, "last": file} if isinstance(position, dict) else position
        return SliceChoice(SourceSlice(start, end, [file]), more=len(new) > 1)

    @override
    def told(self, items: JSON) -> dict[str, Any]:
        files = files_of(items)
        return {"file": files[0].path} if len(files) == 1 else {}

    @override
    def together(self, before: JSON, after: JSON) -> JSON | None:
        if not isinstance(before, list) or not isinstance(after, list):
            return None
        try:
            self._format([*files_of(before[:1]), *files_of(after)])
        except BadInputError:  # their suffixes tell different ones
            return None
        return [*before, *after]

    def verify(self, items: JSON, schema_json: str) -> None:
        """Look whether the files are there unchanged, and have all columns: by CSV headers and Parquet footers."""
        files = files_of(items)
        if not files:
            raise MissingInputError("there is no file to read", file=self.uri, remedy="put the table's files there")
        self._require(files)
        kind = self._format(files)
        columns = Schema.from_json(schema_json).types
        if kind == "parquet":
            some_at_a_time(lambda file: parquet_format.verify(self._location, file, columns, self.missing_columns), files)
            return
        refuse_void(columns, self.uri)
        if self._text(kind).is_looked_into:
            some_at_a_time(lambda file: self._text(kind).verify(self._location, file, columns, self.missing_columns), files)
            return
        if kind == "csv":  # of others all lines are looked at, and what is none fails
            some_at_a_time(lambda file: require_text(self._location, file, self._text(kind)), files)
        if kind == "json":
            warn_of_other_names(self._location, files[0], self._text(kind), columns)

    @override
    def verify_again(self, items: JSON, schema_json: str) -> None:
        """Look whether the files are there unchanged, and no further."""
        self._require(files_of(items))

    def _require(self, files: Sequence[SourceFile]) -> None:
        require_unchanged(self._location, files)

    @override
    def with_content(self, items: JSON) -> JSON:
        return [file.to_json() for file in with_content(self._location, files_of(items))]

    @override
    def other_content(self, items: JSON) -> Sequence[str]:
        return other_content(self._location, as_listed(self._location, files_of(items)))

    def read(self, session: SparkSession, items: JSON, schema_json: str, *, corrupt: OnCorrupt = "fail") -> DataFrame:
        """The rows of the files ``items``, after ``verify``."""
        self.verify(items, schema_json)
        return self._frame(session, files_of(items), schema_json, corrupt)

    @override
    def extent(self, items: JSON) -> Extent | None:
        """From the listing and Parquet footers; not known of text that may be compressed."""
        files = files_of(items)
        size = sum(file.size for file in files)
        if self._format(files) == "parquet":
            return Extent(len(files), size, sum(parquet_format.footer(self._location, file).rows for file in files))
        return Extent(len(files), size, None) if all(is_plain(file.path) for file in files) else None

    @override
    def bytes_of(self, items: JSON) -> int | None:
        return sum(file.size for file in files_of(items))

    @property
    @override
    def may_be_corrupt(self) -> bool:
        return not self.skips_files

    @property
    def skips_files(self) -> bool:
        """For Parquet files: only their footers tell what they have."""
        return (self.format or SUFFIXES.get(self.uri.lower().rpartition(".")[2], "parquet")) == "parquet"

    def read_some(self, session: SparkSession, items: JSON, schema_json: str, any_of: Sequence[str]) -> DataFrame:
        """As ``read``, without Parquet files whose footers tell that they have none of the rows."""
        files = files_of(items)
        if self._format(files) != "parquet":
            return self.read(session, items, schema_json)
        self.verify(items, schema_json)
        wanted: dict[str, bool] = {}
        some_at_a_time(lambda file: wanted.update({file.path: may_have_any(self._location, file, any_of)}), files)
        left = [file for file in files if wanted[file.path]]
        return self._frame(session, left, schema_json, "fail") if left else empty(session, schema_json)

    def explain_failure(self, session: SparkSession, error: BaseException, items: JSON, schema_json: str) -> SourceError | None:
        """The file, and if possible the record, its line and column, that made the engine fail."""
        files, kind = {self._location.full_path(file): file for file in files_of(items)}, self._format(files_of(items))
        return explain_read_failure(
            error,
            files,
            lambda file: self._frame(session, [file], schema_json, "fail"),
            lambda file: self._frame(session, [file], schema_json, "reject"),
            self._lines,
            None if kind == "parquet" else lambda file: require_text(self._location, file, self._text(kind)),
        )

    def _lines(self, file: SourceFile) -> Iterator[bytes]:
        with self._location.opened(file, decompress=True) as stream:
            yield from bounded_lines(io.BufferedReader(stream), self._location.full_path(file))

    def largest_event_time(self, items: JSON, column: str) -> int | Unknown | None:
        """From Parquet footers; unknown for text."""
        files = files_of(items)
        if self._format(files) != "parquet":
            return UNKNOWN
        return parquet_format.largest_event_time([parquet_format.footer(self._location, file) for file in files], column)

    def null_count(self, items: JSON, column: str) -> int | Unknown:
        """From Parquet footers; unknown for text."""
        files = files_of(items)
        if self._format(files) != "parquet":
            return UNKNOWN
        return parquet_format.null_count([parquet_format.footer(self._location, file) for file in files], column)

    def pin(self) -> JSON:
        """All files there are."""
        if self.format == DEBEZIUM:
            raise PipelineError("a lookup reads a table, not change events", remedy="write them to a table, and look that up")
        return [file.to_json() for file in self._location.find()]

    def read_pinned(self, session: SparkSession, pin: JSON, schema_json: str) -> DataFrame:
        """The rows of all pinned files."""
        return self.read(session, pin, schema_json)

    def _frame(self, session: SparkSession, files: Sequence[SourceFile], schema_json: str, corrupt: OnCorrupt) -> DataFrame:
        kind, places = self._format(files), self.gives_places
        if kind == "parquet":
            return parquet_format.read(session, self._location, files, schema_json, places=places)
        if kind == DEBEZIUM:
            return read_events(session, self._location, files, schema_json, keys_of(self.key), corrupt, self.order_by)
        return TextReader(self._location, self._text(kind)).read(session, files, schema_json, corrupt, places=places)

    def _text(self, kind: Format) -> TextFormat:
        shown = {
            name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in (self.options or {}).items()
        }
        return TextFormat("csv" if kind == "csv" else "json", tuple(sorted(shown.items())))

    def _format(self, files: Sequence[SourceFile]) -> Format:
        return self.format or common_format(self._location, files)

    def _count_rows(self, file: SourceFile) -> int:
        kind = self._format([file])
        if kind == "parquet":
            return parquet_format.footer(self._location, file).rows
        return self._text(kind).count_rows(self._location, file)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
