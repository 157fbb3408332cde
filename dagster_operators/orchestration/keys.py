"""What things are called in Dagster: the asset of each table and source, and the ops of the stages."""

from __future__ import annotations

import hashlib
import keyword
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Literal

from dagster_operators.api.pipeline import Pipeline
from dagster_operators.connectors.connector import Connector
from dagster_operators.connectors.pipeline_source import PipelineSource
from dagster_operators.errors import PipelineError
from dagster_operators.operators.joins.lookup import Lookup
from dagster_operators.operators.relational.source import ConnectorOperator, Source
from dagster_operators.orchestration.built import built_at
from dagster_operators.orchestration.translator import AssetNames
from dagster_operators.planner.lineage import Upstream
from dagster_operators.planner.stages import cut_stages
from dagster_operators.storage.uri import place_of, public_uri

if TYPE_CHECKING:
    import dagster as dg

InputKind = Literal["source", "lookup"]

PIPELINE_TAG: Final = "dagster_operators/pipeline"
"""The run tag with the pipeline's name; of a run of several, with that of one of them (:func:`pipeline_tag` tells all)."""

ROOT_TAG: Final = "dagster_operators/root"
"""The run tag with a short name of the pipeline's root: pipelines of other code locations may have the same name."""

EPOCH_TAG: Final = "dagster_operators/epoch"
"""The run tag with the number of the epoch that the run worked on."""

TABLE_METADATA: Final = "dagster_operators/table"
"""The entry of an asset's metadata that says which table it is, as ``pipeline.table``, whatever its key."""

_LONGEST_TAG: Final = 63
"""So many characters a part of a tag's name may have in Dagster."""

_STEPS: Final = frozenset({"begin", "commit"})
_RESERVED: Final = frozenset(
    ["context", "conf", "config", "meta", "arg_dict", "dict", "input_arg_dict", "output_arg_dict", "int", "str", "float", "bool"]
) | {"input", "output", "type"}


def op_name(stage: str) -> str:
    """The op of a stage: its name, unless Dagster or we need that name for something else.

    >>> op_name("clean"), op_name("commit")
    ('clean', 'commit_stage')
    """
    return f"{stage}_stage" if stage in _STEPS or stage in _RESERVED or keyword.iskeyword(stage) else stage


def pipeline_tag(pipeline: str) -> str:
    """The run tag that says that a run is of a pipeline, one for each pipeline that it is of; its value is that of ROOT_TAG.

    >>> pipeline_tag("flights")
    'dagster_operators/pipeline.flights'
    """
    part = f"pipeline.{pipeline}"
    if len(part) > _LONGEST_TAG:
        digest = hashlib.sha256(pipeline.encode()).hexdigest()[:16]
        part = f"{part[: _LONGEST_TAG - 17]}_{digest}"
    return f"dagster_operators/{part}"


def table_uri(pipeline: Pipeline, table: str) -> str:
    """Where a table of the pipeline lies."""
    return f"{public_uri(pipeline.root)}/tables/{table}"


def root_name(pipeline: Pipeline) -> str:
    """A short name of a pipeline's root, the same for all spellings of it, without secrets."""
    return hashlib.sha256(place_of(pipeline.root).encode()).hexdigest()[:16]


def rejects_tables(pipeline: Pipeline) -> dict[str, str]:
    """The tables with the records that could not be parsed, with their sources."""
    return {
        f"{name}_rejects": name
        for name, kind, connector in inputs(pipeline)
        if kind == "source" and connector.on_corrupt == "reject"
    }


def inputs(pipeline: Pipeline) -> Iterator[tuple[str, InputKind, Connector]]:
    """The sources and lookups in use: name, ``source`` or ``lookup``, and the connector."""
    for stage in cut_stages(pipeline.dataflow):
        for name in stage.operators:
            node = pipeline.dataflow.nodes.get(name)  # a rule may have put in operators that the dataflow does not have
            if node and isinstance(node.operator, Source | Lookup) and isinstance(node.operator.connector, Connector):
                yield name, "source" if isinstance(node.operator, Source) else "lookup", node.operator.connector


def _own_key(pipeline: Pipeline, name: str) -> tuple[str, ...]:
    """The key that a source or lookup was given where it was declared."""
    operator = pipeline.dataflow.nodes[name].operator
    return operator.asset_key if isinstance(operator, ConnectorOperator) else ()


class AssetKeys:
    """The asset keys of one pipeline: ``[pipeline, table]`` and ``[pipeline, source]``, unless the deployment has other names.

    Args:
        pipeline: Whose keys these are.
        neighbours: Pipelines deployed together: a source that reads one of their tables is that table's asset.
        names: How the deployment gives keys.

    Attributes:
        neighbours: The other pipelines that are deployed together.
        tables: The key of each table.
        sinks: The key of each sink.
        inputs: The key of each source and lookup.
        sources: The sources among these.
        theirs: The sources and lookups that are somebody else's assets.
        unknown: Those over a table of a pipeline whose name nobody can tell yet; in the result they are nobody's.

    Raises:
        PipelineError: Two tables have the same key, a source has that of one, or one that reads a neighbour's has another.
    """

    def __init__(self, pipeline: Pipeline, neighbours: Iterable[Pipeline] = (), names: AssetNames | None = None) -> None:
        self._pipeline = pipeline
        self.neighbours = tuple(other for other in neighbours if other is not pipeline)
        self.names = names or AssetNames()
        self.tables: Mapping[str, dg.AssetKey] = dict(self._tables_of(pipeline))
        theirs = {
            place_of(table_uri(other, name)): (f"{other.name}.{name}", key)
            for other in self.neighbours
            for name, key in self._tables_of(other)
        }
        found = {
            name: (
                kind,
                self._of_neighbour(name, kind, *theirs[place_of(connector.uri)])
                if place_of(connector.uri) in theirs
                else self._elsewhere(name, kind, connector),
            )
            for name, kind, connector in inputs(pipeline)
        }
        self.sources = tuple(name for name, (kind, _) in found.items() if kind == "source")
        self.theirs = frozenset(
            name
            for name, (_, key) in found.items()
            if key is not None or self.names.known(pipeline.name, name) or _own_key(pipeline, name)
        )
        self.unknown = {
            name: connector
            for name, _, connector in inputs(pipeline)
            if name not in self.theirs and isinstance(connector, PipelineSource)
        }
        self.inputs: Mapping[str, dg.AssetKey] = {name: key or self._own(name, kind) for name, (kind, key) in found.items()}
        self.sinks: Mapping[str, dg.AssetKey] = {
            name: self.names.key(pipeline, name, "sink", self._free(name, "sink", self.inputs), own=sink.asset_key)
            for name, sink in pipeline.dataflow.sinks.items()
        }
        if len({*self.tables.values(), *self.sinks.values()}) < len(self.tables) + len(self.sinks):
            raise PipelineError(
                "two tables or sinks have the same asset key", pipeline=pipeline.name, remedy="give each a key of its own"
            )
        self._check_inputs()

    def _check_inputs(self) -> None:
        """Refuse a source that is the same asset as what is made from it."""
        made = {key: name for name, key in (*self.tables.items(), *self.sinks.items())}
        for name in sorted(self.theirs):
            key = self.inputs[name]
            if key not in made:
                continue
            own = f"{self._pipeline.name}.{made[key]}"
            apart = f"asset_keys cannot tell them apart: leave {name!r} out there, and say to_table({name!r}, asset_key=...)"
            raise PipelineError(
                f"the source or lookup {name!r} and {made[key]!r}, which is made here, have the same asset key",
                pipeline=self._pipeline.name, asset=key.to_user_string(),
                remedy=apart if name == made[key] else f"give {made[key]!r} another one: asset_keys={{{own!r}: ...}}",
            )  # fmt: skip

    def _of_neighbour(self, name: str, kind: InputKind, table: str, key: dg.AssetKey) -> dg.AssetKey:
        """Of a source that reads a neighbour's table: that table's, and no other."""
        own = _own_key(self._pipeline, name)
        if self.names.known(self._pipeline.name, name) or own:
            wanted = self.names.key(self._pipeline, name, kind, own=own)
            if wanted != key:
                raise PipelineError(
                    f"the {kind} {name!r} is given the asset key {wanted.to_user_string()}, and reads the table {table}, which "
                    f"is the asset {key.to_user_string()}",
                    pipeline=self._pipeline.name,
                    remedy=f"leave that key out, or give it to the table: asset_keys={{{table!r}: {wanted.to_user_string()!r}}}",
                )  # fmt: skip
        return key

    def _tables_of(self, pipeline: Pipeline) -> Iterator[tuple[str, dg.AssetKey]]:
        for name in (*pipeline.tables, *rejects_tables(pipeline)):
            table = pipeline.tables.get(name)
            yield name, self.names.key(pipeline, name, "table", own=table.asset_key if table else ())

    def _elsewhere(self, name: str, kind: InputKind, connector: Connector) -> dg.AssetKey | None:
        """Of a table of a pipeline that is deployed somewhere else, if that pipeline's name is known."""
        if not isinstance(connector, PipelineSource):
            return None
        of = connector.pipeline_name or built_at(str(connector.root))
        if of is None:
            return None
        return self.names.key(self._pipeline, name, kind, connector.table, of=of, own=_own_key(self._pipeline, name))

    def _own(self, name: str, kind: InputKind) -> dg.AssetKey:
        """Of the source itself."""
        return self.names.key(self._pipeline, name, kind, self._free(name, kind), own=_own_key(self._pipeline, name))

    def _free(self, name: str, kind: str, others: Container[str] = ()) -> str:
        """What is no table is called; a table's name is the table's, and what a sink is called no source or lookup is."""
        called = name
        while called in self.tables or called in others:
            called = f"{called}_{kind}"
        return called

    def of(self, upstream: Upstream) -> dg.AssetKey:
        """The asset of something a table is made from."""
        return self.tables[upstream.name] if upstream.kind == "table" else self.inputs[upstream.name]
