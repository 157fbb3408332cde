"""Sources by name, for queries of several pipelines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from dagster_operators.connectors.connector import Connector
from dagster_operators.connectors.source_operator import SourceOperator
from dagster_operators.errors import PipelineError

if TYPE_CHECKING:
    from dagster_operators.api.pipeline_graph import PipelineGraph
    from dagster_operators.api.stream import Stream


@dataclass(frozen=True)
class DeclaredSource:
    """What :meth:`Pipeline.source` takes.

    Attributes:
        name: The source's name.
        connector: Where rows come from.
        event_time: The column with the time of the event.
        lateness: How much later than the newest row a row may come.
        finished: Whether no more rows will come than there are now.
        asset_key: The key of the asset that it is in Dagster.
        event_time_ahead: How far ahead of the clock the time of a row may be.
        renamed_from: What the source was called before.
    """

    name: str
    connector: Connector | SourceOperator
    event_time: str | None = None
    lateness: str | timedelta = "0 seconds"
    finished: bool = False
    asset_key: str | Sequence[str] | None = None
    event_time_ahead: str | timedelta | None = None
    renamed_from: str | None = None

    def in_pipeline(self, pipeline: PipelineGraph) -> Stream:
        """Declare it there."""
        return pipeline.source(
            self.name, self.connector, event_time=self.event_time, lateness=self.lateness, finished=self.finished,
            asset_key=self.asset_key, event_time_ahead=self.event_time_ahead, renamed_from=self.renamed_from,
        )  # fmt: skip


SourcesGiven: TypeAlias = Mapping[str, DeclaredSource] | Mapping[str, Connector] | Mapping[str, SourceOperator]
"""Sources by name: what was declared with its settings, or where rows come from alone."""


def declared(sources: SourcesGiven | None) -> dict[str, DeclaredSource]:
    """Sources by name as they were declared; one that is given alone has no settings beside.

    Raises:
        PipelineError: There is something that is no source.

    >>> from dagster_operators import FileSource
    >>> declared({"shop": FileSource("in/*.csv", schema="id long")})["shop"].name
    'shop'
    """
    found: dict[str, DeclaredSource] = {}
    for name, given in (sources or {}).items():
        if not isinstance(given, DeclaredSource | Connector | SourceOperator):
            remedy = "give sources= a do.Sources(), with .add(name, FileSource(...)), or a mapping of names to such sources"
            raise PipelineError(f"{given!r} is no source", source=name, remedy=remedy)
        found[name] = given if isinstance(given, DeclaredSource) else DeclaredSource(name, given)
    return found


class Sources(Mapping[str, DeclaredSource]):
    """Sources by name, declared once for the queries of all pipelines. A pipeline has those that its queries name.

    >>> from dagster_operators import FileSource, Pipeline, query
    >>> sources = Sources()
    >>> sources.add("flights", FileSource("in/*.csv", schema="origin string, delay int"))
    >>> pipeline = Pipeline("p", root="data/p")
    >>> pipeline.add(query("flights").filter("delay > 15").to_table("late"), sources=sources).columns
    ('origin', 'delay')
    >>> list(pipeline.dataflow.nodes)
    ['flights', 'filter']
    """

    def __init__(self) -> None:
        self._declared: dict[str, DeclaredSource] = {}

    def add(
        self,
        name: str,
        connector: Connector | SourceOperator,
        *,
        event_time: str | None = None,
        lateness: str | timedelta = "0 seconds",
        finished: bool = False,
        asset_key: str | Sequence[str] | None = None,
        event_time_ahead: str | timedelta | None = None,
        renamed_from: str | None = None,
    ) -> None:
        """Declare a source, as :meth:`Pipeline.source` does.

        Raises:
            PipelineError: The name is taken.

        >>> from dagster_operators import FileSource
        >>> sources = Sources()
        >>> sources.add("flights", FileSource("in/*.csv", schema="origin string, at timestamp"), event_time="at")
        >>> sources["flights"].event_time
        'at'
        """
        if name in self._declared:
            raise PipelineError(f"there is a source named {name!r} already", source=name, remedy="give it another name")
        self._declared[name] = DeclaredSource(
            name, connector, event_time, lateness, finished, asset_key, event_time_ahead, renamed_from
        )

    def __getitem__(self, name: str) -> DeclaredSource:
        return self._declared[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    def __len__(self) -> int:
        return len(self._declared)
