"""What sources and sinks of Kafka have in common: the client's settings, and its errors in our own tree, without secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.connectors.secret_settings import found, redacted
from dagster_operators.errors import OperatorsError, PipelineError

if TYPE_CHECKING:
    import confluent_kafka as kafka

_SECRET: Final = ("password", "secret", "key", "token", "config")
"""In the names of options that may hold secrets."""

_SHORTEST_SECRET: Final = 4
_OWN: Final = (
    "bootstrap.servers", "enable.auto.commit", "enable.partition.eof", "auto.offset.reset", "transactional.id",
    "enable.idempotence", "isolation.level",
)  # fmt: skip
"""Settings that decide whether records come once, which are not the user's."""


def client() -> ModuleType:
    """The client library.

    Raises:
        PipelineError: It is not installed.
    """
    try:
        import confluent_kafka
    except ImportError:
        raise PipelineError("Kafka needs confluent-kafka", remedy="pip install 'dagster_operators[kafka]'") from None
    return confluent_kafka


def check_place(servers: object, topic: object, options: object, timeout: object) -> None:
    """Raise PipelineError unless these name a topic, and settings of the client that are the user's to choose."""
    for name, given in (("servers", servers), ("topic", topic)):
        if not isinstance(given, str) or not given:
            raise PipelineError(f"{name} is text, not {given!r}", remedy="write the brokers' addresses, host:port, and the topic")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout <= 0:
        raise PipelineError(f"timeout is a number of seconds, not {timeout!r}", remedy="write timeout=30, say")
    if options is None:
        return
    if not isinstance(options, Mapping):
        problem = f"options are a mapping, not of type {type(options).__name__}"  # which may have a password in it
        raise PipelineError(problem, remedy="write options={'security.protocol': 'ssl'}, say")
    for name in options:
        if name in _OWN:
            raise PipelineError(
                f"the option {name!r} is not for you to set: rows would be lost or come twice", remedy="leave it out"
            )


def settings(servers: str, options: Mapping[str, Any] | None, own: Mapping[str, Any]) -> dict[str, Any]:
    """The client's settings: the user's, where ``env:NAME`` is found in the environment, and those that are not theirs.

    Raises:
        PipelineError: An environment variable is not set.

    >>> settings("a:9092", {"client.id": "me"}, {"isolation.level": "read_committed"})["client.id"]
    'me'
    """
    given = {name: _resolved(value) for name, value in (options or {}).items()}
    return {"log_level": 0, **given, "bootstrap.servers": servers, **own}


@contextmanager
def told_as(
    unreachable: type[OperatorsError], refused: type[OperatorsError], options: Mapping[str, Any] | None, **where: Any
) -> Iterator[None]:
    """Turn the client's errors into ours.

    Args:
        unreachable: What it is if trying again may help.
        refused: What it is if not.
        options: The user's settings of the client, which may hold secrets.
        where: The place.
    """
    library = client()
    try:
        yield
    except library.KafkaException as error:
        told = error.args[0] if error.args else error
        raise error_of(told, unreachable, refused, options, **where) from None


def error_of(
    error: Any, unreachable: type[OperatorsError], refused: type[OperatorsError], options: Mapping[str, Any] | None, **where: Any
) -> OperatorsError:
    """An error of the client as ours."""
    code = _code(error)
    text = _redacted(code.str() if code is not None else str(error), options)
    if code is not None and code.name() in {"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"}:
        return unreachable(
            "there is no such topic, or a partition of it is gone", remedy="create it, or correct its name", **where
        )
    if code is not None and ("AUTHENTICATION" in code.name() or "AUTHORIZATION" in code.name() or code.name() == "_INVALID_ARG"):
        return refused(f"Kafka refuses it: {text}", remedy="correct the options, or let the user in", **where)
    return unreachable(f"Kafka cannot be reached, or is busy: {text}", remedy="check the brokers and their addresses", **where)


def _code(error: Any) -> kafka.KafkaError | None:
    return error if isinstance(error, client().KafkaError) else None


def _resolved(value: Any) -> Any:
    return found(value, "the value of the option") if isinstance(value, str) else value


def _redacted(text: str, options: Mapping[str, Any] | None) -> str:
    """The text without the values of options that may be secret."""
    values = (_resolved(value) for name, value in (options or {}).items() if any(part in name for part in _SECRET))
    return redacted(text, (value for value in map(str, values) if len(value) >= _SHORTEST_SECRET))
