"""What an expression asks of an engine: its calls, casts and operators, with the types of what they are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from dagster_operators.graph.expressions import Called, calls_of, parsed, tokens_of
from dagster_operators.types.data_type import DataType

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

TypeOf: TypeAlias = Callable[[str], DataType | None]
"""The type of an expression; None if nobody can tell."""

_WORDS: Final = {
    "extract": frozenset({"from"}), "position": frozenset({"in"}), "overlay": frozenset({"placing", "from", "for"}),
    "substring": frozenset({"from", "for"}), "substr": frozenset({"from", "for"}),
    "trim": frozenset({"both", "leading", "trailing", "from"}),
}  # fmt: skip
"""Words that stand between what a function is given, instead of commas."""


@dataclass(frozen=True)
class Asked:
    """One call, cast or operator.

    Attributes:
        name: The function's in small letters, ``cast``, or the operator as it is written.
        texts: What it is given, as Spark SQL.
        type_of: Tells the type of such a text.
        to: The type that a cast makes, in small letters.
    """

    name: str
    texts: tuple[str, ...]
    type_of: TypeOf
    to: str = ""

    def type(self, place: int) -> DataType | None:
        """The type of what it is given at a place; None if there is nothing, or nobody can tell."""
        return self.type_of(self.texts[place]) if place < len(self.texts) else None

    def literal(self, place: int) -> str | None:
        """The literal that it is given at a place, without quotes; None if there is none, or something else."""
        from sqlglot import exp

        tree = parsed(self.texts[place]) if place < len(self.texts) else None
        return str(tree.this) if isinstance(tree, exp.Literal) else None


def asked_by(expression: str, type_of: TypeOf) -> Iterator[Asked]:
    """All calls, casts and operators of an expression; types are asked for only when somebody wants to know them.

    >>> [(one.name, one.texts) for one in asked_by("rint(a / 2) || CAST(b AS STRING)", lambda text: None)]
    [('rint', ('a / 2',)), ('||', ('RINT(a / 2)', 'CAST(b AS STRING)')), ('cast', ('b',)), ('/', ('a', '2'))]
    """
    within = with_variables(expression, type_of)
    for call in calls_of(expression):
        if call.name not in ("cast", "try_cast"):
            yield Asked(call.name, _arguments(call), within)
    yield from _operators(parsed(expression), within)


def with_variables(expression: str, type_of: TypeOf) -> TypeOf:
    """Tells the types of parts of an expression, which may have variables of its lambdas in them."""
    elements = _elements(parsed(expression))

    def within(text: str) -> DataType | None:
        return type_of(_with_elements(text, elements) if elements else text)

    return within


def _operators(tree: Expr, type_of: TypeOf) -> Iterator[Asked]:
    from sqlglot import exp

    written = {
        exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.DPipe: "||", exp.EQ: "=", exp.NEQ: "<>",
        exp.LT: "<", exp.GT: ">", exp.LTE: "<=", exp.GTE: ">=", exp.NullSafeEQ: "<=>",
    }  # fmt: skip
    for node in tree.walk():
        match node:
            case exp.Cast():
                yield Asked("cast", (_sql(node.this),), type_of, _sql(node.to).lower())
            case exp.Case():
                results = [*(one.args["true"] for one in node.args["ifs"]), node.args.get("default")]
                yield Asked("case", tuple(_sql(one) for one in results if one is not None), type_of)
            case exp.Bracket() if len(node.expressions) == 1:
                yield Asked("[]", (_sql(node.this), _sql(node.expressions[0])), type_of)
            case exp.Like() | exp.ILike() if isinstance(node.expression, exp.Any | exp.All):
                yield Asked("like_any", (_sql(node.this),), type_of)
            case exp.Like() | exp.ILike() | exp.RegexpLike():
                yield Asked("like", (_sql(node.this), _sql(node.expression)), type_of)
            case exp.Binary() if type(node) in written:
                yield Asked(written[type(node)], (_sql(node.left), _sql(node.right)), type_of)


def _sql(tree: Expr) -> str:
    return str(tree.sql("spark"))


def _arguments(call: Called) -> tuple[str, ...]:
    """The arguments of a call; those of ``extract(x FROM y)``, ``position(x IN y)`` and the like are what is between words."""
    tokens, found, depth, start = tokens_of(call.arguments), list[str](), 0, 1
    words = _WORDS.get(call.name, frozenset())
    for token in tokens:
        kind = str(token.token_type.name)
        depth += {"L_PAREN": 1, "L_BRACKET": 1, "R_PAREN": -1, "R_BRACKET": -1}.get(kind, 0)
        parts = depth == 1 and (kind == "COMMA" or (kind != "STRING" and token.text.lower() in words))
        if parts or (depth == 0 and token is tokens[-1]):
            found.append(call.arguments[start : token.start].strip())
            start = token.end + 1
    return tuple(filter(None, found))


def _elements(tree: Expr) -> Mapping[str, Expr]:
    """What the variables of lambdas stand for: an element of what the function is called with."""
    from sqlglot import exp

    found: dict[str, Expr] = {}
    for function in tree.find_all(exp.Lambda):
        caller = function.parent
        if caller is None:
            continue
        given = caller.expressions if isinstance(caller, exp.Anonymous) else [caller.this, caller.args.get("initial")]
        names = [name.name.lower() for name in function.expressions]
        found.update(zip(names, _stand_ins(caller, given), strict=False))
    return found


def _stand_ins(caller: Expr, given: list[Expr]) -> list[Expr]:
    from sqlglot import exp

    first = given[0].sql("spark")
    called = str(
        caller.sql_name() if isinstance(caller, exp.Func) and not isinstance(caller, exp.Anonymous) else caller.this
    ).lower()
    if called.startswith(("map_", "transform_")):
        texts = [f"map_keys({first})[0]", f"map_values({first})[0]"]
    elif called in ("aggregate", "reduce"):
        texts = [given[1].sql("spark"), f"({first})[0]"]
    else:
        texts = [f"({first})[0]", f"({first})[0]" if called == "array_sort" else "0"]
    return [parsed(text) for text in texts]


def _with_elements(text: str, elements: Mapping[str, Expr]) -> str:
    """An expression with elements in place of the variables of lambdas."""
    from sqlglot import exp

    def replaced(node: Expr) -> Expr:
        if not isinstance(node, exp.Column) or node.parts[0].name.lower() not in elements:
            return node
        made: Expr = elements[node.parts[0].name.lower()].copy()
        for part in node.parts[1:]:
            made = exp.Dot(this=made, expression=part.copy())
        return made

    tree: Expr = parsed(text).copy()
    for _ in elements:  # one lambda may be within another one
        tree = tree.transform(replaced)
    return _sql(tree)
