"""The one tree of errors: what went wrong, where, and what to do about it.

Every error carries its place as fields (pipeline, operator, epoch, file, column, ...), so that a program can act on it, and
survives pickling, because Dagster and Spark carry errors between processes. ``retryable`` says whether trying the same thing
again can help; Dagster stops retrying where it cannot.

>>> import pickle
>>> error = SchemaError("no column 'dep_dely'", pipeline="flights", operator="filter_1", column="dep_dely",
...                     remedy="use one of: dep_delay, origin")
>>> print(pickle.loads(pickle.dumps(error)))
no column 'dep_dely' [pipeline 'flights', operator 'filter_1', column 'dep_dely']. To do: use one of: dep_delay, origin
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, ClassVar, Final, Self

from typing_extensions import override

_OF_SOURCE: Final = re.compile(r"\b(pipeline\.reset\()source\b")


def _rebuild(kind: type[OperatorsError], problem: str, remedy: str, where: dict[str, Any]) -> OperatorsError:
    return kind(problem, remedy=remedy, **where)


class OperatorsError(Exception):
    """The base of all errors of this package.

    Args:
        problem: What is wrong, in one sentence without a full stop.
        remedy: What the reader can do about it.
        where: The place, by any of the names ``pipeline``, ``operator``, ``stage``, ``source``, ``table``, ``epoch``, ``file``,
            ``column`` and further fields of the particular error.
    """

    retryable: ClassVar[bool] = False

    def __init__(self, problem: str, *, remedy: str = "", **where: Any) -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy
        self.where: dict[str, Any] = {}
        self.locate(**where)

    def __getattr__(self, name: str) -> Any:
        where = self.__dict__.get("where", {})
        if name in where:
            return where[name]
        raise AttributeError(name)

    def locate(self, **where: Any) -> None:
        """Learn more of the error's place; what is known already stays.

        Connectors do not know what a pipeline calls them: their remedies are about ``source``, which gets its name here.

        >>> error = BadInputError("the table is another", remedy="pipeline.reset(source, 0, tables='restart')")
        >>> error.locate(source="rows", file=None)
        >>> error.remedy, error.where
        ("pipeline.reset('rows', 0, tables='restart')", {'source': 'rows'})
        """
        self.where = {**{name: value for name, value in where.items() if value is not None}, **self.where}
        if "source" in self.where:
            self.remedy = _OF_SOURCE.sub(lambda call: f"{call[1]}{self.where['source']!r}", self.remedy)

    def at(self, **where: Any) -> OperatorsError:
        """The same error with more of its place known; what is known already stays."""
        return _rebuild(type(self), self.problem, self.remedy, {**where, **self.where})

    def __str__(self) -> str:
        place = ", ".join(f"{name} {value!r}" for name, value in self.where.items())
        return self.problem + (f" [{place}]" if place else "") + (f". To do: {self.remedy}" if self.remedy else "")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.problem, self.remedy, self.where)


def call_of(method: str, *arguments: object, **options: object) -> str:
    """A call of a pipeline's method, as a remedy has it: whole, so that it can be copied.

    >>> call_of("reset", ["a", "b"], 0, tables="restart"), call_of("reset", "a", {"line": 7}, tables="keep")
    ("pipeline.reset(['a', 'b'], 0, tables='restart')", "pipeline.reset('a', {'line': 7}, tables='keep')")
    """
    written = [*map(repr, arguments), *(f"{name}={value!r}" for name, value in options.items() if value is not None)]
    return f"pipeline.{method}({', '.join(written)})"


def number_of(count: int, noun: str) -> str:
    """A number of things in words.

    >>> number_of(1, "row"), number_of(0, "row"), number_of(12, "epoch")
    ('1 row', '0 rows', '12 epochs')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


@contextmanager
def located(**where: Any) -> Iterator[None]:
    """Errors of this package that pass through here get to know more of their place; what they know already stays.

    >>> with located(pipeline="flights", file="b.csv"):
    ...     raise BadInputError("a file is empty", file="a.csv")
    Traceback (most recent call last):
    dagster_operators.errors.BadInputError: a file is empty [pipeline 'flights', file 'a.csv']
    """
    try:
        yield
    except OperatorsError as error:
        error.locate(**where)
        raise


class PipelineError(OperatorsError):
    """The pipeline is put together wrongly."""


class SchemaError(PipelineError):
    """A column is missing, has the wrong type, or an expression does not fit its input."""


class PlanError(PipelineError):
    """A plan cannot be written or read: something in it is unknown, missing, or not what it was."""


class QueryError(PipelineError):
    """Queries in a text cannot be read or do not fit; ``errors`` has each error with its ``file``, ``line`` and ``character``.

    >>> place = {"file": "flights.yaml", "line": 7, "character": 5}
    >>> wrong = SchemaError("no column 'orgn'", **place, column="orgn", remedy="use one of: origin")
    >>> print(QueryError("the queries have an error", errors=(wrong,)))
    the queries have an error
      flights.yaml:7:5: no column 'orgn' [column 'orgn']. To do: use one of: origin
    """

    def __str__(self) -> str:
        if "errors" not in self.where:
            return super().__str__()
        return "\n".join([self.problem, *(f"  {_with_place_first(error)}" for error in self.where["errors"])])


def _with_place_first(error: OperatorsError) -> str:
    """An error as compilers tell theirs."""
    place = [str(error.where[name]) for name in ("file", "line", "character") if name in error.where]
    rest = {name: value for name, value in error.where.items() if name not in ("file", "line", "character")}
    return ":".join([*place, f" {OperatorsError(error.problem, remedy=error.remedy, **rest)}"])


class WayOn(Enum):
    """A method of a pipeline by which it goes on after a change that its stored state or tables do not fit."""

    REBUILD = "rebuild"
    WIDEN = "widen"


class ChangedPipelineError(PipelineError):
    """The pipeline changed in a way that its stored state or tables do not fit.

    Attributes:
        ways: The methods that the remedy offers.
    """

    ways: frozenset[WayOn] = frozenset()

    def offering(self, *ways: WayOn) -> Self:
        """The same error with the methods that its remedy offers.

        >>> import pickle
        >>> error = ChangedPipelineError("the columns changed", remedy="pipeline.rebuild('t')").offering(WayOn.REBUILD)
        >>> pickle.loads(pickle.dumps(error)).at(table="t").ways
        frozenset({<WayOn.REBUILD: 'rebuild'>})
        """
        self.ways = frozenset(ways)
        return self

    @override
    def at(self, **where: Any) -> OperatorsError:
        error = super().at(**where)
        if isinstance(error, ChangedPipelineError):
            error.ways = self.ways
        return error

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return (*super().__reduce__(), {"ways": self.ways})


class ChangedColumnsError(ChangedPipelineError):
    """A table or state of the pipeline has other columns than the pipeline gives it."""


class UndecidedChangeError(ChangedPipelineError):
    """The pipeline changed, and somebody has to decide what becomes of its state, positions or tables."""


class TimestampError(PipelineError):
    """A value is no time, two times cannot be compared, or a summary does not fit a time."""


class CapabilityError(PipelineError):
    """A frontier operator puts rows out, or holds time, where its capabilities do not allow it."""


class SourceError(OperatorsError):
    """A source cannot be listed or read."""


class MissingInputError(SourceError):
    """A folder, file or table that a source or lookup reads is not there, or may not be read."""

    retryable = True


class EndedInputError(MissingInputError):
    """What a source read is no longer written, though nobody said of the source that it is ``finished``."""

    retryable = False


class BadInputError(SourceError):
    """The input's content is wrong: corrupt, of another schema, or without a usable event time."""


class EngineError(OperatorsError):
    """Spark (or another engine) cannot be started or refused the work."""


class JavaMissingError(EngineError):
    """Apache Spark needs a Java runtime and there is none."""


class EngineStoppedError(EngineError):
    """Spark stopped by itself, or its Java process ended, while it was asked something; the next question starts it anew."""

    retryable = True


class BrokenAnswerError(EngineError):
    """What an engine answered arrived damaged, so that rows of it would be missing; the next time it is asked it may be whole."""

    retryable = True


class StageFailedError(EngineError):
    """A stage failed while it ran on the engine."""

    retryable = True


class UnfitValueError(StageFailedError):
    """A value of a row does not fit an expression of the pipeline, which gives the same error each time."""

    retryable = False


class EndlessLoopError(StageFailedError):
    """A loop did not come to rest within the rounds that it may take."""

    retryable = False


class OperatorFailedError(StageFailedError):
    """An operator of the user's own raised; ``first_rows`` has the first rows of the batch as JSON.

    Whether trying again can help is for the operator's author to say (``on_error``).
    """

    @property
    def retryable(self) -> bool:  # type: ignore[override]
        """Whether the operator declares the exception as one to be retried."""
        return bool(self.where.get("retry"))


class SendOutputError(OperatorFailedError, RuntimeError):
    """An event operator sends what cannot be sent; a ``RuntimeError`` as dora's is, for operators that catch that."""


class UserFunctionError(StageFailedError):
    """A function of the user's own raised, ran out of time, or returned something else than it declares."""


class StorageError(OperatorsError):
    """The storage root cannot be read or written."""

    retryable = True


class LostFileError(StorageError):
    """Files that the pipeline wrote are missing, or not as they were written; ``lost`` says how many, ``file`` names one."""

    retryable = False


class LedgerError(OperatorsError):
    """The ledger does not allow what was asked for."""


class DamagedLedgerError(LedgerError):
    """Records of the ledger, or entries of its log, are lost or cannot be read."""


class LedgerVersionError(LedgerError):
    """The ledger was written by a newer version of this package."""


class PipelineBusyError(LedgerError):
    """Another run is working on the pipeline right now."""

    retryable = True


class EpochUnderWayError(LedgerError):
    """An epoch is begun, or something is decided that waits for the next one: what is done between epochs has to wait."""


class FencedError(LedgerError):
    """A newer run has taken over; this one may not write any more."""


class UnknownEpochError(LedgerError):
    """The epoch asked for was never completed, or its data has been cleaned up."""


class ForeignWriteError(LedgerError):
    """A table of the pipeline was written by someone else."""


class RestoredTableError(LedgerError):
    """A table of the pipeline is older than the ledger says: it was restored, replaced or deleted."""


class DamagedTableError(RestoredTableError):
    """Entries of a table's log are lost or cannot be read."""


class SinkError(OperatorsError):
    """A sink refused what it was given, or lost it."""


class SinkUnavailableError(SinkError):
    """A sink cannot be reached, or is busy, right now."""

    retryable = True


class NotPreparedError(SinkError):
    """What a sink is to commit is not there: it was never prepared, or was dropped since. It may be written again."""


class CheckFailedError(OperatorsError):
    """A blocking check failed on the staged rows, so the epoch was not committed."""
