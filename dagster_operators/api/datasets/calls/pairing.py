"""Calls that bring the rows of two data sets together."""

from __future__ import annotations

from typing import Self

from dagster_operators.api.datasets.calls.placing import PlacingCalls
from dagster_operators.api.datasets.co_grouping import CoGrouping
from dagster_operators.api.datasets.joining import Crossing, Joining
from dagster_operators.api.datasets.operations.row_wise import United
from dagster_operators.errors import PipelineError
from dagster_operators.optimizer.binary_descriptors import JoinHint, JoinType, joins


class PairingCalls(PlacingCalls):
    """A bag of rows that may be joined, co-grouped and crossed with another one."""

    def union(self, other: Self) -> Self:
        """The rows of both; equal ones stay several.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([1, 2])
        >>> program.collect(rows.union(rows))
        [1, 2, 1, 2]
        """
        return self.derive(United(), other, fields=self.fields)

    def join(self, other: Self, hint: JoinHint | str = JoinHint.OPTIMIZER_CHOOSES) -> Joining[Self]:
        """Pairs of rows with equal keys: ``.where(...).equal_to(...).with_function(...)``.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1), ("b", 2)], "k", "v")
        >>> program.collect(rows.join(rows).where("k").equal_to("k").project_first("k").project_second("v").data_set())
        [Row(k='a', v=1), Row(k='b', v=2)]
        """
        return self._joining(other, JoinType.INNER, hint)

    def join_with_tiny(self, other: Self) -> Joining[Self]:
        """A join with a small data set, which is copied to all parts.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1)], "k", "v")
        >>> program.collect(rows.join_with_tiny(rows.first(1)).where("k").equal_to("k").pairs())
        [(Row(k='a', v=1), Row(k='a', v=1))]
        """
        return self._joining(other, JoinType.INNER, JoinHint.BROADCAST_HASH_SECOND)

    def join_with_huge(self, other: Self) -> Joining[Self]:
        """A join with a large data set: this data set is copied to all parts.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1)], "k", "v")
        >>> program.collect(rows.first(1).join_with_huge(rows).where("k").equal_to("k").pairs())
        [(Row(k='a', v=1), Row(k='a', v=1))]
        """
        return self._joining(other, JoinType.INNER, JoinHint.BROADCAST_HASH_FIRST)

    def left_outer_join(self, other: Self, hint: JoinHint | str = JoinHint.OPTIMIZER_CHOOSES) -> Joining[Self]:
        """A join that keeps rows of this data set without a partner: the function gets None for it.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1), ("b", 2)], "k", "v")
        >>> program.collect(rows.left_outer_join(rows.first(1)).where("k").equal_to("k").with_function(lambda _, second: second))
        [Row(k='a', v=1), None]
        """
        return self._joining(other, JoinType.LEFT, hint)

    def right_outer_join(self, other: Self, hint: JoinHint | str = JoinHint.OPTIMIZER_CHOOSES) -> Joining[Self]:
        """A join that keeps rows of the other data set without a partner.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1), ("b", 2)], "k", "v")
        >>> program.collect(rows.first(1).right_outer_join(rows).where("k").equal_to("k").with_function(lambda first, _: first))
        [Row(k='a', v=1), None]
        """
        return self._joining(other, JoinType.RIGHT, hint)

    def full_outer_join(self, other: Self, hint: JoinHint | str = JoinHint.OPTIMIZER_CHOOSES) -> Joining[Self]:
        """A join that keeps rows of both data sets without a partner.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1)], "k", "v")
        >>> others = program.rows([("b", 2)], "k", "v")
        >>> result = rows.full_outer_join(others).where("k").equal_to("k").with_function(lambda first, second: (first, second))
        >>> program.collect(result)
        [(Row(k='a', v=1), None), (None, Row(k='b', v=2))]
        """
        return self._joining(other, JoinType.FULL, hint)

    def _joining(self, other: Self, kind: JoinType, hint: JoinHint | str) -> Joining[Self]:
        names = [known.value for known in JoinHint]
        if (hint.value if isinstance(hint, JoinHint) else hint) not in names:
            raise PipelineError(f"there is no join hint {hint!r}", remedy=f"use one of: {', '.join(names)}")
        joins(kind, (0,), (0,), JoinHint(hint))  # a hint that the join cannot follow is refused here, where it is written
        return Joining(self, other, kind, JoinHint(hint))

    def co_group(self, other: Self) -> CoGrouping[Self]:
        """The results of a function of the rows of a key of both: ``.where(...).equal_to(...).with_function(...)``.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1), ("a", 2)], "k", "v")
        >>> result = rows.co_group(rows).where("k").equal_to("k").with_function(lambda first, second: [len([*first, *second])])
        >>> program.collect(result)
        [4]
        """
        return CoGrouping(self, other)

    def cross(self, other: Self) -> Crossing[Self]:
        """All pairs.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([1, 2])
        >>> program.collect(rows.cross(rows).with_function(lambda first, second: first * second))
        [1, 2, 2, 4]
        """
        return Crossing(self, other)

    def cross_with_tiny(self, other: Self) -> Crossing[Self]:
        """All pairs with a small data set, which is copied to all parts.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([1, 2])
        >>> program.collect(rows.cross_with_tiny(rows.first(1)).pairs())
        [(1, 1), (2, 1)]
        """
        return Crossing(self, other, second_is_small=True)

    def cross_with_huge(self, other: Self) -> Crossing[Self]:
        """All pairs with a large data set: this one is copied to all parts.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([1, 2])
        >>> program.collect(rows.first(1).cross_with_huge(rows).pairs())
        [(1, 1), (1, 2)]
        """
        return Crossing(self, other, first_is_small=True)
