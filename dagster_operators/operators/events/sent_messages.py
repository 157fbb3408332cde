"""The messages that an operator sent, as a count and a digest: what is told its events again has to send them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from threading import Lock
from typing import TYPE_CHECKING, Any

from dagster_operators.errors import OperatorFailedError
from dagster_operators.operators.events.value_digest import FORM, digest_of

if TYPE_CHECKING:
    import pyarrow as pa


class SentMessages:
    """A count and a digest of messages, in the order of each output; of their metadata, which may hold a clock's time, nothing.

    >>> import pyarrow as pa
    >>> sent = SentMessages()
    >>> sent.add("n", pa.array([1]))
    >>> sent.check(sent.told(), {})
    >>> try:
    ...     sent.check([2, "", 2], {"node": "a"})
    ... except OperatorFailedError as error:
    ...     print(error.problem)
    for the same events as before it sent 1 message where it had sent 2: chance, a clock or what it reads elsewhere decides
    """

    def __init__(self) -> None:
        self._count = 0
        self._outputs: dict[str, blake2b] = {}
        self._turn = Lock()  # threads of a script may send at once

    def add(self, output: str, value: pa.Array) -> None:
        """Note a message."""
        digest = digest_of(value)
        with self._turn:
            self._count += 1
            if output not in self._outputs:
                self._outputs[output] = blake2b(output.encode(), digest_size=16)
            self._outputs[output].update(digest)

    def told(self) -> list[Any]:
        """The count, the digest and its form."""
        whole = blake2b(digest_size=16)
        for output in sorted(self._outputs):
            whole.update(self._outputs[output].digest())
        return [self._count, whole.hexdigest(), FORM]

    def check(self, before: Sequence[Any], where: Mapping[str, Any]) -> None:
        """Compare the messages with those of before; their count alone, if another version of the package noted them.

        Raises:
            OperatorFailedError: They are others.
        """
        has_form = before[2:] == [FORM]
        if self._count == before[0] and (not has_form or self.told() == [*before]):
            return
        count = f"{self._count} message{'s' * (self._count != 1)}"
        differs = f"{count} with other values" if self._count == before[0] else f"{count} where it had sent {before[0]}"
        raise OperatorFailedError(
            f"for the same events as before it sent {differs}: chance, a clock or what it reads elsewhere decides", **where,
            remedy="let it send the same for the same events; or write state: none, by which each epoch begins with a new run, "
            "or of a script state: live, by which each process does; or make it an operator (class Operator), whose state is "
            "saved; then restart: 1, or another value, to begin anew",
        )  # fmt: skip
