"""What the parser calls with each rule that it has recognised, innermost first: a tree whose depth is bounded
while it grows, whose functions exist, and whose macros are told from methods.

The methods of `Builder` are named as the rules are, and get what the rule consists of: tokens and nodes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

from schemas.expressions import patterns
from schemas.expressions.nodes import Comprehension, InvalidExpression, Node, Position, Type
from schemas.expressions.strings import unquote
from schemas.problems.text import did_you_mean, format_value

if TYPE_CHECKING:
    from lark import Token

    Tokens: TypeAlias = list[Token]
    Nodes: TypeAlias = list[Node]

DEEPEST = 50
"""Operations inside of each other; brackets alone are none."""
GREATEST = 2**63 - 1
"""Of whole numbers."""

TYPES = ("bool", "double", "int", "list", "map", "null_type", "string", "type")
MACROS = {"all": (2, 2), "exists": (2, 2), "exists_one": (2, 2), "filter": (2, 2), "map": (2, 3)}
"""How many arguments, at least and at most. A method's target is not counted."""
METHODS = {"size": (0, 0), "startsWith": (1, 1), "endsWith": (1, 1), "contains": (1, 1), "matches": (1, 1)}
METHODS |= dict.fromkeys(
    (
        *("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
        *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
    ),
    (0, 1),
)
FUNCTIONS = {"has": (1, 1), "matches": (2, 2)} | dict.fromkeys(
    ("bool", "double", "duration", "dyn", "int", "size", "string", "timestamp", "type"), (1, 1)
)
_RESERVED = (
    *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop"),
    *("package", "namespace", "return", "var", "void", "while"),
)
LONGEST_NAME = 100
"""Characters of a variable or field."""


class Builder:
    def conditional(self, parts: Nodes) -> Node:
        return _node("?:", parts, parts[0].place)

    def any_of(self, parts: Nodes) -> Node:
        return _node("||", parts, parts[0].place)

    def all_of(self, parts: Nodes) -> Node:
        return _node("&&", parts, parts[0].place)

    def binary(self, found: list[Any]) -> Node:
        left, operator, right = found
        return _node(str(operator), [left, right], position_of(operator))

    def negated(self, found: list[Any]) -> Node:
        return _node("!", found[1:], position_of(found[0]))

    def negative(self, found: list[Any]) -> Node:
        at, part = position_of(found[0]), found[1]
        # -9223372036854775808 is a number, although 9223372036854775808 is none.
        if part.op == "literal" and type(part.value) in (int, float) and part.value > 0:
            return Node("literal", (), at, -part.value)
        return _node("negative", [part], at)

    def field(self, found: list[Any]) -> Node:
        return _node("field", found[:1], position_of(found[1]), _bounded_name(found[1]))

    def index(self, found: list[Any]) -> Node:
        return _node("index", [found[0], found[2]], position_of(found[1]))

    def method(self, found: list[Any]) -> Node:
        target, token, arguments = found
        name = str(token)
        if name in MACROS:
            _require_arguments(token, MACROS[name], arguments)
            return _comprehension(name, token, target, arguments)
        if name not in METHODS:
            hint = did_you_mean(name, [*METHODS, *MACROS])
            raise InvalidExpression(f"no method {format_value(name)} here", position_of(token), hint)
        _require_arguments(token, METHODS[name], arguments)
        return _call(name, token, [target, *arguments])

    def function(self, found: list[Any]) -> Node:
        token, arguments = found
        name = str(token)
        if name not in FUNCTIONS:
            hint = did_you_mean(name, FUNCTIONS)
            raise InvalidExpression(f"no function {format_value(name)} here", position_of(token), hint)
        _require_arguments(token, FUNCTIONS[name], arguments)
        if name == "has":
            if arguments[0].op != "field":
                why = "has() asks for a field, as in has(a.b)"
                raise InvalidExpression(why, position_of(token))
            return _node("has", list(arguments[0].parts), position_of(token), arguments[0].value)
        return _call(name, token, arguments)

    def arguments(self, parts: Nodes) -> Nodes:
        return parts

    def list_of(self, found: list[Any]) -> Node:
        return _node("[]", found[1:], position_of(found[0]))

    def map_of(self, found: list[Any]) -> Node:
        return _node("{}", found[1:], position_of(found[0]))

    def name(self, found: Tokens) -> Node:
        name = _bounded_name(found[0])
        if name in TYPES:
            return Node("literal", (), position_of(found[0]), Type(name))
        return Node("name", (), position_of(found[0]), name)

    def string(self, found: Tokens) -> Node:
        try:
            return Node("literal", (), position_of(found[0]), unquote(found[0]))
        except ValueError as error:
            hint = "r'...' takes a backslash as it is"
            raise InvalidExpression(str(error), position_of(found[0]), hint) from None

    def integer(self, found: Tokens) -> Node:
        word = found[0].lstrip("0")
        number = GREATEST + 2 if len(word) > 20 else int(found[0], 16 if "x" in word else 10)
        if number > GREATEST + 1:  # One more may turn out to be the least negative one.
            raise InvalidExpression(f"whole numbers reach to {GREATEST}", position_of(found[0]))
        return Node("literal", (), position_of(found[0]), number)

    def double(self, found: Tokens) -> Node:
        number = float(found[0])
        if math.isinf(number):
            raise InvalidExpression("the number is too large", position_of(found[0]))
        return Node("literal", (), position_of(found[0]), number)

    def true(self, found: Tokens) -> Node:
        return Node("literal", (), position_of(found[0]), True)

    def false(self, found: Tokens) -> Node:
        return Node("literal", (), position_of(found[0]), False)

    def null(self, found: Tokens) -> Node:
        return Node("literal", (), position_of(found[0]))

    def unsigned(self, found: Tokens) -> Node:
        raise InvalidExpression(
            "there are no unsigned numbers here", position_of(found[0]), "leave out the 'u'"
        )

    def octets(self, found: Tokens) -> Node:
        raise InvalidExpression(
            "there are no bytes here", position_of(found[0]), "leave out the 'b' for a text"
        )


def position_of(token: Token) -> Position:
    """Where it begins."""
    return Position(token.line or 1, token.column or 1)


def _bounded_name(token: Token) -> str:
    if len(token) > LONGEST_NAME:
        raise InvalidExpression(f"a name has {LONGEST_NAME} characters at most", position_of(token))
    return str(token)


def _node(op: str, parts: Nodes, place: Position, value: object = None) -> Node:
    return _require_depth(Node(op, tuple(parts), place, value))


def _require_depth(node: Node) -> Node:
    if node.depth > DEEPEST:
        raise InvalidExpression(f"nested more than {DEEPEST} deep", node.place)
    return node


def _require_arguments(token: Token, wanted: tuple[int, int], arguments: Nodes) -> None:
    least, most = wanted
    if not least <= len(arguments) <= most:
        number = str(least) if least == most else f"{least} or {most}"
        word = "argument" if number == "1" else "arguments"
        raise InvalidExpression(f"{token}() takes {number} {word}, not {len(arguments)}", position_of(token))


def _comprehension(name: str, token: Token, target: Node, arguments: Nodes) -> Node:
    variable = arguments[0]
    if variable.op != "name" or str(variable.value) in _RESERVED:
        why = f"{name}() begins with the name of a variable, as in {name}(x, x > 0)"
        raise InvalidExpression(why, variable.place)
    return _require_depth(
        Comprehension(name, (target, *arguments[1:]), position_of(token), str(variable.value))
    )


def _call(name: str, token: Token, parts: Nodes) -> Node:
    if name != "matches":
        return _node("call", parts, position_of(token), name)
    text, pattern = parts
    if pattern.op != "literal" or not isinstance(pattern.value, str):
        raise InvalidExpression("the pattern of matches() is written out, not computed", pattern.place)
    try:
        patterns.compile_pattern(pattern.value)
    except ValueError as error:
        raise InvalidExpression(str(error), pattern.place) from None
    return _node("matches", [text], position_of(token), pattern.value)
