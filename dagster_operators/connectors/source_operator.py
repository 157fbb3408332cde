"""What a user derives a source of their own from: Python that yields Arrow batches from a stored position on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.graph.slice import JSON

SourceEnd: TypeAlias = Literal["graceful", "immediate", "final"]
"""How a source's turn ended: there may be more right now; there is nothing more right now; nothing will ever come again."""


class SourceContext(Protocol):
    """A source at its turn.

    Attributes:
        source: The source's name.
        position: Where to begin: what the last committed epoch left, None at first. Set it to where the next epoch is to begin;
            plain JSON. It is copied when the turn ends: what the operator changes in it later counts for nothing.
    """

    source: str
    position: Any

    def idle(self) -> None:
        """Say that nothing is to be expected for now: until rows come again, the others' watermarks count without this source."""


class SourceCollector(Protocol):
    """Where a source puts its rows."""

    def collect(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Put rows out; columns are matched by name.

        Raises:
            SchemaError: They do not fit the source's schema.
        """


class SourceOperator:
    """A source of rows that is read from a position on.

    An epoch gives it one turn: :meth:`run` puts rows out, moves ``ctx.position``, and says how it ended. The rows are stored
    before the epoch begins, so that a retried epoch has the same ones; a turn that fails leaves nothing, and its position is
    given to the next. It runs in one process, that of the pipeline; what it puts out is kept on disk, not in memory. (The kinds
    of ends are Arroyo's.)

    Example:
        >>> import pyarrow as pa
        >>> class Numbers(SourceOperator):
        ...     def output_schema(self):
        ...         return "n long"
        ...     def run(self, ctx, out):
        ...         start = ctx.position or 0
        ...         out.collect(pa.table({"n": range(start, start + 10)}))
        ...         ctx.position = start + 10
        ...         return "final" if ctx.position == 30 else "graceful"
        >>> from dagster_operators import Pipeline
        >>> Pipeline("p", root="data/p").source("numbers", Numbers()).columns
        ('n',)
    """

    waits_for: str | None = None
    """The name of an operator that has to come as far as this source before it gets another turn; None if it does not wait."""

    def output_schema(self) -> str | pa.Schema:
        """The rows' schema, as Spark DDL or an Arrow schema."""
        raise NotImplementedError(f"{type(self).__name__} needs output_schema(self)")

    def run(self, ctx: SourceContext, out: SourceCollector) -> SourceEnd:
        """Put out the rows of one epoch."""
        raise NotImplementedError(f"{type(self).__name__} needs run(self, ctx, out)")

    def has_news(self, position: JSON) -> bool:  # noqa: ARG002
        """Whether a turn from this position would give rows: asked by sensors every few seconds, so it must be cheap.

        By default False: such a pipeline is run by its schedule or by hand.
        """
        return False

    def waits_until(self, position: JSON) -> int | None:  # noqa: ARG002
        """The time that the operator it waits for has to come to before another turn from this position.

        By default None: as far as this source has come.
        """
        return None

    def reached(self, position: JSON) -> int | None:  # noqa: ARG002
        """The time before which no rows will come after a position, in microseconds since 1970, if that is known.

        By default None: the rows that came tell how far the source has come.
        """
        return None

    def identity(self) -> Mapping[str, Any]:
        """What gives positions their meaning: if it changes, a position is not used again unless somebody decides so.

        By default all attributes that are numbers, text, truth values or tuples of these, and whose names begin with no
        underscore. Plain JSON, without secrets.
        """
        from dagster_operators.functions.secrets import holds_secret

        secrets = tuple(getattr(type(self), "secrets", ()))
        found = public_scalars({name: value for name, value in vars(self).items() if name != "waits_for"})
        return {name: value for name, value in found.items() if name not in secrets and not holds_secret(name, value)}

    def display(self) -> Mapping[str, Any] | str:
        """The settings, or a text, that explain and lineage show of the source; must hold no secrets. By default nothing."""
        return {}


def public_scalars(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Those of an object's attributes that are plain, and not its own business.

    >>> public_scalars({"topic": "a", "parts": (0, 1), "seen": [1], "_client": "c"})
    {'parts': [0, 1], 'topic': 'a'}
    """
    found = {name: value for name, value in sorted(attributes.items()) if not name.startswith("_") and _is_plain(value)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


def _is_plain(value: Any) -> bool:
    return all(map(_is_plain, value)) if type(value) is tuple else value is None or type(value) in (str, int, float, bool)
