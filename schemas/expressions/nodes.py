"""What an expression is once it is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class InvalidExpression(Exception):
    """It is none, or does what none may do. `line` and `column` count from 1 within its text."""

    def __init__(self, why: str, place: Position, hint: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.line, self.column = place
        self.hint = hint


class Position(NamedTuple):
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Type:
    """What `type()` gives, and what `int`, `string` … name."""

    name: str


class Node:
    """One operation. `op` says which, as it is written in CEL (`&&`, `==`, `+`, `?:` …), else one of
    `literal` and `name` (`value`), `field` and `has` (of the only part; `value` is the field's name),
    `call` (`value` is the function's name; a method's target is the first part), `matches` (`value` is the
    pattern), `index`, `[]`, `{}` (keys and values in turns), `negative`."""

    __slots__ = ("depth", "op", "parts", "place", "size", "value")

    def __init__(self, op: str, parts: tuple[Node, ...], place: Position, value: object = None) -> None:
        self.op, self.parts, self.place, self.value = op, parts, place, value
        self.depth: int = 1 + max((part.depth for part in parts), default=0)
        self.size: int = 1 + sum(part.size for part in parts)
        """Operations in it."""

    def walk(self, bound: frozenset[str] = frozenset()) -> Iterator[tuple[Node, frozenset[str]]]:
        """It and all below, in the text's order, each with the variables that comprehensions bind there."""
        yield self, bound
        for part in self.parts:
            yield from part.walk(bound)


class Comprehension(Node):
    """`all`, `exists`, `exists_one`, `filter` or `map` (`op`) over its first part. `value` is the variable
    that the others see: a condition, or what a `map` makes; both of a `map` with three arguments."""

    __slots__ = ()
    value: str

    def walk(self, bound: frozenset[str] = frozenset()) -> Iterator[tuple[Node, frozenset[str]]]:
        yield self, bound
        yield from self.parts[0].walk(bound)
        for part in self.parts[1:]:
            yield from part.walk(bound | {self.value})
