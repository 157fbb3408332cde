"""What a deployment calls its assets, and what more it says of them: overridden where the names of a company are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import dagster as dg

from dagster_operators.api.pipeline import Pipeline

AssetKind = Literal["table", "source", "lookup", "sink"]


@dataclass(frozen=True)
class AssetData:
    """Something of a pipeline that is an asset.

    Attributes:
        pipeline: The pipeline.
        name: The name of the table, source, lookup or sink.
        kind: Which of these it is.
        spec: What is said of the asset by default. While keys are still being given out it has nothing but its key.
    """

    pipeline: Pipeline
    name: str
    kind: AssetKind
    spec: dg.AssetSpec


class PipelineTranslator:
    """Says what the assets of pipelines are called, and what Dagster is told of them.

    Example:
        >>> class OfTheLake(PipelineTranslator):
        ...     def get_asset_spec(self, data: AssetData) -> dg.AssetSpec:
        ...         spec = super().get_asset_spec(data)
        ...         return spec.replace_attributes(key=["lake", data.name], group_name="lake")
        >>> from dagster_operators import Pipeline
        >>> data = AssetData(Pipeline("sales", root="unused"), "daily", "table", dg.AssetSpec(["sales", "daily"]))
        >>> OfTheLake().get_asset_spec(data).key.path
        ['lake', 'daily']
    """

    def get_asset_spec(self, data: AssetData) -> dg.AssetSpec:
        """The spec of an asset: all of ``data.spec``, or what you make of it.

        The key must follow from pipeline, name and kind alone; ``deps`` are the pipeline's matter and stay what they are.
        """
        return data.spec


@dataclass(frozen=True)
class AssetNames:
    """How a deployment gives keys to assets.

    Attributes:
        prefix: What keys begin with, before the pipeline's name.
        given: The whole keys of some tables, sources and lookups, by ``name`` or ``pipeline.name``.
        translator: Has the last word.
    """

    prefix: tuple[str, ...] = ()
    given: Mapping[str, dg.AssetKey] = field(default_factory=dict)
    translator: PipelineTranslator = field(default_factory=PipelineTranslator)

    @classmethod
    def of(
        cls,
        prefix: str | Sequence[str],
        given: Mapping[str, str | Sequence[str] | dg.AssetKey] | None,
        translator: PipelineTranslator | None,
    ) -> AssetNames:
        """The names as a user gives them.

        >>> AssetNames.of("lake", {"orders": "shop/orders"}, None).given["orders"].path
        ['shop', 'orders']
        """
        parts = tuple(prefix.split("/") if isinstance(prefix, str) and prefix else prefix)
        return cls(parts, {name: _key(key) for name, key in (given or {}).items()}, translator or PipelineTranslator())

    def known(self, pipeline: str, name: str) -> dg.AssetKey | None:
        """The key that something was given by name."""
        return self.given.get(f"{pipeline}.{name}") or self.given.get(name)

    def key(
        self, pipeline: Pipeline, name: str, kind: AssetKind, called: str = "", *, of: str = "", own: Sequence[str] = ()
    ) -> dg.AssetKey:
        """The key of a table, source, lookup or sink.

        Args:
            pipeline: What it belongs to.
            name: Its name there.
            kind: Which of these it is.
            called: What it is called instead, where that name is taken.
            of: The name of the pipeline whose table it is, as its root has it, of one of another pipeline.
            own: The key that it was given where it was declared.
        """
        usual = list(own) or [*self.prefix, of or pipeline.stored_name, called or name]
        default = self.known(pipeline.name, name) or dg.AssetKey(usual)
        return self.translator.get_asset_spec(AssetData(pipeline, name, kind, dg.AssetSpec(default))).key

    def spec(self, pipeline: Pipeline, name: str, kind: AssetKind, spec: dg.AssetSpec) -> dg.AssetSpec:
        """What is told of an asset that has its key already."""
        told = self.translator.get_asset_spec(AssetData(pipeline, name, kind, spec))
        return told.replace_attributes(key=spec.key, deps=spec.deps)


def _key(given: str | Sequence[str] | dg.AssetKey) -> dg.AssetKey:
    if isinstance(given, dg.AssetKey):
        return given
    return dg.AssetKey.from_user_string(given) if isinstance(given, str) else dg.AssetKey(list(given))
