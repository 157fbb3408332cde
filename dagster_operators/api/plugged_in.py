"""Fluent methods that other packages bring: looked up in the catalog when a stream has no method of that name."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from dagster_operators.api.elsewhere import elsewhere
from dagster_operators.catalog.catalog import near
from dagster_operators.catalog.loading import catalog


class PluggedIn:
    """A stream that has the fluent methods of installed packages beside its own.

    Type checkers do not know them: a package offers them as functions of the stream as well.
    """

    _receiver: ClassVar[str]
    """What the catalog calls streams of this kind."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            method = None if name.startswith("_") else catalog().method(self._receiver, name)
            if method is not None:
                return partial(method, self)
            meant = (
                ""
                if name.startswith("_")
                else elsewhere(self._receiver, name) or near(name, [own for own in dir(self) if not own.startswith("_")])
            )
            told = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(f"{told}; {meant}" if meant else told, name=name, obj=self)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *catalog().methods(self._receiver)})
