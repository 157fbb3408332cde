"""The fluent methods that join a stream with another one, without windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from dagster_operators.api.base_stream import BaseStream
from dagster_operators.api.forgetting import forget_after_of
from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.operators.joins.as_of_join import AsOfJoin, HowAsOf
from dagster_operators.operators.joins.join import Join
from dagster_operators.operators.joins.join_columns import HowInWindows
from dagster_operators.operators.relational.projection import as_pairs
from dagster_operators.time.watermark import parse_duration, require_unit

if TYPE_CHECKING:
    from datetime import timedelta

_NO_VERSIONS = "it has one row per key and no earlier versions: join it with join(other, on=...), or take the rows before it"


class JoinedStream(BaseStream):
    """A stream's joins with another one by key."""

    def join(
        self,
        other: Self,
        *,
        on: str | Sequence[str] | Mapping[str, str],
        how: HowInWindows = "inner",
        condition: str | None = None,
        columns: Sequence[str] | None = None,
        forget_after: str | timedelta | int | None = None,
        name: str | None = None,
        chain: bool = True,
        renamed_from: str | None = None,
    ) -> Self:
        """The pairs of all rows of two streams that have the same key: after every epoch those of the rows that are there then.

        Both streams may change, and both are kept for ever, or as ``forget_after`` says; for streams that only grow there are
        joins in windows and over intervals, too, which forget.

        Args:
            other: The right side.
            on: The key column(s), or a mapping from this stream's columns to the other's. Null equals nothing.
            how: ``inner``, or ``left``, ``right``, ``full`` to have rows without a partner come out with nulls, too. ``semi``
                hands on the left side's rows that have a partner, once each; ``anti`` those that have none.
            condition: Spark SQL over the columns of both sides that must hold for a pair, too.
            columns: Which further columns of both sides to hand on; by default all but the keys. It keeps no others.
            forget_after: Forget a key when the newest event time of the rows of both sides is further behind the watermark than
                this, as in ``"30 days"``. By default never.
            name: The operator's name; its state is addressed by it.
            chain: Whether it may share a stage with the operators before it.
            renamed_from: What the operator was called before: it goes on with that one's state. May stay.

        Returns:
            Changes; of an inner or semi join of streams whose rows stay a stream whose rows stay.

        Raises:
            PipelineError: There is no key, or no such join.
            SchemaError: A column is missing, or both sides have a column of one name; rename one.

        >>> from dagster_operators import MemorySource, Pipeline
        >>> pipeline = Pipeline("p", root="data")
        >>> orders = pipeline.source("orders", MemorySource([], schema="id long, item long, price int"))
        >>> items = pipeline.source("items", MemorySource([], schema="id long, name string, least int, version long"))
        >>> now = items.to_changes("id", order_by="version")
        >>> orders.join(now, on={"item": "id"}, condition="price >= least", columns=["price", "name"]).columns
        ('item', 'price', 'name')
        """
        settings: dict[str, Any] = {"how": how, "condition": condition, "columns": None if columns is None else tuple(columns)}
        if forget_after is not None and isinstance(other, BaseStream):
            types = [self._dataflow.type_of(stream._ref) for stream in (self, other)]  # noqa: SLF001
            micros = forget_after_of(forget_after, *types, pipeline=self._dataflow.name, operator=name or Join.kind)
            settings |= {"forget_after": micros, "event_times": tuple(one.event_time for one in types)}
        return self._join(Join, (self, other), name, chain=chain, renamed_from=renamed_from, **_keys(on), **settings)

    def join_as_of(
        self,
        other: Self,
        *,
        on: str | Sequence[str] | Mapping[str, str],
        how: HowAsOf = "left",
        corrections: bool = True,
        keep: str | timedelta | int | None = None,
        columns: Sequence[str] | None = None,
        name: str | None = None,
        chain: bool = True,
        renamed_from: str | None = None,
    ) -> Self:
        """Each row with the version that was in force at its event time: the other stream's newest row of its key up to then.

        Args:
            other: The versions, each from its event time on until the next one of its key: rows that stay, or changes. Of those
                of one time, the greater by all of its columns from left to right counts.
            on: The key column(s), or a mapping from this stream's columns to the other's. Null equals nothing.
            how: ``left`` hands on rows without a version, with nulls; ``inner`` does not.
            corrections: A row comes out at once, and is corrected when a version comes late or goes. With False it comes out
                once, when the watermark has passed it; versions that come after that are late.
            keep: Of corrections, for how long behind the watermark rows are corrected; what lies further back is late. By
                default all rows and versions are kept for ever.
            columns: Which further columns of both sides to hand on; by default all but the keys. Of the left side it keeps no
                others; versions are kept as a whole, as all of their columns say which one counts.
            name: The operator's name; its state is addressed by it.
            chain: Whether it may share a stage with the operators before it.
            renamed_from: What the operator was called before: it goes on with that one's state. May stay.

        Returns:
            Changes; with ``corrections=False`` a stream whose rows stay.

        Raises:
            PipelineError: There is no key, or ``keep`` is no duration.
            SchemaError: A stream has no event time, or both sides have a column of one name; rename one.

        >>> from dagster_operators import MemorySource, Pipeline
        >>> pipeline = Pipeline("p", root="data")
        >>> sold = MemorySource([], schema="currency string, at timestamp, price double")
        >>> rate = MemorySource([], schema="currency string, since timestamp, rate double")
        >>> orders = pipeline.source("orders", sold, event_time="at")
        >>> rates = pipeline.source("rates", rate, event_time="since", lateness="1 hour")
        >>> orders.join_as_of(rates, on="currency", keep="1 day", columns=["at", "price", "rate"]).columns
        ('currency', 'at', 'price', 'rate')
        """
        where = {"pipeline": self._dataflow.name, "operator": name or AsOfJoin.kind}
        if not isinstance(other, BaseStream):
            raise PipelineError(f"{other!r} is no stream", **where, remedy="give what source() or an operator gave")
        times = (self.event_time, other.event_time)
        if None in times:
            side, without = ("left", self) if times[0] is None else ("right", other)
            given = self._dataflow.type_of(without._ref)  # noqa: SLF001
            raise SchemaError(
                f"join_as_of needs an event time on both sides, and the {side} one has none", **where,
                remedy=_NO_VERSIONS if given.updating else given.timeless_remedy,
            )  # fmt: skip
        settings = {"event_times": times, "how": how, "corrections": corrections, "keep": _micros(keep, where)}
        more: dict[str, Any] = {**_keys(on), **settings, "columns": None if columns is None else tuple(columns)}
        return self._join(AsOfJoin, (self, other), name, chain=chain, renamed_from=renamed_from, **more)


def _keys(on: str | Sequence[str] | Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The key columns of both sides."""
    pairs = as_pairs(on) if isinstance(on, Mapping) else tuple((key, key) for key in ([on] if isinstance(on, str) else on))
    return {"keys": tuple(left for left, _ in pairs), "right_keys": tuple(right for _, right in pairs)}


def _micros(keep: str | timedelta | int | None, where: Mapping[str, str]) -> int | None:
    """A duration in microseconds."""
    if keep is None:
        return None
    try:
        require_unit(keep)
        found = parse_duration(keep)
    except ValueError as error:
        raise PipelineError(f"keep: {error}", **where, remedy="write it with its unit, as '1 hour'") from None
    if found < 0:
        raise PipelineError(f"keep is not less than nothing, as {keep!r} is", **where, remedy="write keep='1 day', say")
    return found
