"""A pipeline that is made of data: of a plan, of a YAML file of queries, or of one of event operators."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from dagster_operators.api.pipeline_graph import PipelineGraph
from dagster_operators.errors import PipelineError

if TYPE_CHECKING:
    from dagster_operators.api.queries.sources import SourcesGiven
    from dagster_operators.runtime.engine import Engine


class FromData(PipelineGraph):
    """The ways to make a pipeline without calls."""

    if TYPE_CHECKING:

        def __init__(self, name: str, root: str, *given: Any, **settings: Any) -> None: ...

    @classmethod
    def from_plan(
        cls,
        data: bytes,
        *,
        root: str,
        engine: Engine | None = None,
        storage_options: Mapping[str, str] | None = None,
        secrets: Mapping[str, Mapping[str, Any]] | None = None,
        lease_seconds: float = 30.0,
        parallelism: int | None = None,
        concurrent_stages: int | None = None,
        rules_off: str | Collection[str] = (),
        renamed_from: str | None = None,
    ) -> Self:
        """The pipeline of a plan. What is the user's own in it is imported when the pipeline is first planned or run.

        Args:
            data: What ``to_plan`` gave.
            root: Where tables, state and the ledger live.
            engine: Where stages run.
            storage_options: Of the root; also of the sources that had some, unless ``secrets`` has them.
            secrets: What else the plan leaves out, by the name of the source, operator or sink:
                ``{"warehouse": {"dsn": "postgresql://..."}}``.
            lease_seconds: As of :class:`~dagster_operators.Pipeline`.
            parallelism: As of :class:`~dagster_operators.Pipeline`.
            concurrent_stages: As of :class:`~dagster_operators.Pipeline`.
            rules_off: As of :class:`~dagster_operators.Pipeline`.
            renamed_from: As of :class:`~dagster_operators.Pipeline`.

        Raises:
            PlanError: This is no plan, or there is something in it that no installed package knows, or a secret is missing.

        >>> from dagster_operators import FileSource, Pipeline
        >>> pipeline = Pipeline("p", root="data/p")
        >>> big = pipeline.source("rows", FileSource("in", schema="v long")).filter("v > 1").to_table("big")
        >>> sorted(Pipeline.from_plan(pipeline.to_plan(), root="elsewhere").tables)
        ['big']
        """
        from dagster_operators.plans.building import Surroundings, check_secrets
        from dagster_operators.plans.codec import from_bytes

        plan = from_bytes(data)
        given = Surroundings(str(root), dict(storage_options or {}), secrets or {})
        check_secrets(plan, given)
        made = cls(
            plan.pipeline, root, engine=engine, storage_options=storage_options, lease_seconds=lease_seconds,
            parallelism=parallelism, concurrent_stages=concurrent_stages, rules_off=rules_off, renamed_from=renamed_from,
        )  # fmt: skip
        made._given = plan, given
        del made.dataflow  # it is built when it is first asked for
        return made

    @classmethod
    def from_query_file(
        cls, path: str | PathLike[str], *, root: str, sources: SourcesGiven | None = None, **settings: Any
    ) -> Self:
        """The pipeline of a YAML file with its sources, streams and tables (``docs/queries.md``).

        The modules that the file names are imported.

        Args:
            path: The file.
            root: Where tables, state and the ledger live.
            sources: Sources that streams may name beside those of the file, such as a :class:`~dagster_operators.Sources`.
            settings: The others of :class:`~dagster_operators.Pipeline`.

        Raises:
            QueryError: With all that is wrong in the file, each with its line.
            PipelineError: The file cannot be read.

        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import Pipeline
        >>> text = '''
        ... pipeline: big_ones
        ... sources:
        ...   rows: {files: {path: in, schema: v long}}
        ... streams:
        ...   big: {from: rows, steps: [{filter: v > 1}, {to_table: big}]}
        ... '''
        >>> with TemporaryDirectory() as folder:
        ...     written = Path(folder, "big.yaml").write_text(text)
        ...     sorted(Pipeline.from_query_file(Path(folder, "big.yaml"), root="data/big").tables)
        ['big']
        """
        try:
            text = Path(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise PipelineError(f"the file cannot be read: {error}", file=str(path), remedy="correct its name") from None
        return cls.from_query_text(text, root=root, file=str(path), sources=sources, **settings)

    @classmethod
    def from_query_text(
        cls,
        text: str,
        *,
        root: str,
        file: str = "<text>",
        sources: SourcesGiven | None = None,
        **settings: Any,
    ) -> Self:
        """The pipeline of a YAML text, as :meth:`from_query_file` makes it of a file.

        Args:
            text: The text.
            root: Where tables, state and the ledger live.
            file: What errors call it.
            sources: Sources that streams may name beside those of the text.
            settings: The others of :class:`~dagster_operators.Pipeline`.

        Raises:
            QueryError: With all that is wrong in the text, each with its line.

        >>> from dagster_operators import Pipeline
        >>> text = '''
        ... pipeline: flights
        ... sources:
        ...   flights: {files: {path: in, schema: "origin string, delay int"}}
        ... streams:
        ...   late: {from: flights, steps: [filter: delay > 15]}
        ... tables:
        ...   late_flights: late
        ... '''
        >>> Pipeline.from_query_text(text, root="data/flights").tables["late_flights"].stream.operator
        'filter'
        """
        from dagster_operators.api.queries.document import Document
        from dagster_operators.api.queries.sources import declared

        document = Document(text, file)
        made = cls(document.pipeline, root, **settings)
        document.add_to(made, declared(sources))
        return made

    @classmethod
    def from_yaml(
        cls,
        path: str | PathLike[str],
        *,
        root: str,
        name: str | None = None,
        sources: SourcesGiven | None = None,
        **settings: Any,
    ) -> Self:
        """The pipeline of a YAML file: a dataflow of event operators (``docs/event_file.md``), or queries.

        A dataflow has ``nodes``, as dora's files do; queries have ``pipeline`` and its streams (:meth:`from_query_file`).

        Args:
            path: The file.
            root: Where tables, state and the ledger live.
            name: The name of a dataflow's pipeline, by default that of the file.
            sources: Sources that the file may name beside its own, such as a :class:`~dagster_operators.Sources`.
            settings: The others of :class:`~dagster_operators.Pipeline`.

        Raises:
            QueryError: With all that is wrong in the file, each with its line.
            PipelineError: The file cannot be read.

        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import Pipeline
        >>> operator = '''
        ... class Operator:
        ...     def on_event(self, event, send_output):
        ...         if event["type"] == "INPUT":
        ...             send_output("twice", [2 * event["value"][0].as_py()])
        ... '''
        >>> dataflow = '''
        ... nodes:
        ...   - id: numbers
        ...     source: {files: {path: in, schema: "at timestamp, v long"}, event_time: at}
        ...     outputs: {v: v}
        ...   - id: doubling
        ...     operator: {python: doubling.py, inputs: {v: numbers/v}, outputs: [twice]}
        ... '''
        >>> with TemporaryDirectory() as folder:
        ...     written = Path(folder, "doubling.py").write_text(operator), Path(folder, "flow.yml").write_text(dataflow)
        ...     sorted(Pipeline.from_yaml(Path(folder, "flow.yml"), root=folder).tables)
        ['doubling__twice', 'events']
        """
        from dagster_operators.api.events.dataflow_file import DataflowFile, is_dataflow, text_of
        from dagster_operators.api.queries.sources import declared
        from dagster_operators.operators.events.wiring import table_of

        text = text_of(path)
        if not is_dataflow(text):
            if name is not None:
                raise PipelineError(
                    f"name is {name!r}, and queries say themselves what their pipeline is called", file=str(path),
                    remedy="leave name out, or write it in the file: pipeline: ...",
                )  # fmt: skip
            return cls.from_query_text(text, root=root, file=str(path), sources=sources, **settings)
        file = DataflowFile(text, str(path), Path(path).parent, declared(sources))
        made = cls(name or table_of(Path(path).stem), root, **settings)
        file.add_to(made)
        return made
