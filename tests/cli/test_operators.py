"""``dagster-operators operators``: the catalog, told."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from dagster_operators.catalog.loading import catalog
from dagster_operators.cli.main import main

REPOSITORY = Path(__file__).parents[2]


def run(*arguments):
    return CliRunner().invoke(main, ["operators", *arguments])


def test_all_are_listed_with_methods_that_there_are_and_pages_that_there_are():
    found = json.loads(run("--json").output)
    assert [one["kind"] for one in found] == sorted(one.kind for one in catalog().registrations)
    for one in found:
        assert (REPOSITORY / one["docs"]).is_file(), one
        assert one["summary"]
        for method in one["methods"]:
            assert catalog().method(*method.split(".")) is not None


def test_one_is_told_in_two_lines():
    lines = run("filter").output.splitlines()
    assert lines[0].startswith("filter (dagster_operators")
    assert lines[1] == "  stream.filter; docs/operators.md"


def test_the_table_has_a_line_for_each():
    lines = run("--markdown", "--package", "dagster_operators").output.splitlines()
    assert len(lines) == len(catalog().registrations) + 2
    assert all(line.replace(r"\|", "").count("|") == 5 for line in lines)


def test_what_there_is_not_is_told_with_what_may_be_meant():
    done = run("filtr")
    assert (done.exit_code, "did you mean 'filter'?" in done.output) == (1, True)
    done = run("--package", "other")
    assert (done.exit_code, "these do: dagster_operators" in done.output) == (1, True)
