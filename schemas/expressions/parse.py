"""From the text of an expression to a tree that can be evaluated."""

from __future__ import annotations

from collections.abc import Collection

from schemas.expressions import patterns
from schemas.expressions.build import GREATEST, METHODS, position_of
from schemas.expressions.grammar import cel_parser
from schemas.expressions.nodes import Comprehension, InvalidExpression, Node, Position, Type
from schemas.problems.text import did_you_mean, format_value

MAX_EXPRESSION_LENGTH = 10_000
"""Characters of one expression."""

_BOOLEAN = {
    "||",
    "&&",
    "!",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "in",
    "has",
    "matches",
    "all",
    "exists",
    "exists_one",
}
_CALLS = {
    **{"bool": "bool", "startsWith": "bool", "endsWith": "bool", "contains": "bool"},
    **{"size": "a number", "int": "a number", "double": "a number", "string": "a text", "type": "a type"},
    **{"timestamp": "a timestamp", "duration": "a duration"},
    **{name: "a number" for name in METHODS if name.startswith("get")},
}
_OTHERS = {
    **{"[]": "a list", "{}": "a map", "negative": "a number", "+": "a sum", "-": "a difference"},
    **dict.fromkeys(("*", "/", "%"), "a number"),
}
_WORDS = {"and": "&&", "or": "||", "not": "!", "=": "==", "&": "&&", "|": "||"}


def parse(text: str, variables: Collection[str]) -> Node:
    """`variables`: the names that may be used; none may be a type's, as `int` or `list`. Raises
    InvalidExpression for what is no expression, is too long or too deep, uses another variable or a function
    that there is not, or cannot give true or false."""
    if len(text) > MAX_EXPRESSION_LENGTH:
        raise InvalidExpression(
            f"an expression has {MAX_EXPRESSION_LENGTH} characters at most", Position(1, 1)
        )
    tree = _parse_tree(text)
    weight = 0
    for node, bound in tree.walk():
        if node.op == "name" and node.value not in bound and node.value not in variables:
            name = str(node.value)
            hint = did_you_mean(name, {*bound, *variables})
            raise InvalidExpression(f"no variable {format_value(name)} here", node.place, hint)
        if node.op == "literal" and isinstance(node.value, int) and node.value > GREATEST:
            raise InvalidExpression(f"whole numbers reach to {GREATEST}", node.place)
        weight += patterns.pattern_weight(str(node.value)) if node.op == "matches" else 0
        if weight > patterns.LARGEST:
            why = "the patterns of the expression are too long, or repeat too much"
            raise InvalidExpression(why, node.place, "write several rules")
    if kind := _non_boolean_kind(tree):
        raise InvalidExpression(
            f"an expression gives true or false, and this one gives {kind}", Position(1, 1)
        )
    return tree


def _parse_tree(text: str) -> Node:
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    try:
        found = cel_parser().parse(text)
    except UnexpectedToken as error:
        if error.token.type == "$END":
            raise InvalidExpression("the expression ends too early", _end_position(text)) from None
        raise _misplaced_word(str(error.token), position_of(error.token)) from None
    except UnexpectedCharacters as error:
        raise _misplaced_word(text[error.pos_in_stream or 0], Position(error.line, error.column)) from None
    assert isinstance(found, Node)
    return found


def _misplaced_word(word: str, at: Position) -> InvalidExpression:
    hint = f"CEL writes `{_WORDS[word]}`" if word in _WORDS else ""
    if word in ("'", '"'):
        hint = "the text that begins here does not end in its line, or there is no operator before it"
    return InvalidExpression(f"{format_value(word)} cannot stand here", at, hint)


def _end_position(text: str) -> Position:
    return Position(text.count("\n") + 1, len(text) - (text.rfind("\n") + 1) + 1)


def _non_boolean_kind(node: Node) -> str:
    """What it gives instead, where that can be known; empty where it is or may be a boolean."""
    if node.op in _BOOLEAN:
        return ""
    if node.op == "?:":
        return _non_boolean_kind(node.parts[1]) or _non_boolean_kind(node.parts[2])
    if node.op == "literal":
        kinds = {
            bool: "",
            int: "a number",
            float: "a number",
            str: "a text",
            type(None): "null",
            Type: "a type",
        }
        return kinds[type(node.value)]
    if node.op == "call":
        kind = _CALLS.get(str(node.value), "bool")
        return "" if kind == "bool" else kind
    if isinstance(node, Comprehension):
        return "a list"
    return _OTHERS.get(node.op, "")
