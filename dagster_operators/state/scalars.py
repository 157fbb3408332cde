"""One value of one key: state read and written without tables, for operators that need a number and not rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from dagster_operators.state.table_part import TablePart


class Scalars:
    """A handle on a state table of a row per key, whose values are read and written one at a time.

    >>> from dagster_operators import KeyedState
    >>> from dagster_operators.state.store import StateStore
    >>> totals = StateStore({"totals": KeyedState("k string, total long", key="k")})["totals"]
    >>> totals.get_value("a"), totals.put_value("a", 3), totals.get_value("a")
    (None, None, 3)
    """

    _part: TablePart

    def get(self, keys: Any) -> pa.Table:
        """The row of each key."""
        raise NotImplementedError

    def put(self, rows: Any) -> None:
        """Store rows, each in place of that of its key."""
        raise NotImplementedError

    def get_value(self, key: Any, column: str | None = None) -> Any:
        """The value of a key, None if the key has no row. A table is read faster whole: ``get(keys)``.

        Args:
            key: The key; of several columns a tuple of their values, in the order of the state's schema.
            column: The column of the value, where the state has several.

        Raises:
            SchemaError: The state has no such key or column.
        """
        return self.get(self._key(key))[self._column(column)][0].as_py()

    def put_value(self, key: Any, value: Any, column: str | None = None) -> None:
        """Store the value of a key; the row's other values stay.

        Args:
            key: The key; of several columns a tuple of their values, in the order of the state's schema.
            value: The value.
            column: The column of the value, where the state has several.

        Raises:
            SchemaError: The state has no such key or column, or the value does not fit it.
        """
        named = self._column(column)
        row = self.get(self._key(key))
        self.put(row.set_column(row.schema.get_field_index(named), named, self._array(named, value)))

    def _key(self, key: Any) -> pa.Table:
        names = self._part.key
        values = key if isinstance(key, tuple) else (key,)
        if len(values) != len(names):
            raise self._part.error(
                f"a key of {len(values)} values where the state's key has {len(names)}", None,
                f"give a tuple of: {', '.join(names)}" if len(names) > 1 else f"give the value of {names[0]}",
            )  # fmt: skip
        return pa.table([self._array(name, value) for name, value in zip(names, values, strict=True)], names=list(names))

    def _column(self, column: str | None) -> str:
        values = self._part.values
        named = values[0] if column is None and len(values) == 1 else column
        if named is None or named not in values:
            told = "the state has several values of a key" if named is None else f"the state has no value {named!r}"
            raise self._part.error(told, named, f"name one: column={' or '.join(map(repr, values)) or 'none'}")
        return named

    def _array(self, name: str, value: Any) -> pa.Array:
        kind = self._part.schema.field(name).type
        try:
            return pa.array([value.as_py() if isinstance(value, pa.Scalar) else value], kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise self._part.error(f"{value!r} is no {kind}: {error}", name, "give a value of the column's type") from error
