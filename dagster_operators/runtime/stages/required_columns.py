"""Columns and nested fields that a source declares NOT NULL: a row without such a value fails the epoch, or is rejected.

Engines differ: of text they pass a null on, and of Parquet one of them fails without a word of the source.
So they are told of such columns as of any others (``Connector.planned_schema``), and the rows are looked at here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dagster_operators.connectors.connector import UNKNOWN, Connector
from dagster_operators.connectors.rejects import lacks_value, split_missing
from dagster_operators.connectors.required_places import RequiredPlace
from dagster_operators.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import DataFrame

    from dagster_operators.runtime.stages.observed import Observed

_FIGURE: Final = "null in place "


class RequiredColumns:
    """The required columns of the sources that an attempt at a stage reads.

    Args:
        observed: Takes figures along with the rows.
    """

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._watched: dict[str, tuple[dict[str, str], Sequence[RequiredPlace]]] = {}

    def of_source(self, source: str, connector: Connector, items: Any, rows: DataFrame, *, beside: Collection[str]) -> DataFrame:
        """The same rows of a source, with what is to be counted in them: nothing where the connector knows the nulls.

        Args:
            source: The source.
            connector: What has read the rows.
            items: What they are.
            rows: The rows.
            beside: Columns that are looked at elsewhere.

        Raises:
            BadInputError: The connector knows that a value is missing.
        """
        unknown = []
        for place in _required(connector, rows.columns, beside):
            nulls = UNKNOWN if place.is_nested else connector.null_count(items, place.column)
            if nulls is UNKNOWN:
                unknown.append(place)
            else:
                _require_none(place, nulls, source=source)
        return self._counted("source", source, rows, unknown)

    def of_lookup(self, operator: str, connector: Connector, rows: DataFrame) -> DataFrame:
        """The same rows of a lookup table, with what is to be counted in them."""
        return self._counted("operator", operator, rows, _required(connector, rows.columns, ()))

    def _counted(self, what: str, name: str, rows: DataFrame, places: Sequence[RequiredPlace]) -> DataFrame:
        if not places:
            return rows
        lacking = [lacks_value(place, rows.columns) for place in places]
        figures = {f"{_FIGURE}{number}": f"count_if({condition})" for number, condition in enumerate(lacking)}
        self._watched[watched := f"required {name}"] = {what: name}, places
        return self._observed.watch(watched, rows, figures)

    def check(self) -> None:
        """Look at all figures, after the queries that bring them along.

        Raises:
            BadInputError: A row has no value.
        """
        for watched, (where, places) in self._watched.items():
            nulls = self._observed.values(watched)
            for number, place in enumerate(places):
                _require_none(place, int(nulls[f"{_FIGURE}{number}"] or 0), **where)


def split_required(connector: Connector, rows: DataFrame, *, beside: Collection[str]) -> tuple[DataFrame, list[DataFrame]]:
    """The rows of a source that have all values that it requires, and the others as rejects."""
    rejected = []
    for place in _required(connector, rows.columns, beside):
        rows, missing = split_missing(rows, place)
        rejected.append(missing)
    return rows, rejected


def _required(connector: Connector, columns: Collection[str], beside: Collection[str]) -> list[RequiredPlace]:
    there = {name.lower() for name in columns} - {name.lower() for name in beside}
    return [place for place in connector.required if place.column.lower() in there]


def _require_none(place: RequiredPlace, nulls: int, **where: Any) -> None:
    if nulls:
        part = "a field" if place.is_nested else "a column"
        aside = 'or set such rows aside: a FileSource with corrupt="reject" does; ' if "source" in where else ""
        raise BadInputError(
            f"{nulls} rows have no value in {part} that is declared NOT NULL", column=place.path, **where,
            remedy=f"correct the input; {aside}or leave NOT NULL out of the schema",
        )  # fmt: skip
