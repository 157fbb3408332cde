"""Operators with an object of the user's. A plan that was read refers to it: it is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from typing_extensions import override

from dagster_operators.errors import located
from dagster_operators.functions.references import ObjectReference
from dagster_operators.graph.operator import LogicalOperator
from dagster_operators.graph.traits import Trait


class ByReference(LogicalOperator):
    """A logical operator a setting of which is an object of the user's, or a reference to one."""

    referred: ClassVar[str]
    """The setting."""

    def __post_init__(self) -> None:
        given = self.__dict__[self.referred]
        if isinstance(given, ObjectReference):
            object.__setattr__(self, "_reference", given)
            object.__delattr__(self, self.referred)
        else:
            self.check_given()

    def check_given(self) -> None:
        """See that the object fits, once it is there."""

    if not TYPE_CHECKING:  # type checkers are to know the attributes that there are

        def __getattr__(self, name: str) -> Any:
            if name != self.referred or "_reference" not in self.__dict__:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            with located(operator=self.name):
                object.__setattr__(self, name, self._reference.resolve())
            self.check_given()
            return self.__dict__[name]

    @property
    def is_given(self) -> bool:
        """Whether the object is there, and not merely a reference to it."""
        return self.referred in self.__dict__

    @property
    def reference(self) -> ObjectReference:
        """The object by its class and attributes."""
        reference: ObjectReference = self._refer(self.__dict__[self.referred]) if self.is_given else self.__dict__["_reference"]
        return reference

    def _refer(self, given: Any) -> ObjectReference:
        return ObjectReference.to(given)

    @property
    @override
    def traits(self) -> frozenset[Trait]:
        """What is known of it beside its settings; of a plan that was read without what the user's code says."""
        return super().traits if self.is_given else frozenset()

    @override
    def left_out(self) -> tuple[str, ...]:
        return () if self.is_given else self.reference.left_out

    @override
    def with_secrets(self, secrets: Mapping[str, Any]) -> Self:
        if not self.left_out():
            return self
        return replace(self, **{self.referred: self.reference.with_secrets(secrets)})  # type: ignore[arg-type]
