"""Processes that were forked from one in which tables were read or written: native code of engines and stores ends them."""

from __future__ import annotations

import os
from typing import Final

from dagster_operators.errors import PipelineError


class _Process:
    def __init__(self) -> None:
        self.is_in_use = False
        self.is_forked = False

    def begin_in_child(self) -> None:
        self.is_forked = self.is_forked or self.is_in_use


_HERE: Final = _Process()
os.register_at_fork(after_in_child=_HERE.begin_in_child)


def require_own_process() -> None:
    """See that storage and engines can be used here: from now on they cannot in processes that are forked from this one.

    Raises:
        PipelineError: This process was forked from one that had used them.
    """
    if _HERE.is_forked:
        raise PipelineError(
            f"this process ({os.getpid()}) was forked from one in which a pipeline had been used, and its threads are not here",
            remedy='start it anew, as multiprocessing.get_context("spawn") or subprocess do; or fork before pipelines are used',
        )
    _HERE.is_in_use = True
