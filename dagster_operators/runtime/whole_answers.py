"""Answers of Sail that are whole: a message of one that cannot be read is an error, never the end of the rows.

PySpark leaves the reading of messages to gRPC's Python library. That drops one that it cannot read, and tells an error only if it
does not know yet that the engine is done: else the answer just ends before it, and the last rows of a query are missing without a
word (https://github.com/grpc/grpc/issues/34670). So messages are read here, in the thread that asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import BrokenAnswerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql.connect.proto import ExecutePlanResponse

_EXECUTE: Final = "/spark.connect.SparkConnectService/ExecutePlan"


def read_whole(client: Any) -> None:
    """Let a client of Spark Connect that does not reattach, and so does not look for the end of answers, read whole ones alone.

    Args:
        client: A session's client; its channel and stub have no public names.
    """
    from pyspark.sql.connect.proto import ExecutePlanRequest

    # Without a deserializer gRPC hands on the bytes.
    execute = client._channel.unary_stream(_EXECUTE, request_serializer=ExecutePlanRequest.SerializeToString)  # noqa: SLF001
    client._stub.ExecutePlan = lambda request, metadata: whole(execute(request, metadata=metadata))  # noqa: SLF001


def whole(answer: Iterable[bytes]) -> Iterator[ExecutePlanResponse]:
    """The messages of an answer.

    Args:
        answer: Their bytes.

    Raises:
        BrokenAnswerError: One of them cannot be read, or lacks its end.
    """
    from google.protobuf.message import DecodeError
    from pyspark.sql.connect.proto import ExecutePlanResponse

    for number, told in enumerate(answer, 1):
        try:
            found = ExecutePlanResponse.FromString(told)
        except DecodeError as error:
            raise _broken(number, f"the {len(told)} bytes of it cannot be read") from error
        # Bytes that were cut off between two fields can be read; each message has an id behind what it tells.
        if not found.response_id:
            raise _broken(number, f"it ends after {len(told)} bytes")
        yield found


def _broken(number: int, problem: str) -> BrokenAnswerError:
    return BrokenAnswerError(
        f"message {number} of the engine's answer arrived damaged: {problem}",
        remedy="run it again: nothing was made of the answer; if it comes again, update grpcio",
    )
