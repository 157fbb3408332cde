"""The catalog as people and programs read it: every kind of operator with its methods, its page and its package."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from dagster_operators.catalog.catalog import Catalog, near
from dagster_operators.catalog.registration import Registration
from dagster_operators.errors import PipelineError


@dataclass(frozen=True)
class Listed:
    """A kind of operator as it is told.

    Attributes:
        kind: Its kind.
        package: The distribution that brings it.
        version: The version that is installed.
        summary: What it does, in one line.
        methods: Its fluent methods, as ``stream.filter``.
        docs: Where it is explained.

    >>> print(Listed("limit", "some-package", "1.0", "Hands on a few rows.", ("stream.limit",), "docs/limit.md"))
    limit (some-package 1.0): Hands on a few rows.
      stream.limit; docs/limit.md
    """

    kind: str
    package: str
    version: str
    summary: str
    methods: tuple[str, ...]
    docs: str

    def __str__(self) -> str:
        more = "; ".join(filter(None, (", ".join(self.methods), self.docs)))
        told = f"{self.kind} ({f'{self.package} {self.version}'.strip()}): {self.summary}"
        return f"{told}\n  {more}" if more else told

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values.

        >>> Listed("a", "p", "", "Does.", (), "").to_json()["methods"]
        []
        """
        return {**asdict(self), "methods": list(self.methods)}


def listed(catalog: Catalog, *, kind: str | None = None, package: str | None = None) -> list[Listed]:
    """The kinds of operators, those of installed packages too, in the order of their names.

    Args:
        catalog: What there is.
        kind: The only kind that is wanted.
        package: The only package that is wanted.

    Raises:
        PipelineError: There is no such kind or package.
    """
    found = {one.kind: one for one in catalog.registrations}
    packages = sorted({one.package for one in found.values()})
    if kind is not None and kind not in found:
        raise PipelineError(
            f"there is no operator of the kind {kind!r}", kind=kind, remedy=near(kind, found) or "see all of them"
        )
    if package is not None and package not in packages:
        raise PipelineError(
            f"the package {package!r} brings no operators", package=package, remedy=f"these do: {', '.join(packages)}"
        )
    wanted = (one for one in found.values() if kind in (None, one.kind) and package in (None, one.package))
    return [_listed(one) for one in sorted(wanted, key=lambda one: one.kind)]


def _listed(registration: Registration) -> Listed:
    methods = tuple(f"{receiver}.{name}" for receiver, named in registration.methods.items() for name in named)
    return Listed(
        registration.kind,
        registration.package,
        version_of(registration.package),
        registration.summary,
        methods,
        registration.docs,
    )


@cache
def version_of(package: str) -> str:
    """The version of a package that is installed; empty if it is not. Looked up once: a process runs what it began with.

    >>> version_of("no-such-package-here")
    ''
    """
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def as_markdown(operators: Iterable[Listed]) -> str:
    r"""A page with a table of operators.

    >>> print(as_markdown([Listed("limit", "p", "1.0", "Hands on a | b.", ("stream.limit",), "docs/limit.md")]))
    | operator | methods | what it does | package |
    |---|---|---|---|
    | [`limit`](docs/limit.md) | `stream.limit` | Hands on a \| b. | p 1.0 |
    """
    lines = ["| operator | methods | what it does | package |", "|---|---|---|---|"]
    for one in operators:
        name = f"[`{one.kind}`]({one.docs})" if one.docs else f"`{one.kind}`"
        cells = (name, ", ".join(f"`{method}`" for method in one.methods), one.summary, f"{one.package} {one.version}".strip())
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", r"\|")
