"""The way of a stream's rows into data sets: Flink's way of writing operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster_operators.api.base_stream import BaseStream

if TYPE_CHECKING:
    from dagster_operators.api.datasets.data_set import DataSet


class DataSetStream(BaseStream):
    """A stream whose rows may become a data set."""

    def data_set(self) -> DataSet:
        """The bag of the stream's rows of an epoch, with the calls of Flink's DataSet API.

        Rows are tuples that have their columns as attributes, too: ``row.k``, ``row[0]``.

        >>> from dagster_operators import FileSource, Pipeline
        >>> rows = Pipeline("p", root="data").source("rows", FileSource("in", schema="k string, v long"))
        >>> rows.data_set().filter(lambda row: row.v > 0).fields
        ('k', 'v')
        """
        from dagster_operators.api.datasets.data_set import DataSet
        from dagster_operators.api.datasets.stream_input import StreamInput

        return DataSet(StreamInput(self._ref, self), (), self._type.columns)
