"""Files whose names are not UTF-8."""

from __future__ import annotations

import os

import pytest

from dagster_operators.errors import BadInputError
from dagster_operators.storage.location import FileLocation


def test_a_file_whose_name_is_not_utf_8_is_named_and_hinders_no_others(tmp_path):
    (tmp_path / "in" / "b").mkdir(parents=True)
    (tmp_path / "in" / "b" / "a.csv").write_text("id\n2\n")
    odd = os.fsencode(tmp_path / "in") + b"/x\xe9.csv"
    try:
        with open(odd, "wb") as file:  # noqa: PTH123 - of bytes
            file.write(b"id\n1\n")
    except OSError:
        pytest.skip("the file system takes UTF-8 alone")
    for path in ("in", "in/*", "in/**/*.csv"):
        with pytest.raises(BadInputError, match="not UTF-8") as refused:
            FileLocation(str(tmp_path / path)).find()
        assert refused.value.file == f"{tmp_path}/in/x\\xe9.csv"
    assert [file.path for file in FileLocation(str(tmp_path / "in/**/a*.csv")).find()] == ["b/a.csv"]
    os.rename(odd, tmp_path / "in" / "xé.csv")  # noqa: PTH104 - of bytes
    assert [file.path for file in FileLocation(str(tmp_path / "in")).find()] == ["in/b/a.csv", "in/xé.csv"]
