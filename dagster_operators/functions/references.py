"""What is the user's own in Python, as a plan refers to it: by its place and its content, never by its code.

A reference is imported when it is resolved and not before, so a plan can be read, shown and compared where the code is not
installed. What is found must have the digest that was written down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from dagster_operators.errors import PlanError
from dagster_operators.functions.content import digest_of
from dagster_operators.functions.secrets import holds_secret
from dagster_operators.graph.python_place import found_at
from dagster_operators.graph.user_functions import UserFunction
from dagster_operators.graph.values import Fields, check_fields

_OWN: Final = "dagster_operators"
"""This package, whose code is another in each version: what refers to it goes by its place alone, and plans stay readable."""

IN_PYTHON: Final = "call in Python: pipeline.rebuild()"
"""The way for a program that no command finds; a command puts the call there that does what it was to do."""

IN_PROGRAM: Final = (
    "it is in a program that was run as a script: put it into a module, and write the plan again with to_plan(); "
    f"or, in that program, {IN_PYTHON}"
)
"""What to do about something of ``__main__``, which is another program's by now."""


@dataclass(frozen=True)
class Reference:
    """A function or class, by where it is defined and what it does. Calling the reference calls what it refers to.

    Attributes:
        module: The module that defines it.
        qualname: Its name there.
        digest: Changes when what it does may have changed; empty for what is this package's own.

    >>> from textwrap import dedent
    >>> str(Reference.to(dedent)), Reference.to(dedent).resolve() is dedent
    ('textwrap:dedent', True)
    >>> Reference.to(digest_of).digest, len(Reference.to(dedent).digest)
    ('', 16)
    """

    kind: ClassVar[str] = "reference"
    module: str
    qualname: str
    digest: str

    @classmethod
    def to(cls, thing: Any) -> Reference:
        """The reference to a function, a class, a function made with ``udf``, or another callable; a reference stays itself."""
        if isinstance(thing, Reference):
            return thing
        named = thing
        if isinstance(thing, UserFunction):
            named = getattr(thing, "function", None) or getattr(thing, "definition", thing)
        module = getattr(named, "__module__", None) or type(named).__module__
        qualname = getattr(named, "__qualname__", None) or f"{type(named).__qualname__}.<instance>"
        if isinstance(thing, UserFunction):
            return cls(module, qualname, thing.digest)
        return cls(module, qualname, "" if _is_own(module) else digest_of(thing))

    def __str__(self) -> str:
        return f"{self.module}:{self.qualname}"

    def encode(self) -> Fields:
        """Its place and digest."""
        return {"module": self.module, "qualname": self.qualname, "digest": self.digest}

    @classmethod
    def decode(cls, fields: Fields) -> Reference:
        """The reference that was encoded."""
        check_fields("a reference", fields, dict.fromkeys(("module", "qualname", "digest"), True))
        return cls(**fields)

    def resolve(self) -> Any:
        """What it refers to, imported now.

        Raises:
            PlanError: It cannot be imported, or is not what it was.
        """
        if "<" in self.qualname:
            raise PlanError(
                f"{str(self)!r} has no name of its own in its module, so it cannot be found again", function=str(self),
                remedy="define it at the top level of a module, and write the plan again",
            )  # fmt: skip
        try:
            found = found_at(self.module, self.qualname)
        except (ImportError, AttributeError) as error:
            raise PlanError(
                f"{str(self)!r} cannot be imported: {error}", function=str(self),
                remedy=IN_PROGRAM if self.module == "__main__" else
                f"install what has the module {self.module!r}, in the version that the plan was written with",
            ) from error  # fmt: skip
        digest = Reference.to(found).digest
        if digest != self.digest and not _is_own(self.module):
            raise PlanError(
                f"{str(self)!r} is not what it was when the plan was written: its content is {digest}, and was {self.digest}",
                function=str(self), remedy="go back to the code of that time, or write the plan again with to_plan()",
            )  # fmt: skip
        return found

    def __call__(self, *arguments: Any, **more: Any) -> Any:
        """Resolve and call it."""
        return self.resolve()(*arguments, **more)


def _is_own(module: str) -> bool:
    return module.partition(".")[0] == _OWN


def resolved(thing: Any) -> Any:
    """What a reference refers to; anything else stays itself."""
    return thing.resolve() if isinstance(thing, Reference | ObjectReference) else thing


@dataclass(frozen=True)
class ObjectReference:
    """An object, by its class and its attributes, but for secrets, which must be given again.

    Attributes:
        type: Its class.
        attributes: Pairs of (name, value), sorted; values are those of ``captured.py``.
        left_out: The attributes that hold secrets.
    """

    kind: ClassVar[str] = "object"
    type: Reference
    attributes: tuple[tuple[str, Any], ...]
    left_out: tuple[str, ...] = ()

    @classmethod
    def to(cls, thing: Any, without: tuple[str, ...] = ()) -> ObjectReference:
        """The reference to an object; a reference stays itself.

        Args:
            thing: The object; a class attribute ``secrets`` names attributes that are left out.
            without: Attributes that do not matter.
        """
        from dagster_operators.functions.captured import capture

        if isinstance(thing, ObjectReference):
            return thing
        found = {name: value for name, value in vars(thing).items() if name not in without}
        secrets = tuple(getattr(type(thing), "secrets", ()))
        hidden = tuple(sorted(name for name, value in found.items() if name in secrets or holds_secret(name, value)))
        kept = tuple((name, capture(value, (id(thing),))) for name, value in sorted(found.items()) if name not in hidden)
        return cls(Reference.to(type(thing)), kept, hidden)

    def __str__(self) -> str:
        return f"{self.type}({', '.join(f'{name}={value}' for name, value in self.attributes)})"

    def encode(self) -> Fields:
        """Its class, attributes, and the names of what is left out."""
        from dagster_operators.functions.captured_values import Secret

        given = {name for name, value in self.attributes if isinstance(value, Secret)}
        kept = tuple((name, value) for name, value in self.attributes if name not in given)
        return {"type": self.type, "attributes": kept, "left_out": tuple(sorted({*self.left_out, *given}))}

    @classmethod
    def decode(cls, fields: Fields) -> ObjectReference:
        """The reference that was encoded."""
        check_fields("an object", fields, {"type": True, "attributes": True, "left_out": False})
        return cls(**fields)

    def with_secrets(self, secrets: Mapping[str, Any]) -> ObjectReference:
        """The same with secrets that were left out."""
        from dagster_operators.functions.captured_values import Secret

        found = {name: Secret(value) for name, value in secrets.items() if name in self.left_out}
        rest = tuple(name for name in self.left_out if name not in found)
        return ObjectReference(self.type, (*self.attributes, *found.items()), rest)

    def resolve(self) -> Any:
        """A new object of the class with these attributes; its ``__init__`` is not called.

        Raises:
            PlanError: The class is not to be had, an attribute is none that plans hold, or a secret is missing.
        """
        from dagster_operators.functions.captured import restore

        if self.left_out:
            raise PlanError(
                f"{self.left_out[0]!r} of {self.type} is a secret, which a plan does not hold", function=str(self.type),
                remedy=f"give it again: from_plan with secrets={{'the function': {{{self.left_out[0]!r}: 'the secret'}}}}",
            )  # fmt: skip
        kind = self.type.resolve()
        made = kind.__new__(kind)
        for name, value in self.attributes:
            try:
                vars(made)[name] = restore(value)
            except PlanError as error:
                raise error.at(function=str(self.type), attribute=name) from None
        return made
