"""Pipelines that this process has made definitions of, by storage root: several calls give what Dagster then merges."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Final

from dagster_operators.storage.uri import place_of

if TYPE_CHECKING:
    from dagster_operators.api.pipeline import Pipeline

_BUILT: Final[weakref.WeakValueDictionary[str, Pipeline]] = weakref.WeakValueDictionary()


def built_at(root: str) -> str | None:
    """The name of the pipeline with a storage root that definitions were made of; None if nobody has one.

    >>> built_at("data/nobody's")
    """
    found = _BUILT.get(place_of(root))
    return found.stored_name if found is not None else None


def remember_built(pipeline: Pipeline) -> None:
    """Note that definitions are made of a pipeline."""
    _BUILT[place_of(pipeline.root)] = pipeline
