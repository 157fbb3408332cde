"""The site that ``make docs`` builds: every page is in its navigation, and every public name in its reference."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import dagster_operators

REPOSITORY = Path(__file__).parents[1]
DOCS = REPOSITORY / "docs"
SITE = tomllib.loads((REPOSITORY / "zensical.toml").read_text(encoding="utf-8"))["project"]
REFERENCE = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
MODULES = {"dagster_operators.api.frontier", "dagster_operators.errors"}
"""What the reference shows as a whole."""


def pages(nav: list[dict[str, Any]]) -> Iterator[str]:
    for entry in nav:
        for what in entry.values():
            if isinstance(what, str):
                yield what
            else:
                yield from pages(what)


def test_every_page_is_in_the_navigation_once() -> None:
    listed, there = sorted(pages(SITE["nav"])), sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
    assert set(there) - set(listed) == set(), "give these pages a place in zensical.toml"
    assert listed == there


def documented() -> list[str]:
    return re.findall(r"^::: (\S+)$", REFERENCE, re.MULTILINE)


def test_every_public_name_is_in_the_reference_once() -> None:
    homes = {name: f"dagster_operators.{home}.{name}" for name, home in dagster_operators._HOME.items()}
    asked = documented()
    assert sorted(set(homes.values()) - set(asked)) == []
    assert set(asked) >= MODULES
    assert len(asked) == len(set(asked))


def test_what_the_reference_names_is_there() -> None:
    for name in documented():
        module, _, last = name.rpartition(".")
        found = import_module(name) if name in MODULES else getattr(import_module(module), last)
        assert found.__doc__, name


def test_the_version_of_the_generator_is_the_one_of_the_lock() -> None:
    groups = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    locked = (REPOSITORY / "requirements-docs.lock").read_text(encoding="utf-8")
    assert next(wanted for wanted in groups["docs"] if wanted.startswith("zensical")) + " \\" in locked.splitlines()
