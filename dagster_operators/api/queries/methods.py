"""The fluent methods by name: which a stream of some kind has, what they take, and what kind of stream they give."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dagster_operators.api.keyed_stream import KeyedStream
from dagster_operators.api.queries import loop_steps
from dagster_operators.api.stream import Stream
from dagster_operators.api.windowed_stream import WindowedStream
from dagster_operators.catalog.loading import catalog

_CLASSES = {"stream": Stream, "keyed_stream": KeyedStream, "windowed_stream": WindowedStream}
_GIVEN = {"KeyedStream": "keyed_stream", "WindowedStream": "windowed_stream", "Stream": "stream", "Self": "stream"}
"""What the name of a class in an annotation says that a method gives."""

_LOOP_STEPS: Mapping[str, Callable[..., Any]] = {
    "enter": loop_steps.enter,
    "leave": loop_steps.leave,
    "feed": loop_steps.feed,
}


def words(annotation: Any) -> frozenset[str]:
    """The names in an annotation, also in one that was never evaluated.

    >>> sorted(words("Window | Session | None")), sorted(words(list[int]))
    (['None', 'Session', 'Window'], ['int', 'list'])
    """
    if annotation is inspect.Parameter.empty:
        return frozenset()
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return frozenset(re.findall(r"\w+", text))


@dataclass(frozen=True)
class Method:
    """A fluent method.

    Attributes:
        name: Its name.
        function: It itself: its first argument is the stream.
        receiver: The kind of stream that has it.
    """

    name: str
    function: Callable[..., Any]
    receiver: str

    @cached_property
    def signature(self) -> inspect.Signature:
        """What it takes, the stream first."""
        return inspect.signature(self.function)

    @property
    def parameters(self) -> list[inspect.Parameter]:
        """What it takes behind the stream."""
        return [*self.signature.parameters.values()][1:]

    @cached_property
    def gives(self) -> str:
        """The kind of stream that it gives; a method of another package that does not say gives a stream."""
        found = words(self.signature.return_annotation)
        return next((kind for name, kind in _GIVEN.items() if name in found), "stream")


def method_of(receiver: str, name: str) -> Method | None:
    """The fluent method of a kind of stream, of this package or of another one.

    >>> method_of("stream", "key_by").gives, method_of("keyed_stream", "filter")
    ('keyed_stream', None)
    """
    own = inspect.getattr_static(_CLASSES[receiver], name, None)
    if name.startswith("_") or (own is not None and not _gives_stream(own)):
        return None
    if own is None and receiver == "stream":
        own = _LOOP_STEPS.get(name)
    function = own or catalog().method(receiver, name)
    return Method(name, function, receiver) if function is not None else None


def methods_of(receiver: str) -> list[str]:
    """The names of the fluent methods of a kind of stream."""
    names = {*dir(_CLASSES[receiver]), *catalog().methods(receiver), *(_LOOP_STEPS if receiver == "stream" else ())}
    return sorted(name for name in names if method_of(receiver, name) is not None)


def _gives_stream(member: Any) -> bool:
    return inspect.isfunction(member) and not words(inspect.signature(member).return_annotation).isdisjoint(_GIVEN)
