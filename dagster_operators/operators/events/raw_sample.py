"""What ``send_output_raw`` gives: memory that a script fills, and then sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from dagster_operators.errors import SendOutputError

_RELEASE = "release it: view.release(), or del array, before send()"


class SampleBuffer(bytearray):
    """The memory of a message, which NumPy and ``memoryview`` write to."""


class SampleHandler:
    """A message of so many bytes that is still to be filled and sent.

    Args:
        size: The number of bytes.
        send: Sends the message.

    >>> sent = []
    >>> with SampleHandler(2, sent.append) as buffer:
    ...     buffer[:] = b"ab"
    >>> sample = SampleHandler(1, sent.append)
    >>> view = sample.as_memoryview()
    >>> view[0] = 99
    >>> try:
    ...     sample.send()
    ... except SendOutputError as error:
    ...     print(error.problem)
    a view of the sample's memory is still open
    >>> view.release()
    >>> sample.send(), sent
    (None, [b'ab', b'c'])
    """

    def __init__(self, size: int, send: Callable[[bytes], None]) -> None:
        self._buffer = SampleBuffer(size)
        self._send = send
        self._is_sent = False

    def as_buffer(self) -> SampleBuffer:
        """Its memory, the same each time.

        Raises:
            SendOutputError: It was sent.
        """
        self._check()
        return self._buffer

    def as_memoryview(self) -> memoryview:
        """A view of its memory, another one each time, which is to be released before ``send``.

        Raises:
            SendOutputError: It was sent.
        """
        self._check()
        return memoryview(self._buffer)

    def send(self) -> None:
        """Send it, once.

        Raises:
            SendOutputError: It was sent, or a view of its memory is open.
        """
        self._check()
        value = bytes(self._buffer)
        try:
            self._buffer.clear()  # refused while somebody has a view
        except BufferError:
            raise SendOutputError("a view of the sample's memory is still open", remedy=_RELEASE) from None
        self._is_sent = True
        self._send(value)

    def __enter__(self) -> SampleBuffer:
        """Its memory, which is sent at the end of the block."""
        return self.as_buffer()

    def __exit__(self, kind: object, *_: object) -> Literal[False]:
        """Send it, unless the block raised."""
        if kind is None:
            self.send()
        return False

    def _check(self) -> None:
        if self._is_sent:
            raise SendOutputError("the sample was sent already", remedy="ask for another one: node.send_output_raw(...)")
