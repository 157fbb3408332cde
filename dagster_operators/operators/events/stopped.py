"""What pipelines without event operators know of them, too: without the rest of this folder, which takes long to load."""

from __future__ import annotations

from typing import Final

EVENT_OPERATORS: Final = "event_operators"
"""The kind of a dataflow of event operators, as a node of a pipeline."""

STOPPED: Final = "told_to_stop"
"""The figure of an epoch in which operators were told that the pipeline is stopped."""
