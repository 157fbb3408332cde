"""What the graph asks of a sink; the sinks themselves are in ``connectors``."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from dagster_operators.graph.operator import StreamType


@runtime_checkable
class SinkTarget(Protocol):
    """A place outside the storage root that a stream may go to."""

    def check(self, stream: StreamType) -> None:
        """Raise SchemaError if the sink cannot take a stream of this type."""

    def config(self) -> dict[str, Any]:
        """The settings as JSON, without secrets; another value makes an epoch write to the sink anew."""
