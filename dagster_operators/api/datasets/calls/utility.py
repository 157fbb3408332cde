"""Calls on data sets that are made of other calls (Flink's DataSetUtils)."""

from __future__ import annotations

from typing import Self

from dagster_operators.api.datasets.leaving import Leaving
from dagster_operators.api.datasets.numbering import count_elements, zip_with_index, zip_with_unique_id
from dagster_operators.api.datasets.sampling import sample, sample_with_size
from dagster_operators.api.datasets.summaries import checksum, summarize


class UtilityCalls(Leaving):
    """A bag of rows that may be numbered, sampled and summarized."""

    def zip_with_index(self) -> Self:
        """Each row behind a number: 0, 1, 2 and so on, each once.

        >>> from dagster_operators.api.datasets.local_program import LocalProgram
        >>> program = LocalProgram()
        >>> program.collect(program.rows(["a", "b"]).zip_with_index())
        [(0, 'a'), (1, 'b')]
        """
        return zip_with_index(self)

    def zip_with_unique_id(self) -> Self:
        """Each row behind a number that no other row has; rows are read once.

        >>> from dagster_operators.api.datasets.local_program import LocalProgram
        >>> program = LocalProgram(2)
        >>> sorted(program.collect(program.rows(["a", "b"]).rebalance().zip_with_unique_id()))
        [(0, 'a'), (1, 'b')]
        """
        return zip_with_unique_id(self)

    def count_elements_per_partition(self) -> Self:
        """The number of rows of each part, behind the part's number.

        >>> from dagster_operators.api.datasets.local_program import LocalProgram
        >>> program = LocalProgram(2)
        >>> sorted(program.collect(program.rows(["a", "b", "c"]).rebalance().count_elements_per_partition()))
        [(0, 2), (1, 1)]
        """
        return count_elements(self)

    def sample(self, fraction: float, *, with_replacement: bool = False, seed: int = 0) -> Self:
        """Each row with a probability, independently of the others.

        Args:
            fraction: The probability; with replacement, how often a row comes on average.
            with_replacement: Whether a row may come several times.
            seed: The start of the random numbers. The same seed gives the same rows of the same parts.

        Raises:
            PipelineError: The fraction is negative, or more than one without replacement.

        >>> from dagster_operators.api.datasets.local_program import LocalProgram
        >>> program = LocalProgram()
        >>> program.collect(program.rows(range(10)).sample(0.3, seed=7))
        [1, 3, 4, 7, 8]
        """
        return sample(self, fraction, seed, with_replacement=with_replacement)

    def sample_with_size(self, size: int, *, with_replacement: bool = False, seed: int = 0) -> Self:
        """So many rows, each as likely as any other; all rows where there are fewer. Rows are counted before.

        Args:
            size: The number of rows.
            with_replacement: Whether a row may come several times.
            seed: The start of the random numbers. The same seed gives the same rows of the same parts.

        Raises:
            PipelineError: The number is negative.

        >>> from dagster_operators.api.datasets.local_program import LocalProgram
        >>> program = LocalProgram()
        >>> program.collect(program.rows(range(10)).sample_with_size(3, seed=7))
        [2, 5, 6]
        """
        return sample_with_size(self, size, seed, with_replacement=with_replacement)

    def summarize(self) -> Self:
        """A row with a summary of each field: counts, extremes, sum, mean, variance, and lengths of texts.

        >>> from dagster_operators.api.datasets.local_program import LocalProgram
        >>> program = LocalProgram()
        >>> (row,) = program.collect(program.rows([("a", 1), ("bcd", 2), (None, 6)], "k", "v").summarize())
        >>> row.v.total, row.v.minimum, row.v.sum, row.v.mean, row.k.nulls, row.k.longest
        (3, 1, 9, 3.0, 1, 3)
        """
        return summarize(self)

    def checksum(self) -> Self:
        """A row with the number of rows and a sum of their hashes: bags of equal rows have equal ones, in any order.

        >>> from dagster_operators.api.datasets.local_program import LocalProgram
        >>> program = LocalProgram(2)
        >>> rows, turned = program.rows(["a", "b"]).rebalance(), program.rows(["b", "a"])
        >>> program.collect(rows.checksum()) == program.collect(turned.checksum())
        True
        """
        return checksum(self)
