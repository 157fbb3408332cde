"""When an epoch fails undecided, external participants drop what they hold of it: it would lock others out meanwhile."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from dagster_operators.errors import OperatorsError
from dagster_operators.transactions.participants import Participant
from dagster_operators.transactions.view import LedgerView

_log = logging.getLogger(__name__)


class Dropping:
    """Tells the participants to drop an undecided epoch once no thread is at work on it any more.

    Should the epoch be decided all the same, or tried again, they are asked to prepare it again.

    Args:
        participants: By name; further ones may join.
        view: Gives the ledger as it is now.
    """

    def __init__(self, participants: Mapping[str, Participant], view: Callable[[], LedgerView]) -> None:
        self._participants = participants
        self._view = view
        self._turn = threading.Lock()
        self._at_work = 0
        self._failed: int | None = None

    @contextmanager
    def if_it_fails(self, generation: int) -> Iterator[None]:
        """A step of an epoch under a generation; several may be open at once."""
        with self._turn:
            self._at_work += 1
        try:
            yield
        except Exception:
            self._failed = generation
            raise
        finally:
            with self._turn:
                self._at_work -= 1
                if not self._at_work and self._failed is not None:
                    failed, self._failed = self._failed, None
                    self._drop(failed)

    def _drop(self, generation: int) -> None:
        if not self._participants:
            return
        with contextlib.suppress(OperatorsError):
            view = self._view()
            if view.decision is None and view.open_begin and view.generation == generation:
                for name, participant in self._participants.items():
                    try:
                        participant.abort(view.open_begin.epoch, generation)
                    except OperatorsError as error:
                        _log.warning("the participant %s did not drop an undecided epoch: %s", name, error)
