"""A whole pipeline as text: sources, loops, streams step by step, and tables, each as the fluent call of that name.

Everything in the text is looked at before anything is told, so that one error has all that is wrong. See ``docs/queries.md``.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dagster_operators.api.queries.arguments import ArgumentReader
from dagster_operators.api.queries.located import Located, read_yaml
from dagster_operators.api.queries.playing import play
from dagster_operators.api.queries.sources import DeclaredSource, Sources
from dagster_operators.api.queries.steps import StepReader
from dagster_operators.catalog.catalog import near
from dagster_operators.errors import OperatorsError, PipelineError, QueryError

if TYPE_CHECKING:
    from dagster_operators.api.pipeline_graph import PipelineGraph

_SECTIONS = ("pipeline", "imports", "sources", "loops", "streams", "tables")


class Document:
    """A text with the queries of a pipeline.

    Args:
        text: In YAML.
        file: Its name in errors.

    Raises:
        QueryError: This is no YAML, or it has no pipeline's name.
    """

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self._errors: list[OperatorsError] = []
        try:
            self._root = read_yaml(text)
        except QueryError as error:
            raise self._all([error]) from None
        if not isinstance(self._root.data, dict):
            raise self._all([_wrong(self._root, "the text is no set of sections", f"it has: {', '.join(_SECTIONS)}")])

    @property
    def pipeline(self) -> str:
        """The pipeline's name.

        Raises:
            QueryError: There is none.
        """
        named = self._root.data.get("pipeline")
        if named is None or not isinstance(named.data, str):
            raise self._all([_wrong(named or self._root, "the pipeline has no name", "write pipeline: name")])
        name: str = named.data
        return name

    def add_to(self, pipeline: PipelineGraph, sources: Mapping[str, DeclaredSource]) -> None:
        """Make the sources, loops, streams and tables in a pipeline.

        Raises:
            QueryError: With all that is wrong.
        """
        for name in self._root.data:
            if name not in _SECTIONS:
                remedy = near(name, _SECTIONS) or f"there are: {', '.join(_SECTIONS)}"
                self._told(PipelineError(f"there is no section {name!r}", remedy=remedy, **self._root.key_place(name)))
        self._import()
        self._sources(pipeline)
        for name, given, _ in self._section("loops"):
            self._loop(pipeline, name, given)
        steps = StepReader(self._told, {*sources, *pipeline.dataflow.nodes})
        steps.expected = {name: given for name, given, _ in self._section("streams")}
        for name, given in steps.expected.items():
            steps.add_stream(name, given)
        for name, given, place in self._section("tables"):
            steps.add_table(name, given, place)
        play(pipeline, steps.queries, sources, {}, told=self._told, labels=steps.streams)
        if self._errors:
            raise self._all(self._errors)

    def _import(self) -> None:
        given = self._root.data.get("imports")
        for module in () if given is None else given.data if isinstance(given.data, tuple) else (given,):
            try:
                import_module(module.text)
            except Exception as error:  # noqa: BLE001 - it is the user's code
                self._told(_wrong(module, f"the module {module.text!r} cannot be imported: {error}", "correct or install it"))

    def _section(self, name: str) -> Iterator[tuple[str, Located, dict[str, int]]]:
        given = self._root.data.get(name)
        if given is None or given.data is None:
            return
        if not isinstance(given.data, dict):
            self._told(_wrong(given, f"the section {name!r} has no names", f"write {name}: {{name: ...}}"))
            return
        for key, value in given.data.items():
            yield key, value, given.key_place(key)

    def _sources(self, pipeline: PipelineGraph) -> None:
        reader = ArgumentReader(_no_stream, self._told)
        parameters = [*inspect.signature(Sources.add).parameters.values()][1:]
        connector = next(one for one in parameters if one.name == "connector")
        settings = [one for one in parameters if one.name not in ("name", "connector")]
        for name, given, _ in self._section("sources"):
            made = reader.with_one_value(f"the source {name!r}", connector, settings, given)
            if made is not None:
                with reader.telling(f"the source {name!r}", given):
                    DeclaredSource(name, *made.positional, **made.named).in_pipeline(pipeline)

    def _loop(self, pipeline: PipelineGraph, name: str, given: Located) -> None:
        reader = ArgumentReader(_no_stream, self._told)
        parameters = [one for one in inspect.signature(pipeline.loop).parameters.values() if one.name != "name"]
        found = reader.arguments(f"the loop {name!r}", parameters, given)
        with reader.telling(f"the loop {name!r}", given):
            pipeline.loop(name, *found.positional, **found.named)

    def _told(self, error: OperatorsError) -> None:
        self._errors.append(error)

    def _all(self, errors: list[OperatorsError]) -> QueryError:
        placed = [error.at(file=self.file) for error in errors]
        ordered = sorted(placed, key=lambda error: (error.where.get("line", 0), error.where.get("character", 0)))
        count = "an error" if len(ordered) == 1 else f"{len(ordered)} errors"
        return QueryError(f"{self.file} has {count}", file=self.file, errors=tuple(ordered))


def _no_stream(given: Located) -> Any:
    raise PipelineError(
        "a source is made of no stream", remedy="leave the line out, or name the stream of an operator", **given.place
    )


def _wrong(given: Located, problem: str, remedy: str) -> PipelineError:
    return PipelineError(problem, **given.place, remedy=remedy)
