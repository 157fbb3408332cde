"""What is wrong in a file, as programs read it: an editor, a continuous integration."""

from __future__ import annotations

from typing import Any, Final

from dagster_operators.errors import OperatorsError

_PLACE: Final = ("file", "line", "character")


def diagnostics(error: OperatorsError, file: str) -> list[dict[str, Any]]:
    """Each error of a file with its line and column, which count from 1; without them where they are not known.

    Args:
        error: What reading the file raised; one that has several errors is not told itself.
        file: The file.

    >>> from dagster_operators.errors import QueryError, SchemaError
    >>> wrong = SchemaError("no column 'orgn'", file="f.yaml", line=7, character=5, column="orgn", remedy="use origin")
    >>> diagnostics(QueryError("two errors", errors=(wrong,)), "f.yaml")  # doctest: +NORMALIZE_WHITESPACE
    [{'file': 'f.yaml', 'line': 7, 'column': 5, 'message': "no column 'orgn'", 'remedy': 'use origin', 'error': 'SchemaError',
      'where': {'column': 'orgn'}}]
    """
    return [
        {
            "file": str(one.where.get("file", file)),
            "line": one.where.get("line"),
            "column": one.where.get("character"),
            "message": one.problem,
            "remedy": one.remedy,
            "error": type(one).__name__,
            "where": {name: value for name, value in one.where.items() if name not in _PLACE},
        }
        for one in error.where.get("errors", (error,))
    ]
