"""Columns of a source's schema that a file does not have: refused, or null in all rows of the file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Literal

from dagster_operators.errors import BadInputError, PipelineError

if TYPE_CHECKING:
    from dagster_operators.types.data_type import DataType as SparkType

MissingColumns = Literal["fail", "null"]

_NAMED: Final = 20
"""So many columns an error names."""


def check_missing_columns(given: str, kind: str | None, *, has_header: bool) -> None:
    """Refuse a setting that is none, or has no effect on files of the format.

    Raises:
        PipelineError: It is such.
    """
    if given not in {"fail", "null"}:
        raise PipelineError(f'missing_columns is "fail" or "null", not {given!r}', remedy="choose one of them")
    if given == "fail":
        return
    if kind in {"json", "debezium-json"}:
        raise PipelineError(
            "missing_columns is for Parquet and CSV: in JSON a column that is not there is null", remedy="leave it out"
        )
    if kind == "csv" and not has_header:
        raise PipelineError(
            "missing_columns is for CSV files with a header: without one nothing says which columns are missing",
            remedy="leave it out, or write files with a header",
        )


def require_columns(
    wanted: Iterable[str], found: Collection[str], missing: MissingColumns, *, where: str, file: str, otherwise: str
) -> None:
    """Refuse a file without columns of the schema, unless these are to be null.

    Args:
        wanted: The columns of the schema, written as ``found`` would have them.
        found: The columns of the file.
        missing: What happens to a file without some of them.
        where: What part of the file has the names, as errors call it.
        file: The file, as errors name it.
        otherwise: What helps besides the setting.

    Raises:
        BadInputError: A column is not in the file, all are not, or one is there in another case.

    >>> require_columns(["a", "b"], ["a"], "null", where="file", file="x.parquet", otherwise="")
    """
    names = list(wanted)
    lacking = [name for name in names if name not in found]
    alike = {name.lower(): name for name in found}
    others = f", {len(found) - _NAMED} others" if len(found) > _NAMED else ""
    there = ", ".join(sorted(found)[:_NAMED]) + others
    for name in lacking:
        if missing == "null" and name.lower() in alike:
            raise BadInputError(
                f"a column is called {alike[name.lower()]!r} in the {where} and otherwise in the schema, but for case",
                file=file, column=name, remedy="write it in the schema as in the file",
            )  # fmt: skip
        if missing == "fail":
            raise BadInputError(
                f"a column of the schema is not in the {where}, which has {there}", file=file, column=name,
                remedy=f"{otherwise}; or have such columns null: FileSource with missing_columns='null'",
            )  # fmt: skip
    if names and len(lacking) == len(names):
        raise BadInputError(
            f"no column of the schema is in the {where}, which has {there}", file=file,
            remedy="correct the schema, or the path of the source",
        )  # fmt: skip


def refuse_void(columns: Mapping[str, SparkType], file: str) -> None:
    """Refuse columns of the type ``void``: no text is a value of it, and engines name no column when they find that out.

    Raises:
        BadInputError: There is one.

    >>> from dagster_operators.types.schema import Schema
    >>> refuse_void({"v": Schema.from_ddl("v array<void>").types["v"]}, "in/*.csv")
    Traceback (most recent call last):
    dagster_operators.errors.BadInputError: a column of the schema is array<void>, which has no values in text [...]. To do: ...
    """
    for column, kind in columns.items():
        if re.search(r"\bvoid\b", kind.sql.lower()):
            raise BadInputError(
                f"a column of the schema is {kind.sql.lower()}, which has no values in text", file=file, column=column,
                remedy="give it the type that its values have, or leave it out of the schema",
            )  # fmt: skip
