"""A source of the user's own as a connector: its turn's rows are spooled to Parquet files, which the epoch then reads.

The spool makes an epoch repeatable whatever the source can do: the slice that the ledger names are the files. They are
removed at the next turn, when the epoch that read them is complete.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from typing_extensions import override

from dagster_operators.connectors.connector import Connector, OnCorrupt, SliceChoice, Unknown
from dagster_operators.connectors.file_source import FileSource
from dagster_operators.connectors.source_operator import SourceEnd, SourceOperator, public_scalars
from dagster_operators.connectors.spool import tidy
from dagster_operators.connectors.written_position import check_keys
from dagster_operators.errors import BadInputError, OperatorsError, PipelineError, SourceError
from dagster_operators.functions.references import ObjectReference, resolved
from dagster_operators.graph.conform import conform
from dagster_operators.graph.slice import JSON, SourceSlice
from dagster_operators.graph.values import Fields, check_fields
from dagster_operators.storage.parquet_writer import ParquetWriter
from dagster_operators.storage.root import Root
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, eq=False)
class OperatorSource(Connector):
    """A :class:`SourceOperator` with its spool.

    Attributes:
        name: The source's name.
        operator: The operator; of a plan that was read a reference to it, until the source is placed in a pipeline.
        root: The pipeline's storage root.
        storage_options: Of that root.
    """

    kind: ClassVar[str] = "operator"

    name: str
    operator: SourceOperator
    root: str
    storage_options: dict[str, str] | None = field(default=None, repr=False)
    _identity: Mapping[str, JSON] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.operator, SourceOperator):  # as it was given: it may keep something in its attributes while it runs
            object.__setattr__(self, "_identity", dict(self.operator.identity()))

    @override
    def encode(self) -> Fields:
        """The operator by its class and attributes; name, root and access are the pipeline's."""
        return {"operator": ObjectReference.to(self.operator)}

    @classmethod
    @override
    def decode(cls, fields: Fields) -> OperatorSource:
        check_fields("a source of the kind 'operator'", fields, {"operator": True})
        return cls("", fields["operator"], "")

    @property
    @override
    def left_out(self) -> tuple[str, ...]:
        return self.operator.left_out if isinstance(self.operator, ObjectReference) else ()

    @override
    def with_secrets(self, secrets: Mapping[str, Any]) -> OperatorSource:
        given = self.operator.with_secrets(secrets) if isinstance(self.operator, ObjectReference) else self.operator
        return replace(self, operator=given)  # type: ignore[arg-type]

    @override
    def placed(self, source: str, root: str, storage_options: Mapping[str, str] | None) -> OperatorSource:
        options = dict(storage_options) if storage_options else None
        return OperatorSource(source, resolved(self.operator), root, options)

    @property
    def uri(self) -> str:
        """The operator's class; the data lies wherever that takes it from."""
        kind = type(self.operator)
        return f"python://{kind.__module__}.{kind.__qualname__}"

    @property
    def declared_schema(self) -> str | None:
        """The operator's schema as DDL."""
        return Schema.of(self.operator.output_schema()).with_nulls().to_ddl(everything=False)

    @property
    def _schema(self) -> pa.Schema:
        return Schema.of(self.operator.output_schema()).to_arrow()

    @property
    def _spool(self) -> str:
        return f"spool/{self.name}"

    @property
    def _files(self) -> FileSource:
        folder = self._root().join(self._spool)
        found = FileSource(folder, format="parquet", schema=self.declared_schema, storage_options=self.storage_options)
        return found.with_places() if self.gives_places else found

    @property
    @override
    def knows_places(self) -> bool:
        return True

    def _root(self) -> Root:
        return Root(self.root, self.storage_options)

    def config(self) -> dict[str, JSON]:
        """What the operator shows."""
        shown: Any = self.operator.display()
        return {"operator": self.uri, **({"display": shown} if isinstance(shown, str) else dict(shown))}

    def identity(self) -> dict[str, JSON]:
        """The operator's class, with what it says gives its positions their meaning."""
        return {"operator": self.uri, "settings": dict(self._identity)}

    @override
    def positions(self) -> dict[str, JSON]:
        if isinstance(self.operator, SourceOperator):
            return self.identity()
        reference = ObjectReference.to(self.operator)
        place = f"python://{reference.type.module}.{reference.type.qualname}"
        return {"operator": place, "settings": public_scalars(dict(reference.attributes))}

    @override
    def check_position(self, position: JSON) -> None:
        check_keys(position, {"position": object}, ("final", "spool"))

    def former_fingerprint(self) -> str:
        """The fingerprint that earlier versions of the package gave it, of its class alone."""
        text = json.dumps({"kind": self.kind, "operator": self.uri}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def infer_schema(self, session: SparkSession) -> str:
        """The operator's schema."""
        return self._files.infer_schema(session)

    @property
    @override
    def forgets(self) -> str:
        return "its rows are kept until the epoch that read them is complete"

    @override
    def choose(self, start: JSON | None, consumed: Callable[[], Iterator[JSON]]) -> SliceChoice | None:
        """Give the operator its turn.

        Raises:
            SourceError: It raised.
            PipelineError: It returned no end, or its position is no JSON.
        """
        known = start if isinstance(start, dict) else {}
        if known.get("final"):
            return None
        root = self._root()
        tidy(root, self._spool, known.get("spool", ()))
        # What the operator changes in place is its own, while it has its turn and afterwards: it is given a copy, and leaves one.
        context = _Context(self.name, deepcopy(known.get("position")), self.root)
        spool = _Spool(root, self._spool, self._schema, self.name)
        with spool:
            end, left = self._turn(context, spool)
        final = end == "final"
        position: dict[str, JSON] = {"position": left, "final": final, "spool": spool.files}
        choice = self._files.choose(None, lambda: iter(())) if spool.rows else None
        news = choice is not None or final or left != known.get("position")
        if not news and not context.is_idle:
            return None
        listed: Any = choice.slice.items if choice else []
        items = [item for item in listed if item[0].rpartition("/")[2] in spool.files] if choice else None
        piece = SourceSlice(start, position if news else start, items)
        reached = None if final else self.operator.reached(deepcopy(left))
        return SliceChoice(piece, more=end == "graceful" and news, news=news, idle=context.is_idle, final=final, reached=reached)

    def _turn(self, context: _Context, spool: _Spool) -> tuple[SourceEnd, JSON]:
        """How the turn ended, and the position that it left, which is not the operator's own object."""
        try:
            end = self.operator.run(context, spool)
        except OperatorsError as error:
            raise error.at(source=self.name) from error
        except Exception as error:
            raise BadInputError(
                f"the source raised {type(error).__name__}: {error}",
                source=self.name,
                remedy="correct the code of its run(), by the lines that the traceback ends with; then run again",
            ) from error
        if end not in get_args(SourceEnd):
            raise PipelineError(
                f"run returned {end!r}", source=self.name, remedy=f"return how it ended: {', '.join(get_args(SourceEnd))}"
            )
        try:
            left: JSON = deepcopy(context.position)
        except Exception as error:
            raise PipelineError(
                f"the position cannot be copied when the turn ends: {error}", source=self.name,
                remedy="set ctx.position to plain JSON; to a copy, if another thread changes it",
            ) from error  # fmt: skip
        return end, left

    @override
    def news(self, start: JSON | None, consumed: Callable[[], Iterator[JSON]]) -> JSON | None:
        """What the operator says; it gets no turn."""
        known = start if isinstance(start, dict) else {}
        if known.get("final") or not self.operator.has_news(deepcopy(known.get("position"))):
            return None
        return {"after": known.get("position")}

    @override
    def is_over(self, start: JSON | None) -> bool:
        """Whether the operator ended its last turn for good."""
        return isinstance(start, dict) and bool(start.get("final"))

    def verify(self, items: JSON, schema_json: str) -> None:
        """Look whether the spool is there."""
        self._files.verify(items, schema_json)

    @override
    def verify_again(self, items: JSON, schema_json: str) -> None:
        """Look whether the spool is still there."""
        self._files.verify_again(items, schema_json)

    @override
    def with_content(self, items: JSON) -> JSON:
        return self._files.with_content(items)

    def read(self, session: SparkSession, items: JSON, schema_json: str, *, corrupt: OnCorrupt = "fail") -> DataFrame:
        """The rows of the spool."""
        return self._files.read(session, items, schema_json, corrupt=corrupt)

    def explain_failure(self, session: SparkSession, error: BaseException, items: JSON, schema_json: str) -> SourceError | None:
        """The spool's file that made the engine fail."""
        return self._files.explain_failure(session, error, items, schema_json)

    def largest_event_time(self, items: JSON, column: str) -> int | Unknown | None:
        """From the spool's footers."""
        return self._files.largest_event_time(items, column)

    def null_count(self, items: JSON, column: str) -> int | Unknown:
        """From the spool's footers."""
        return self._files.null_count(items, column)

    def pin(self) -> JSON:
        """Refused: a source of the user's own gives each row once."""
        raise PipelineError("a SourceOperator cannot be a lookup table", source=self.name, remedy="write it to a table first")

    @override
    def read_pinned(self, session: SparkSession, pin: JSON, schema_json: str) -> DataFrame:
        """Refused, as ``pin``."""
        raise PipelineError("a SourceOperator cannot be a lookup table", source=self.name, remedy="write it to a table first")


class _Context:
    """The :class:`~dagster_operators.connectors.source_operator.SourceContext` of a turn, and the storage root."""

    def __init__(self, source: str, position: Any, root: str) -> None:
        self.source = source
        self.position = position
        self.root = root
        self.is_idle = False

    def idle(self) -> None:
        self.is_idle = True


class _Spool:
    """The ``SourceCollector`` of a turn: one file, written a row group at a time."""

    def __init__(self, root: Root, folder: str, schema: pa.Schema, source: str) -> None:
        self._root = root
        self._folder = folder
        self._schema = schema
        self._source = source
        self._name = f"{uuid.uuid4().hex}.parquet"
        self._writer = ParquetWriter(root.files, root.path(folder, self._name), schema)

    @property
    def files(self) -> list[JSON]:
        """The files that hold rows."""
        return [self._name] if self.rows else []

    @property
    def rows(self) -> int:
        """How many rows were collected."""
        return self._writer.rows

    def __enter__(self) -> None:
        """Nothing is written before the first rows are there."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._guard():
            self._writer.__exit__(kind, error, trace)

    def collect(self, rows: pa.RecordBatch | pa.Table) -> None:
        table = conform(rows, self._schema, source=self._source)
        with self._guard():
            self._writer.write(table)

    def _guard(self) -> AbstractContextManager[None]:
        return self._root.guard(self._folder, "a source's rows cannot be stored")
