"""What is asked of a session is asked once, and does not keep it."""

from __future__ import annotations

import gc
import weakref
from typing import Any

from dagster_operators.operators.engine_kind import once_per_session


class Session:
    def __init__(self, *, is_spark: bool) -> None:
        self.is_spark = is_spark


def test_a_question_is_asked_once_of_each_session_and_keeps_none() -> None:
    asked = []

    @once_per_session
    def is_spark(session: Any) -> bool:
        asked.append(session.is_spark)
        return bool(session.is_spark)

    sessions: list[Any] = [Session(is_spark=answer) for answer in (True, False, True)]
    for _ in range(2):
        assert [is_spark(session) for session in sessions] == [True, False, True]
    assert asked == [True, False, True]
    last = weakref.ref(sessions.pop())
    gc.collect()
    assert last() is None
