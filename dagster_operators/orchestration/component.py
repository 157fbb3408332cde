"""Pipelines as a component: what a ``defs.yaml`` of a Dagster project names, from a place in Python or from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import dagster as dg
from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import override

from dagster_operators.api.pipeline import Pipeline
from dagster_operators.errors import PipelineError
from dagster_operators.orchestration.component_attributes import Condition, Executor, RetryPolicy, Translator, object_at
from dagster_operators.orchestration.definitions import build_definitions

Name: TypeAlias = str | list[str]

_QUERIES: Final = (".yaml", ".yml")
_NO_DEFINITIONS: Final = frozenset({"pipeline", "file", "root", "name", "renamed_from", "storage_options", "secrets"})


class ScaffoldParams(BaseModel):
    """What ``dg scaffold defs`` may be told.

    Attributes:
        pipeline: A pipeline there is, as ``module:name``; without one a file with a small pipeline is written.
        root: The storage root of the pipeline in the file; by default ``data/`` and its name.
    """

    pipeline: str | None = None
    root: str | None = None


class PipelineScaffolder(dg.Scaffolder[ScaffoldParams]):
    """Writes a ``defs.yaml`` over a pipeline there is, or over a file beside it with a pipeline that can be run."""

    @classmethod
    @override
    def get_scaffold_params(cls) -> type[ScaffoldParams]:
        return ScaffoldParams

    @override
    def scaffold(self, request: dg.ScaffoldRequest[ScaffoldParams]) -> None:
        params = request.params
        if params.pipeline is not None:
            dg.scaffold_component(request, {"pipeline": params.pipeline, "sensor": True})
            return
        name = "".join(part if part.isalnum() else "_" for part in request.target_path.name)
        dg.scaffold_component(request, {"file": "pipeline.yaml", "root": params.root or f"data/{name}", "sensor": True})
        (request.target_path / "pipeline.yaml").write_text(_PIPELINE.format(name=name), "utf-8")


@dg.scaffold_with(PipelineScaffolder)
class PipelineComponent(dg.Component, dg.Model, dg.Resolvable):
    """A pipeline with its assets, jobs, schedule, sensor and checks.

    The attributes beside ``pipeline`` and ``file``, and what belongs to these, are those of ``build_definitions``.

    Example:
        .. code-block:: yaml

            type: dagster_operators.PipelineComponent
            attributes:
              pipeline: my_project.flights:pipeline
              sensor: true
              group_name: flights
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    pipeline: str | None = Field(
        None, description="A Pipeline, or a function that gives one, as module:name.", examples=["my_project.flights:pipeline"]
    )
    file: str | None = Field(
        None,
        description="A file with queries or a dataflow (.yaml, .yml), or a plan, relative to the folder of defs.yaml.",
        examples=["flights.yaml"],
    )
    root: str | None = Field(
        None, description="The storage root of the pipeline in the file.", examples=["{{ env.FLIGHTS_ROOT }}"]
    )
    name: str | None = Field(None, description="The name of a dataflow's pipeline, by default that of its file.")
    renamed_from: str | None = Field(None, description="The name that a file's pipeline had when its root was made.")
    storage_options: dict[str, str] | None = Field(None, description="Access to the root's object store.", repr=False)
    secrets: dict[str, dict[str, Any]] | None = Field(None, description="What a plan leaves out, by name.", repr=False)
    schedule: str | None = Field(None, description="A cron expression for epochs.")
    sensor: bool = Field(default=False, description="Whether a sensor starts a run when a source has new data.")
    automation_condition: Condition = None
    execution_timezone: str = Field("UTC", description="The time zone of the schedules.")
    minimum_interval_seconds: int = Field(30, description="How often the sensor looks.")
    default_status: Literal["RUNNING", "STOPPED"] = Field("STOPPED", description="Of schedules and sensor when first deployed.")
    catch_up: bool = Field(default=False, description="Let schedule and sensor run epochs until nothing is new.")
    maintenance: str | None = Field(None, description="A cron expression for maintenance.")
    compact: bool = Field(default=False, description="Whether maintenance joins small files.")
    freshness: str | dict[str, str] | None = Field(None, description="How far behind the clock tables may be, or by table.")
    freshness_schedule: str = Field("*/15 * * * *", description="A cron expression for the checks of freshness.")
    engine: str | None = Field(None, description="The name of an engine, such as sail.")
    group_name: str | None = Field(None, description="The assets' group.")
    owners: list[str] = Field(default_factory=list, description="Owners of the tables that have none of their own.")
    tags: dict[str, str] = Field(default_factory=dict, description="Tags of the tables.")
    key_prefix: Name = Field(default_factory=list, description="What every asset's key begins with.")
    asset_keys: dict[str, Name] = Field(default_factory=dict, description="Whole keys, by name of table, source or lookup.")
    wait_seconds: float = Field(40.0, description="How long a run waits for another one.")
    preview_rows: int | dict[str, int] = Field(10, description="How many rows a materialisation shows, or by table.")
    masked_columns: list[str] = Field(default_factory=list, description="Columns whose values no preview shows.")
    executor: Executor = None
    retry_policy: RetryPolicy = None
    translator: Translator = None

    @model_validator(mode="after")
    def _one_of_both(self) -> PipelineComponent:
        if (self.pipeline is None) == (self.file is None):
            raise ValueError("name one of both: pipeline (module:name) or file")
        if (self.file is None) == bool(self.root):
            raise ValueError("a file needs root, its storage root; a pipeline has its own")
        queries = self.file is not None and Path(self.file).suffix in _QUERIES
        of_no_use = {
            "name": not queries,
            "renamed_from": self.file is None,
            "storage_options": self.file is None,
            "secrets": self.file is None or queries,
        }
        given = [name for name, is_of_no_use in of_no_use.items() if is_of_no_use and getattr(self, name) is not None]
        if given:
            has = (
                "a pipeline has its own" if self.file is None else "a plan has its own" if not queries else "only a plan has any"
            )
            raise ValueError(f"leave out {' and '.join(given)}: {has}")
        return self

    @override
    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The definitions.

        Raises:
            PipelineError: There is no such pipeline or file, or it is none.
        """
        made = self._from_file(context.path) if self.file is not None else _named(str(self.pipeline))
        settings = {name: getattr(self, name) for name in type(self).model_fields if name not in _NO_DEFINITIONS}
        return build_definitions(*made, **settings)

    def _from_file(self, folder: Path) -> tuple[Pipeline]:
        file, root = (folder if folder.is_dir() else folder.parent) / str(self.file), str(self.root)
        settings: dict[str, Any] = {"storage_options": self.storage_options, "renamed_from": self.renamed_from}
        if file.suffix in _QUERIES:
            return (Pipeline.from_yaml(file, root=root, name=self.name, **settings),)
        try:
            data = file.read_bytes()
        except OSError as error:
            raise PipelineError(f"the file cannot be read: {error}", file=str(file), remedy="correct its name") from None
        return (Pipeline.from_plan(data, root=root, secrets=self.secrets, **settings),)


def _named(place: str) -> Sequence[Pipeline]:
    """The pipeline, or the pipelines, at a place in Python."""
    found = object_at(place, "a pipeline")
    found = found() if callable(found) else found
    made = tuple(found.values()) if isinstance(found, Mapping) else tuple(found) if isinstance(found, list | tuple) else (found,)
    if not made or not all(isinstance(each, Pipeline) for each in made):
        raise PipelineError(f"{place!r} is no pipeline", remedy="name a Pipeline, several, or a function that gives them")
    return made


_PIPELINE: Final = """\
# A pipeline in YAML; docs/queries.md of dagster_operators says what may stand here.
pipeline: {name}
sources:
  landed:
    files: {{path: "input/{name}/*.csv", schema: "origin string, delay int, at timestamp"}}
    event_time: at
    lateness: 1 hour
streams:
  late: {{from: landed, steps: [filter: delay > 15]}}
  hourly:
    from: landed
    steps:
      - key_by: origin
      - window: {{tumbling: 1 hour}}
      - aggregate: {{flights: count(*), mean_delay: avg(delay)}}
tables:
  late_flights: late
  hourly_delays: hourly
"""
