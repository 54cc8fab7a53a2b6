"""Expressions in CEL, the Common Expression Language (https://cel.dev), as documents hold them.

`parse` reads one and refuses what can be refused without values, with its place: begin there.
`reconciler/guards/cel` evaluates what it gives. Whoever may commit writes expressions: nothing here
recurses with the text's length, and a tree is never deeper than `DEEPEST`.

Left out of the language: unsigned numbers, bytes, messages of Protocol Buffers, keys of maps that are
booleans, and patterns of `matches` that are computed.
"""

from schemas.expressions.build import DEEPEST, GREATEST
from schemas.expressions.nodes import Comprehension, InvalidExpression, Node, Type
from schemas.expressions.parse import MAX_EXPRESSION_LENGTH, parse

__all__ = [
    "DEEPEST",
    "GREATEST",
    "MAX_EXPRESSION_LENGTH",
    "Comprehension",
    "InvalidExpression",
    "Node",
    "Type",
    "parse",
]
