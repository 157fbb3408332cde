"""The fluent methods that take each row on its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from dagster_operators.api.base_stream import BaseStream
from dagster_operators.api.column_keywords import columns_and_more, is_one_of
from dagster_operators.errors import OperatorsError, PipelineError, SchemaError
from dagster_operators.graph.expressions import require_mapping, require_texts
from dagster_operators.operators.relational.filter import Filter
from dagster_operators.operators.relational.flat_map import FlatMap
from dagster_operators.operators.relational.map_async import MapAsync
from dagster_operators.operators.relational.projection import Drop, Rename, Select, WithColumns, as_pairs
from dagster_operators.operators.relational.transform import Transform
from dagster_operators.operators.relational.unnest import unnest_call
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class RowStream(BaseStream):
    """A stream's operators that make each row into a row, into several or into none, without a look at others."""

    def filter(self, condition: str, *, name: str | None = None, chain: bool = True) -> Self:
        """Keep the rows for which a Spark SQL condition is true (null counts as false).

        On an updating stream a row that no longer passes leaves the table.

        Args:
            condition: Over one row.
            name: The operator's name.
            chain: Whether it may share a stage with the operator before it.

        Raises:
            SchemaError: A column is missing, or the condition looks at other rows.

        >>> from dagster_operators import FileSource, Pipeline
        >>> flights = Pipeline("p", root="data").source("flights", FileSource("in", schema="origin string, delay int"))
        >>> flights.filter("delay > 15 AND origin = 'JFK'").columns
        ('origin', 'delay')
        """
        require_texts("condition", [condition], pipeline=self._dataflow.name, operator=name or Filter.kind)
        return self._add(Filter, name, chain=chain, condition=condition)

    def select(self, *expressions: str, name: str | None = None, chain: bool = True) -> Self:
        """Compute the output's columns.

        Args:
            expressions: Each a plain column, or ``"expression AS name"``; ``"*"`` stands for all columns.
            name: The operator's name.
            chain: Whether it may share a stage with the operator before it.

        Raises:
            SchemaError: A column is missing or has no name, a key of an updating stream is left out, or an expression looks at
                other rows than its own.

        >>> from dagster_operators import FileSource, Pipeline
        >>> flights = Pipeline("p", root="data").source("flights", FileSource("in", schema="origin string, delay int"))
        >>> flights.select("origin", "delay / 60 AS hours").columns
        ('origin', 'hours')
        >>> flights.select("*", "delay > 15 AS late").columns
        ('origin', 'delay', 'late')
        """
        require_texts("column", expressions, pipeline=self._dataflow.name, operator=name or Select.kind)
        expanded: list[str] = []
        for text in expressions:
            if text.strip() == "*":
                if self.columns is None:
                    raise SchemaError(
                        "'*' needs a stream whose columns are known",
                        pipeline=self._dataflow.name,
                        operator=self.name,
                        remedy="give the source a schema",
                    )
                expanded.extend(map(quoted, self.columns))
            else:
                expanded.append(text)
        return self._add(Select, name, chain=chain, expressions=tuple(expanded))

    def with_columns(
        self, expressions: Mapping[str, str] | None = None, /, *, name: str | None = None, chain: bool = True, **more: str
    ) -> Self:
        """Add columns or replace them; every expression sees the columns as they were before.

        Args:
            expressions: Column -> Spark SQL over one row, for names that are no Python words.
            name: The operator's name.
            chain: Whether it may share a stage with the operator before it.
            more: Column = Spark SQL over one row. A column called ``name`` stands in the mapping.

        Raises:
            PipelineError: ``name`` may be meant for a column of that name.
            SchemaError: A column is missing or given twice, a key of an updating stream would be replaced, or an expression
                looks at other rows than its own.

        >>> from dagster_operators import FileSource, Pipeline
        >>> flights = Pipeline("p", root="data").source("flights", FileSource("in", schema="origin string, delay int"))
        >>> flights.with_columns(delay="greatest(delay, 0)", hours="delay / 60").columns
        ('origin', 'delay', 'hours')
        """
        where = {"pipeline": self._dataflow.name, "operator": name or WithColumns.kind}
        require_mapping(expressions, **where)
        wanted = columns_and_more(
            expressions, more, name, "expressions", lambda given: is_one_of(self.columns, given),
            pipeline=self._dataflow.name, operator=WithColumns.kind,
        )  # fmt: skip
        require_texts("column", [part for pair in wanted.items() for part in pair], **where)
        return self._add(WithColumns, name, chain=chain, expressions=as_pairs(wanted))

    def rename(
        self, names: Mapping[str, str] | None = None, /, *, name: str | None = None, chain: bool = True, **more: str
    ) -> Self:
        """Give columns other names.

        Args:
            names: Old name -> new name, for names that are no Python words.
            name: The operator's name.
            chain: Whether it may share a stage with the operator before it.
            more: Old name = new name. A column called ``name`` stands in the mapping.

        Raises:
            PipelineError: ``name`` may be meant for a column of that name.
            SchemaError: A column is missing or renamed twice, or another one has the new name.

        >>> from dagster_operators import FileSource, Pipeline
        >>> flights = Pipeline("p", root="data").source("flights", FileSource("in", schema="origin string, delay int"))
        >>> flights.rename(origin="airport").rename({"delay": "minutes late"}).columns
        ('airport', 'minutes late')
        """
        where = {"pipeline": self._dataflow.name, "operator": name or Rename.kind}
        require_mapping(names, **where)
        wanted = columns_and_more(
            names, more, name, "names", lambda _: is_one_of(self.columns, "name"),
            pipeline=self._dataflow.name, operator=Rename.kind,
        )  # fmt: skip
        require_texts("column", [part for pair in wanted.items() for part in pair], **where)
        return self._add(Rename, name, chain=chain, names=as_pairs(wanted))

    def drop(self, *columns: str, name: str | None = None, chain: bool = True) -> Self:
        """Leave columns out.

        Args:
            columns: Their names.
            name: The operator's name.
            chain: Whether it may share a stage with the operator before it.

        Raises:
            SchemaError: A column is missing, is a key of an updating stream, or none would be left.

        >>> from dagster_operators import FileSource, Pipeline
        >>> flights = Pipeline("p", root="data").source("flights", FileSource("in", schema="origin string, delay int"))
        >>> flights.drop("delay").columns
        ('origin',)
        """
        require_texts("column", columns, pipeline=self._dataflow.name, operator=name or Drop.kind)
        return self._add(Drop, name, chain=chain, columns=columns)

    def flat_map(
        self, call: str | Callable[[DataFrame], DataFrame], *, outer: bool = False, name: str | None = None, chain: bool = True
    ) -> Self:
        """Put beside each row the rows that a function makes of it; each of those becomes a row of its own.

        Args:
            call: A table function of the user's own, ``"split_words(text)"``, its columns renamed by ``AS (word, n)``; or a
                generator of Spark's with names: ``"explode(xs) AS x"``, ``"posexplode(xs) AS (n, x)"``; or a function from
                DataFrame to DataFrame, as for :meth:`transform`.
            outer: Keep a row of which nothing was made, with nulls; else it is dropped.
            name: The operator's name.
            chain: Whether it may share a stage with the operator before it.

        Raises:
            SchemaError: The columns that are made have no names, or names that are taken.

        >>> from dagster_operators import FileSource, Pipeline
        >>> lines = Pipeline("p", root="data").source("lines", FileSource("in", schema="id long, text string"))
        >>> lines.flat_map("explode(split(text, ' ')) AS word").columns
        ('id', 'text', 'word')
        """
        if not isinstance(call, str):
            return self.transform(call, name=name or self._dataflow.fresh_name(FlatMap.label), chain=chain)
        return self._add(FlatMap, name, chain=chain, call=call, outer=outer)

    def unnest(
        self, what: str, *, position: str | None = None, outer: bool = False, name: str | None = None, chain: bool = True
    ) -> Self:
        """A row for each element of an array or entry of a map, beside the columns there are.

        Args:
            what: ``"items AS item"`` for an array, ``"prices AS (product, price)"`` for a map.
            position: A column for the element's place, from 0.
            outer: Keep a row whose array or map is empty or null, with nulls; else it is dropped.
            name: The operator's name.
            chain: Whether it may share a stage with the operator before it.

        Raises:
            SchemaError: The elements have no name, or one that is taken.

        >>> from dagster_operators import FileSource, Pipeline
        >>> orders = Pipeline("p", root="data").source("orders", FileSource("in", schema="id long, items array<string>"))
        >>> orders.unnest("items AS item", position="n").columns
        ('id', 'items', 'n', 'item')
        """
        named = name or self._dataflow.fresh_name("unnest")
        try:
            call = unnest_call(what, position)
        except OperatorsError as error:
            raise error.at(pipeline=self._dataflow.name, operator=named) from None
        return self._add(FlatMap, named, chain=chain, call=call, outer=outer)

    def map_async(self, call: str, *, name: str | None = None, chain: bool = True) -> Self:
        """Add a column with the answers of an asynchronous function.

        Where the function has ``ordered=False``, rows are handed on as they are answered, so that none waits for a slow one.

        Args:
            call: ``"geocode(address) AS place"``, for a function made with ``udf`` over an ``async def``.
            name: The operator's name.
            chain: Whether it may share a stage with the operator before it.

        Raises:
            SchemaError: This is no call of an asynchronous function, or there is a column of that name.

        >>> from dagster_operators import FileSource, Pipeline, udf
        >>> @udf("string", name="geocode_example")
        ... async def geocode(address):
        ...     return address.upper()
        >>> rows = Pipeline("p", root="data").source("rows", FileSource("in", schema="address string"))
        >>> rows.map_async("geocode_example(address) AS place").columns
        ('address', 'place')
        """
        return self._add(MapAsync, name, chain=chain, call=call)

    def transform(
        self,
        function: Callable[[DataFrame], DataFrame],
        *,
        columns: Sequence[str] | None = None,
        name: str | None = None,
        chain: bool = True,
    ) -> Self:
        """Apply a function from DataFrame to DataFrame, called while an epoch runs and never before.

        Args:
            function: Must treat every row on its own: it sees one epoch's rows at a time.
            columns: The names of the output's columns, if later operators are to be checked while the pipeline is built.
            name: The operator's name.
            chain: Whether it may share a stage with the operator before it.

        Raises:
            PipelineError: This is no function, or the stream is updating.

        >>> from dagster_operators import FileSource, Pipeline
        >>> flights = Pipeline("p", root="data").source("flights", FileSource("in", schema="origin string, delay int"))
        >>> flights.transform(lambda frame: frame.selectExpr("delay / 60 AS hours"), columns=["hours"]).columns
        ('hours',)
        """
        if not callable(function):
            raise PipelineError(
                f"{function!r} is no function",
                pipeline=self._dataflow.name,
                operator=name or Transform.kind,
                remedy="give transform a function from DataFrame to DataFrame; expressions go into select or with_columns",
            )
        return self._add(Transform, name, chain=chain, function=function, columns=None if columns is None else tuple(columns))
