"""The supersteps that an attempt keeps for the next one, and the one that it goes on behind."""

from __future__ import annotations

import hashlib
import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from dagster_operators.errors import OperatorsError, StorageError
from dagster_operators.operators.datasets.running.exchange_files import Chunk, ExchangeFolder
from dagster_operators.operators.datasets.running.files_of_streams import StreamRows
from dagster_operators.operators.datasets.running.superstep import Superstep
from dagster_operators.operators.stage_parts import Exchanges

_READS: Final = 8
_SUM: Final = 1 << 64

_log = logging.getLogger(__name__)


class Supersteps:
    """The supersteps of an operator's iterations, across attempts.

    Args:
        exchanges: The folders of the attempts.
        folder: The folder of this attempt.
        operator: The operator, for the log.
    """

    def __init__(self, exchanges: Exchanges, folder: ExchangeFolder, operator: str) -> None:
        self._exchanges = exchanges
        self._folder = folder
        self._operator = operator
        self._identity = f"{_version()} {exchanges.identity}"
        self._files: frozenset[str] = frozenset()
        self._forgot_earlier = False
        self._refused = False
        self.inputs: tuple[tuple[Chunk, ...], ...] = ()
        """The rows of each stream, which go into each record."""

    def last(self) -> Superstep | None:
        """The superstep that an earlier attempt at the same work kept last, with its rows in this attempt's folder; None without.

        An attempt that is still at work may delete files while they are taken over: then its next record is looked at.
        """
        tried: set[tuple[str, tuple[int, int]]] = set()
        while records := [(attempt, step) for attempt, step in self._records() if (attempt, step.progress) not in tried]:
            attempt, superstep = max(records, key=lambda record: record[1].progress)
            tried.add((attempt, superstep.progress))
            try:
                self._exchanges.take_over(attempt, superstep.files)
                self._verify(superstep)
            except OperatorsError as error:
                self.begins_anew(str(error))
            else:
                self._exchanges.reached("superstep_taken_over", superstep.number)
                return superstep
        if tried:
            self._exchanges.forget_all_but(())
            self._exchanges.make()
        return None

    def forget_earlier(self) -> None:
        """Delete the rows of attempts of earlier owners: nobody goes on with them any more."""
        if not self._forgot_earlier:
            self._exchanges.forget_earlier()
        self._forgot_earlier = True

    def _records(self) -> Iterable[tuple[str, Superstep]]:
        for attempt, content in self._exchanges.kept():
            try:
                superstep = Superstep.from_bytes(content)
            except OperatorsError as error:
                self.begins_anew(str(error))
                continue
            if superstep.identity != self._identity:
                self.begins_anew("the program, what comes before it, or the version of the package is another one")
                continue
            yield attempt, superstep

    def _verify(self, superstep: Superstep) -> None:
        by_file: defaultdict[str, list[Chunk]] = defaultdict(list)
        for chunk in superstep.chunks:
            by_file[chunk.file].append(chunk)
        with ThreadPoolExecutor(_READS) as pool:
            for _ in pool.map(lambda chunks: sum(map(len, self._folder.contents(chunks))), by_file.values()):
                pass

    def begins_anew(self, reason: str) -> None:
        """Write into the log why an iteration does not go on behind a superstep that was kept."""
        _log.warning("the iterations of %s begin at their first superstep: %s", self._operator, reason)

    def has_inputs(self, superstep: Superstep, inputs: Sequence[Sequence[Chunk]]) -> bool:
        """Whether the rows that come in are those that came in when a superstep was kept.

        Args:
            superstep: The superstep.
            inputs: The rows of each stream, in chunks of this attempt's folder.
        """
        if len(superstep.inputs) != len(inputs):
            return False
        return all(self._are_equal(before, now) for before, now in zip(superstep.inputs, inputs, strict=True))

    def _are_equal(self, before: Sequence[Chunk], now: Sequence[Chunk]) -> bool:
        if sorted(map(_content, before)) == sorted(map(_content, now)):
            return True
        count = sum(chunk.rows for chunk in before)
        return count == sum(chunk.rows for chunk in now) and self._sum(before) == self._sum(now)

    def _sum(self, chunks: Sequence[Chunk]) -> int:
        """A sum over the rows, the same for any order and any cut into chunks."""
        rows = StreamRows(tuple(chunks)).rows(self._folder, 0, 1)
        digests = (hashlib.blake2b(repr(tuple(row)).encode(), digest_size=8).digest() for row in rows)
        return sum(int.from_bytes(digest, "big") for digest in digests) % _SUM

    def keep(self, superstep: Superstep) -> frozenset[str] | None:
        """Keep a superstep, in the place of the one before.

        Args:
            superstep: The superstep.

        Returns:
            The files that must stay; None where it cannot be kept, so that those of the one before must stay.
        """
        whole = replace(superstep, identity=self._identity, inputs=self.inputs)
        try:
            record = whole.to_bytes()
        except StorageError:
            raise
        except OperatorsError as error:
            if not self._refused:
                _log.warning("the supersteps of %s are not kept: %s", self._operator, error)
            self._refused = True
            return None
        self._exchanges.keep(record)
        self._files = whole.files
        self._exchanges.reached("superstep_kept", superstep.number)
        self.forget_earlier()
        return self._files

    def forget_the_rest(self) -> None:
        """Delete all files of this attempt, which has failed, except those of the superstep that it kept last."""
        try:
            self._exchanges.forget_all_but(self._files)
            if self._files:
                self._exchanges.end()
        except StorageError as error:
            _log.warning("rows that nobody reads were not deleted: %s", error)


def _version() -> str:
    try:
        return version("dagster-operators")
    except PackageNotFoundError:
        return ""


def _content(chunk: Chunk) -> tuple[int, int, int]:
    return chunk.checksum, chunk.size, chunk.rows
