"""What stands for a window, a source, a sink or a check in a text: a name, and the arguments of what makes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dagster_operators.catalog.catalog import OWN
from dagster_operators.catalog.loading import catalog
from dagster_operators.catalog.registration import loaded
from dagster_operators.errors import PipelineError
from dagster_operators.graph.python_place import found_at

_MADE_HERE: dict[str, tuple[str, frozenset[str]]] = {
    "check": ("dagster_operators.graph.outputs:Check", frozenset({"Check"})),
    "delta": ("dagster_operators.connectors.delta_source:DeltaSource", frozenset({"Connector", "Described"})),
    "exchange": ("dagster_operators.operators.frontier.pacts:Exchange", frozenset({"Pact"})),
    "file_sink": ("dagster_operators.connectors.file_sink:FileSink", frozenset({"SinkTarget"})),
    "files": ("dagster_operators.connectors.file_source:FileSource", frozenset({"Connector", "Described"})),
    "kafka": ("dagster_operators.connectors.kafka_source:KafkaSource", frozenset({"Connector", "Described"})),
    "kafka_sink": ("dagster_operators.connectors.kafka_sink:KafkaSink", frozenset({"SinkTarget"})),
    "memory": ("dagster_operators.connectors.memory_source:MemorySource", frozenset({"Connector", "Described"})),
    "pipeline": ("dagster_operators.operators.frontier.pacts:Pipeline", frozenset({"Pact"})),
    "pipeline_source": (
        "dagster_operators.connectors.pipeline_source:PipelineSource",
        frozenset({"Connector", "Described"}),
    ),
    "postgres": ("dagster_operators.connectors.postgres_sink:PostgresSink", frozenset({"SinkTarget"})),
    "session": ("dagster_operators.operators.windows.session:Session", frozenset({"Session"})),
    "snapshot": ("dagster_operators.connectors.snapshot_source:SnapshotSource", frozenset({"Connector", "Described"})),
    "sliding": ("dagster_operators.operators.windows.windows:Sliding", frozenset({"Window"})),
    "tumbling": ("dagster_operators.operators.windows.windows:Tumbling", frozenset({"Window"})),
}
"""What makes values of this package, and the names in annotations that say where they fit."""

PYTHON = "python"
"""The constructor of whatever is the user's own: an object by its module and name."""

_SCALARS = ("str", "int", "float", "bool", "None", "Any", "Literal", "timedelta", "object")
_COLLECTIONS = ("Mapping", "Sequence", "Iterable", "Collection", "dict", "list", "tuple", "set", "Optional", "Union")
_PLAIN = frozenset({*_SCALARS, *_COLLECTIONS})


def takes_only_plain(words: frozenset[str]) -> bool:
    """Whether an argument with these names in its annotation takes nothing but text, numbers and collections of them.

    >>> takes_only_plain(frozenset({"str", "None"})), takes_only_plain(frozenset({"Window", "None"}))
    (True, False)
    """
    return words <= _PLAIN


def constructor(name: str, words: frozenset[str]) -> Callable[..., Any] | None:
    """What makes a value of a name for an argument with these names in its annotation, if it fits there.

    >>> from dagster_operators.operators.windows.windows import Tumbling
    >>> constructor("tumbling", frozenset({"Window"})) is Tumbling, constructor("tumbling", frozenset({"str"}))
    (True, None)
    """
    made: Callable[..., Any]
    if name in _MADE_HERE:
        if _fits(name).isdisjoint(words):
            return None
        made = loaded(_MADE_HERE[name][0])
        return made
    kind = None if takes_only_plain(words) else catalog().value(name)
    if kind is None or kind.package == OWN or words.isdisjoint(base.__name__ for base in kind.type.__mro__):
        return None
    made = kind.type
    return made


def constructors(words: frozenset[str]) -> list[str]:
    """The names of what this package makes for such an argument."""
    own = [name for name in _MADE_HERE if not _fits(name).isdisjoint(words)]
    return own if takes_only_plain(words) else [*own, PYTHON]


def _fits(name: str) -> frozenset[str]:
    """The names in annotations that a value fits: those of protocols, and that of its class."""
    where, protocols = _MADE_HERE[name]
    return protocols | {where.rpartition(":")[2]}


def python_object(where: str) -> Any:
    """An object by its module and name; its module is imported.

    Raises:
        PipelineError: There is no such module, or nothing of that name in it.

    >>> python_object("math:pi")
    3.141592653589793
    """
    module, _, name = where.partition(":")
    if not module or not name:
        raise PipelineError(f"{where!r} names no Python object", remedy="write module:name")
    try:
        return found_at(module, name)
    except ImportError as error:
        raise PipelineError(
            f"the module {module!r} cannot be imported: {error}", remedy="install it, or correct the name"
        ) from error
    except AttributeError:
        raise PipelineError(f"the module {module!r} has no {name!r}", remedy="correct the name") from None
