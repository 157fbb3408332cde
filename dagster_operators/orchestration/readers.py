"""A pipeline's tables in other people's assets: a resource that reads them, and an I/O manager that hands them in."""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING, Any, Final, NoReturn, get_args

import dagster as dg
from pydantic import Field, PrivateAttr
from typing_extensions import override

from dagster_operators.api.stored_pipeline import StoredPipeline
from dagster_operators.connectors.upstream import Upstream
from dagster_operators.errors import PipelineError
from dagster_operators.orchestration.keys import TABLE_METADATA
from dagster_operators.orchestration.literal_secrets import NoLiteralSecrets, refuse_in_address, refuse_in_options
from dagster_operators.runtime.engine import default_engine, engine_given

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_ARROW: Final = "pyarrow.Table"
_FORMS: Final = frozenset({_ARROW, "pandas.DataFrame", "polars.DataFrame", "polars.LazyFrame", "pyspark.DataFrame"})


class PipelineResource(NoLiteralSecrets, dg.ConfigurableResource["PipelineResource"]):
    """The tables of a pipeline, read from its storage root: without the program, and all as of one epoch.

    No engine is started, but for :meth:`to_spark`.

    The epoch is the last completed one when the first table is read; in one process a run sees no other.

    Attributes:
        root: The storage root.
        storage_options: Credentials and settings of an object store; a secret among them as ``dg.EnvVar("NAME")``.
        epoch: A completed epoch to stay at.
        engine: What reads the tables that are asked for as DataFrames of Spark's, such as ``sc://host:15002``; by default what
            the environment says, else embedded Spark.

    Example:
        >>> @dg.asset(deps=[["flights", "hourly_delays"]])
        ... def report(flights: PipelineResource) -> None:
        ...     print(flights.to_arrow("hourly_delays").num_rows)
        >>> defs = dg.Definitions(assets=[report], resources={"flights": PipelineResource(root=dg.EnvVar("FLIGHTS_ROOT"))})
    """

    root: str
    storage_options: dict[str, str] = Field(default_factory=dict, repr=False)
    epoch: int | None = None
    engine: str | None = None
    _stored: StoredPipeline | None = PrivateAttr(default=None)
    _pinned: int | None = PrivateAttr(default=None)

    @override
    def refuse_literal_secrets(self) -> None:
        """See that the resource holds no secret in clear: what Dagster knows of it, everybody sees.

        Raises:
            PipelineError: It does.

        >>> PipelineResource(root="s3://lake/p", storage_options={"aws_secret_access_key": "x"}).refuse_literal_secrets()
        Traceback (most recent call last):
        dagster_operators.errors.PipelineError: PipelineResource would hold 'aws_secret_access_key' of storage_options in clear...
        """
        refuse_in_options("PipelineResource", self.storage_options)
        refuse_in_address("PipelineResource", "root", self.root)
        refuse_in_address("PipelineResource", "engine", self.engine)

    def pipeline(self) -> StoredPipeline:
        """What lies in the storage root.

        Raises:
            LedgerError: There is no pipeline in it.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as root:
        ...     PipelineResource(root=root).pipeline()
        Traceback (most recent call last):
        dagster_operators.errors.LedgerError: there is no pipeline in the storage root ...
        """
        if self._stored is None:
            self._stored = StoredPipeline(self.root, self.storage_options or None)
        return self._stored

    def pinned(self) -> int:
        """The epoch that is read.

        Raises:
            UnknownEpochError: None is complete yet.

        >>> PipelineResource(root="data/flights", epoch=30).pinned()
        30
        """
        if self._pinned is None:
            self._pinned = self.epoch if self.epoch is not None else self.pipeline().last_epoch()
        return self._pinned

    def to_arrow(self, table: str, columns: list[str] | None = None, limit: int | None = None) -> pa.Table:
        """Rows of a table as of the epoch.

        Args:
            table: The table's name.
            columns: Only these.
            limit: At most so many rows, whichever.
        """
        return self.pipeline().to_arrow(table, epoch=self.pinned(), columns=columns, limit=limit)

    def to_spark(self, table: str) -> DataFrame:
        """A table as of the epoch, as a DataFrame of the engine: of any size.

        Args:
            table: The table's name.
        """
        return self.pipeline().to_spark(table, engine_given(self.engine) or default_engine(), epoch=self.pinned())


class PipelineIOManager(NoLiteralSecrets, dg.ConfigurableIOManager):
    """Hands tables of a pipeline to assets that take them as arguments; writes nothing.

    The definitions of the pipeline say for each asset its table, if they are in the same code location. Elsewhere its key does,
    if that ends with the pipeline's name and the table's; else ``tables``. The table comes as a ``pa.Table``, or as the
    DataFrame of pandas, Polars or Spark, or the LazyFrame of Polars, that the argument is annotated as, ``Optional`` or not.

    Attributes:
        source: Where the tables are read.
        tables: The names of tables by the keys of their assets, where the pipeline is in another code location and gives them
            keys of their own.

    Example:
        >>> theirs = dg.AssetSpec(["flights", "hourly_delays"]).with_io_manager_key("flights")
        >>> @dg.asset(ins={"delays": dg.AssetIn(theirs.key)})
        ... def report(delays) -> None:
        ...     print(delays.num_rows)
        >>> reader = PipelineIOManager(source=PipelineResource(root="data/flights"))
        >>> defs = dg.Definitions(assets=[theirs, report], resources={"flights": reader})
    """

    source: PipelineResource
    tables: dict[str, str] = Field(default_factory=dict)

    @override
    def refuse_literal_secrets(self) -> None:
        """See that its source holds no secret in clear.

        Raises:
            PipelineError: It does.

        >>> PipelineIOManager(source=PipelineResource(root="data/flights")).refuse_literal_secrets()
        """
        if isinstance(self.source, PipelineResource):  # not yet, where it is to be configured at launch
            self.source.refuse_literal_secrets()

    def handle_output(self, context: dg.OutputContext, obj: object) -> NoReturn:  # noqa: ARG002  # Dagster names them
        """Refuse to write.

        Raises:
            PipelineError: Always: only epochs write a pipeline's tables.
        """
        raise PipelineError("this I/O manager only reads", remedy="give the asset another io_manager_key")

    def load_input(self, context: dg.InputContext) -> Any:
        """The table, as of the source's epoch.

        Raises:
            PipelineError: The argument is annotated as something that no table is handed in as, or which table the asset is
                cannot be told.
            EndedInputError: The pipeline no longer writes the table, and the source stays at no epoch.
        """
        table, form = self._table(context), _form(context.dagster_type.typing_type)
        if form is None:
            raise PipelineError(
                f"tables are not handed in as {_spelt(context.dagster_type.typing_type)}", table=table,
                remedy="annotate the argument as pa.Table or as the DataFrame of pandas, polars or pyspark.sql, or the "
                "LazyFrame of polars, and convert that",
            )  # fmt: skip
        if form == "pyspark.DataFrame":
            return self.source.to_spark(table)
        rows = self.source.to_arrow(table)
        if form.startswith("polars."):
            import polars as pl

            frame = pl.DataFrame(rows)
            return frame.lazy() if form == "polars.LazyFrame" else frame
        return rows.to_pandas() if form == "pandas.DataFrame" else rows

    def _table(self, context: dg.InputContext) -> str:
        """The table that an upstream asset is."""
        stored, key = self.source.pipeline(), context.asset_key
        table = self.tables.get(key.to_user_string()) or _said_of(context)
        if table is None:
            if key.path[-2:-1] != [stored.name]:
                raise PipelineError(
                    "which table the asset is cannot be told from its key", asset=key.to_user_string(), pipeline=stored.name,
                    remedy=f"PipelineIOManager(source=..., tables={{{key.to_user_string()!r}: TABLE}}), where TABLE is one of "
                    f"{', '.join(stored.versions(self.source.pinned()))}",
                )  # fmt: skip
            table = key.path[-1]
        pipeline, _, table = table.rpartition(".")
        if pipeline and pipeline != stored.name:
            raise PipelineError(
                f"the asset is of the pipeline {pipeline!r}, and this I/O manager reads {stored.name!r}",
                asset=key.to_user_string(), root=self.source.root,
                remedy=f"give the input another input_manager_key, of a PipelineIOManager over the root of {pipeline}",
            )  # fmt: skip
        if self.source.epoch is None:
            self._check_written(table)
        return table

    def _check_written(self, table: str) -> None:
        """Refuse a table to which nothing comes any more: what is handed in would be of long ago."""
        upstream = Upstream(self.source.root, self.source.storage_options or None)
        epoch = upstream.epoch(self.source.pinned())
        if epoch is not None and upstream.has(epoch, table) and not upstream.is_written(table):
            last = epoch.last_epochs.get(f"tables/{table}", epoch.epoch)
            raise upstream.ended(epoch, table, f"if it is wanted as it was then, PipelineResource(root=..., epoch={last})")


def _form(annotation: Any) -> str | None:
    """What a table is to be handed in as, by the library and the type's name; None if it cannot be.

    >>> import pyarrow as pa
    >>> _form(pa.Table), _form(pa.Table | None), _form(Any), _form(dict)
    ('pyarrow.Table', 'pyarrow.Table', 'pyarrow.Table', None)
    """
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    wanted = kinds[0] if len(kinds) == 1 and NoneType in get_args(annotation) else annotation
    if wanted in (Any, object):
        return _ARROW
    module, name = getattr(wanted, "__module__", ""), getattr(wanted, "__name__", "")
    found = f"{module.partition('.')[0]}.{name}"
    if found not in _FORMS or (found.startswith("pyspark.") and not module.startswith("pyspark.sql.")):
        return None
    return found


def _spelt(annotation: Any) -> str:
    if get_args(annotation) or not isinstance(annotation, type):
        return str(annotation)
    return f"{annotation.__module__}.{annotation.__qualname__}"


def _said_of(context: dg.InputContext) -> str | None:
    """What the definitions of the upstream asset say that it is, if they are in this code location."""
    try:
        graph = context.step_context.job_def.asset_layer.asset_graph
    except dg.DagsterInvariantViolationError:  # a context that a test of the user's has built
        return None
    found = graph.get(context.asset_key).metadata.get(TABLE_METADATA) if graph.has(context.asset_key) else None
    said = getattr(found, "value", found)
    return said if isinstance(said, str) else None
