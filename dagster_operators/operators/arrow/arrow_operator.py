"""What a user derives an operator of their own from: Python over Arrow record batches, with state and time.

The hooks and their names are those of Arroyo's ``ArrowOperator``. An epoch is one pass: ``on_start``, the batches of the epoch,
the timers and ticks that are due, ``handle_watermark``, ``handle_checkpoint``, ``on_close``; each subtask is a fresh copy of the
operator, and what is to last from epoch to epoch belongs into ``state``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.graph.state_tables import StateTable
    from dagster_operators.operators.arrow.operator_context import Collector, OperatorContext

Schema: TypeAlias = "str | pa.Schema"
"""Column names and types, as Spark DDL or an Arrow schema."""

OnError: TypeAlias = Literal["fail", "retry", "reject"]
"""What becomes of an epoch when user code raises: it fails for good, the step is retried, or the rows go to ``rejects``."""

LATE: Final = "late"
"""The port of rows that came too late."""

REJECTS: Final = "rejects"
"""The port of rows that the operator could not work on."""

REJECTS_COLUMNS: Final = "record string, reason string"
"""The schema of that port: the row as JSON, and why it was rejected."""

CloseReason: TypeAlias = Literal["end_of_data", "stop"]
"""Why a subtask ends: no row will ever come again, or the epoch is over."""


class ArrowOperator:
    """An operator over Arrow record batches.

    Derive, override :meth:`output_schema` and :meth:`process_batch` (or :meth:`process_batch_index` for several inputs), declare
    ``state``, and use it with ``stream.key_by(...).apply(MyOperator())``. Rows of one key always meet in one subtask. An
    instance's attributes are its configuration: set them in ``__init__`` and do not change them later, since every subtask of
    every epoch starts from a copy.

    Attributes:
        name: How the operator is called in errors, explain and the ledger, and what its state is addressed by.
        state: Its state tables by name (``KeyedState``, ``TimeState``, ``GlobalState``, ``ListState``).
        event_time: The output's event-time column; by default the input's, if the output has a column of that name.
        ordered_by: Columns of the input, or of each, that a subtask gets its rows of an epoch in the order of, nulls first;
            those of several inputs together. By default they come in no particular order.
        needs_sequence: Whether ``ctx.origins`` and ``ctx.sequences`` are to tell of each row of a batch where it comes from. The
            input is then written to files first, if it is not in files anyway.
        tick_interval: How often :meth:`handle_tick` is called while an epoch runs, by the clock on the wall, for example ``"1
            second"``; it is called at the end of the epoch in any case. None: never.
        on_error: What becomes of the epoch when a hook raises, for all exceptions or by type. ``reject`` sends the rows of the
            batch that cannot be processed one by one to ``stream.rejects()``, so such a hook must raise before it changes state.
        isolated: Whether each subtask runs it in a process of its own, so that a crash in native code (an abort, a signal,
            no memory left) ends the epoch with an error and nothing else. Rows and state are copied to it and back.
        time_limit: How long a call of an isolated operator may take; then its process is killed.
        is_committing: Whether :meth:`handle_commit` is to be called once the epoch is decided.

    Example:
        >>> import pyarrow as pa, pyarrow.compute as pc
        >>> class Shout(ArrowOperator):
        ...     def output_schema(self, rows):
        ...         return "word string"
        ...     def process_batch(self, batch, ctx, out):
        ...         out.collect(pa.table({"word": pc.utf8_upper(batch["word"])}))
        >>> from dagster_operators.testing import OperatorHarness
        >>> with OperatorHarness(Shout(), "word string") as harness:
        ...     harness.process([{"word": "hi"}])
        ...     harness.rows()
        [{'word': 'HI'}]
    """

    name: str | None = None
    state: Mapping[str, StateTable] = {}
    event_time: str | None = None
    ordered_by: str | Sequence[str] = ()
    needs_sequence: bool = False
    tick_interval: str | None = None
    on_error: OnError | Mapping[type[Exception], OnError] = "fail"
    isolated: bool = False
    time_limit: str = "10 minutes"
    is_committing: ClassVar[bool] = False

    def output_schema(self, *inputs: pa.Schema) -> Schema | Mapping[str, Schema]:
        """The schema of the output for inputs of these schemas; for several outputs by port, ``main`` being the first stream.

        Args:
            inputs: The schema of each input.

        >>> import pyarrow as pa
        >>> class Split(ArrowOperator):
        ...     def output_schema(self, rows):
        ...         return {"main": rows, "odd": "v long"}
        >>> sorted(Split().output_schema(pa.schema({"v": pa.int64()})))
        ['main', 'odd']
        """
        raise NotImplementedError(f"{type(self).__name__} needs output_schema(self, {', '.join(['input'] * len(inputs))})")

    def on_start(self, ctx: OperatorContext) -> None:
        """Called before anything else in a subtask.

        Args:
            ctx: The subtask, its state and its figures.

        >>> import pyarrow as pa
        >>> class Numbered(ArrowOperator):
        ...     def output_schema(self, rows):
        ...         return "v long, subtask int"
        ...     def on_start(self, ctx):
        ...         self.subtask = ctx.subtask
        ...     def process_batch(self, batch, ctx, out):
        ...         out.collect(batch.append_column("subtask", pa.array([self.subtask] * len(batch))))
        >>> from dagster_operators.testing import OperatorHarness
        >>> with OperatorHarness(Numbered(), "v long") as harness:
        ...     harness.run_epoch([{"v": 7}])
        [{'v': 7, 'subtask': 0}]
        """

    def process_batch(self, batch: pa.RecordBatch, ctx: OperatorContext, out: Collector) -> None:
        """Work on a batch of rows of the only input.

        Args:
            batch: Some rows; the rows of a key come to one subtask, in batches of any size.
            ctx: The subtask, its state and its figures.
            out: Where rows are put out.

        >>> import pyarrow.compute as pc
        >>> class Odd(ArrowOperator):
        ...     def output_schema(self, rows):
        ...         return rows
        ...     def process_batch(self, batch, ctx, out):
        ...         out.collect(batch.filter(pc.equal(pc.bit_wise_and(batch["v"], 1), 1)))
        >>> from dagster_operators.testing import OperatorHarness
        >>> with OperatorHarness(Odd(), "v long") as harness:
        ...     harness.run_epoch([{"v": 1}, {"v": 2}, {"v": 3}])
        [{'v': 1}, {'v': 3}]
        """
        raise NotImplementedError(f"{type(self).__name__} needs process_batch(self, batch, ctx, out)")

    def process_batch_index(self, index: int, batch: pa.RecordBatch, ctx: OperatorContext, out: Collector) -> None:  # noqa: ARG002
        """Work on a batch of the input with this index; by default :meth:`process_batch`.

        Args:
            index: Which input, from 0.
            batch: Some of its rows.
            ctx: The subtask, its state and its figures.
            out: Where rows are put out.

        >>> import pyarrow as pa
        >>> class Both(ArrowOperator):
        ...     def output_schema(self, left, right):
        ...         return "side int, v long"
        ...     def process_batch_index(self, index, batch, ctx, out):
        ...         out.collect(batch.add_column(0, "side", pa.array([index] * len(batch))))
        >>> from dagster_operators.testing import OperatorHarness
        >>> with OperatorHarness(Both(), "v long", "v long") as harness:
        ...     harness.process([{"v": 5}], index=1)
        ...     harness.rows()
        [{'side': 1, 'v': 5}]
        """
        return self.process_batch(batch, ctx, out)  # rows by mistake, which is then told

    def handle_watermark(self, watermark: int, ctx: OperatorContext, out: Collector) -> int | None:  # noqa: ARG002
        """Called once all rows of the epoch are processed, with the input's new watermark (microseconds since 1970).

        Returns:
            The watermark of the output: the same, a smaller one while rows that are held back may still be sent out, or None to
            leave it where it is. A later one than the input's fails the epoch.

        >>> class AnHourBehind(ArrowOperator):
        ...     def output_schema(self, rows):
        ...         return rows
        ...     def process_batch(self, batch, ctx, out):
        ...         out.collect(batch)
        ...     def handle_watermark(self, watermark, ctx, out):
        ...         return watermark - 3_600_000_000
        >>> from dagster_operators.testing import OperatorHarness
        >>> with OperatorHarness(AnHourBehind(), "v long") as harness:
        ...     harness.advance("1970-01-01T03:00:00") // 3_600_000_000
        2
        """
        return watermark

    def handle_timer(self, time: int, keys: pa.Table, ctx: OperatorContext, out: Collector) -> None:
        """Called when the watermark has passed a time for which ``ctx.timers`` was set, with the keys it was set for.

        Args:
            time: The time, in microseconds since 1970.
            keys: The keys, a row each; without columns where the timer has no keys.
            ctx: The subtask, its state and its figures.
            out: Where rows are put out.

        >>> class Reminder(ArrowOperator):
        ...     def output_schema(self, rows):
        ...         return "k string"
        ...     def process_batch(self, batch, ctx, out):
        ...         ctx.timers.set(batch["due"], batch.select(["k"]))
        ...     def handle_timer(self, time, keys, ctx, out):
        ...         out.collect(keys)
        >>> from dagster_operators.testing import OperatorHarness
        >>> with OperatorHarness(Reminder(), "k string, due timestamp", keys=["k"]) as harness:
        ...     harness.run_epoch([{"k": "a", "due": "2024-01-01T12:00:00"}], watermark="2024-01-01T11:00:00")
        ...     harness.run_epoch([], watermark="2024-01-01T13:00:00")
        []
        [{'k': 'a'}]
        """

    def handle_tick(self, tick: int, ctx: OperatorContext, out: Collector) -> None:
        """Called every ``tick_interval``, by the clock on the wall, and at the end of the epoch.

        Args:
            tick: How many ticks the epoch had before.
            ctx: The subtask, its state and its figures.
            out: Where rows are put out.

        >>> class Flushing(ArrowOperator):
        ...     tick_interval = "1 minute"
        ...     def output_schema(self, rows):
        ...         return rows
        ...     def on_start(self, ctx):
        ...         self.held = []
        ...     def process_batch(self, batch, ctx, out):
        ...         self.held.append(batch)
        ...     def handle_tick(self, tick, ctx, out):
        ...         while self.held:
        ...             out.collect(self.held.pop(0))
        >>> from dagster_operators.testing import OperatorHarness
        >>> with OperatorHarness(Flushing(), "v long") as harness:
        ...     harness.run_epoch([{"v": 1}])
        [{'v': 1}]
        """

    def handle_checkpoint(self, epoch: int, ctx: OperatorContext, out: Collector) -> None:
        """Called before the epoch's state is written; may still put out rows and change state.

        Args:
            epoch: The epoch's number.
            ctx: The subtask, its state and its figures.
            out: Where rows are put out.

        >>> import pyarrow as pa
        >>> class Counted(ArrowOperator):
        ...     def output_schema(self, rows):
        ...         return "epoch int, n int"
        ...     def on_start(self, ctx):
        ...         self.n = 0
        ...     def process_batch(self, batch, ctx, out):
        ...         self.n += len(batch)
        ...     def handle_checkpoint(self, epoch, ctx, out):
        ...         out.collect(pa.table({"epoch": [epoch], "n": [self.n]}))
        >>> from dagster_operators.testing import OperatorHarness
        >>> with OperatorHarness(Counted(), "v long") as harness:
        ...     harness.run_epoch([{"v": 7}, {"v": 8}])
        [{'epoch': 1, 'n': 2}]
        """

    def handle_commit(self, epoch: int, commit_data: Mapping[str, Any], ctx: OperatorContext) -> None:
        """Called after the decision, in the committing process, with what the subtasks gave to ``ctx.commit`` (by subtask).

        It may be called more than once for an epoch and must then do nothing. The operator has ``is_committing = True``.

        Args:
            epoch: The epoch's number.
            commit_data: What each subtask gave, by its number as text.
            ctx: The operator, without state.

        >>> class Announcing(ArrowOperator):
        ...     is_committing = True
        ...     def output_schema(self, rows):
        ...         return rows
        ...     def process_batch(self, batch, ctx, out):
        ...         ctx.commit({"rows": len(batch)})
        ...     def handle_commit(self, epoch, commit_data, ctx):
        ...         print(epoch, commit_data)
        >>> Announcing().handle_commit(3, {"0": [{"rows": 2}]}, ctx=None)
        3 {'0': [{'rows': 2}]}
        """

    def on_close(self, reason: CloseReason, ctx: OperatorContext, out: Collector) -> None:
        """Called at the end of the subtask.

        Args:
            reason: ``end_of_data`` when no row will ever come again, else ``stop``.
            ctx: The subtask, its state and its figures.
            out: Where rows are put out.

        >>> import pyarrow as pa
        >>> class Ending(ArrowOperator):
        ...     def output_schema(self, rows):
        ...         return "reason string"
        ...     def process_batch(self, batch, ctx, out): ...
        ...     def on_close(self, reason, ctx, out):
        ...         out.collect(pa.table({"reason": [reason]}))
        >>> from dagster_operators.testing import OperatorHarness
        >>> with OperatorHarness(Ending(), "v long") as harness:
        ...     reports = harness.finish()
        ...     harness.rows()
        [{'reason': 'end_of_data'}]
        """

    def display(self) -> Mapping[str, Any] | str:
        """The settings that explain shows of the operator, or a text: by default its attributes.

        >>> class AtLeast(ArrowOperator):
        ...     def __init__(self, least):
        ...         self.least = least
        >>> AtLeast(3).display()
        {'least': 3}
        """
        return {key: value for key, value in vars(self).items() if key != "state"}


def overrides(operator: ArrowOperator, hook: str) -> bool:
    """Whether the operator's class has a hook of its own."""
    return getattr(type(operator), hook) is not getattr(ArrowOperator, hook)


def action_for(operator: ArrowOperator, error: Exception) -> OnError:
    """What the operator wants to become of an epoch in which a hook raised this."""
    if isinstance(operator.on_error, str):
        return operator.on_error
    return next((action for kind, action in operator.on_error.items() if isinstance(error, kind)), "fail")
