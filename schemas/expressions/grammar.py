"""CEL's grammar (https://github.com/google/cel-spec/blob/master/doc/langdef.md#syntax) for Lark.

LALR: reading takes time in proportion to the text, and nesting is a list, not the interpreter's stack.
Within a string no alternative begins like another one, so that there is nothing to try twice.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from schemas.expressions.build import Builder

if TYPE_CHECKING:
    from lark import Lark

GRAMMAR = r"""
?start: expr
?expr: either | either "?" either ":" expr -> conditional
?either: both | both ("||" both)+ -> any_of
?both: relation | relation ("&&" relation)+ -> all_of
?relation: sum | relation (RELATION | IN) sum -> binary
?sum: product | sum (PLUS | MINUS) product -> binary
?product: unary | product TIMES unary -> binary
?unary: member | NOT unary -> negated | MINUS unary -> negative
?member: primary
    | member "." IDENT -> field
    | member "." IDENT "(" arguments ")" -> method
    | member SQUARE expr "]" -> index
?primary: IDENT -> name
    | IDENT "(" arguments ")" -> function
    | "(" expr ")"
    | SQUARE [expr ("," expr)* ","?] "]" -> list_of
    | CURLY [expr ":" expr ("," expr ":" expr)* ","?] "}" -> map_of
    | STRING -> string | INT -> integer | FLOAT -> double | TRUE -> true | FALSE -> false | NULL -> null
    | UINT -> unsigned | BYTES -> octets
arguments: [expr ("," expr)*]

RELATION: "==" | "!=" | "<=" | ">=" | "<" | ">"
IN.2: /in(?![_a-zA-Z0-9])/
PLUS: "+"
MINUS: "-"
TIMES: "*" | "/" | "%"
NOT: "!"
SQUARE: "["
CURLY: "{"
TRUE: "true"
FALSE: "false"
NULL: "null"
IDENT: /[_a-zA-Z][_a-zA-Z0-9]*/
FLOAT.3: /[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+/
UINT.2: /(?:0x[0-9a-fA-F]+|[0-9]+)[uU]/
INT.1: /0x[0-9a-fA-F]+|[0-9]+/
STRING.3: /STRINGS/
BYTES.3: /[bB](?:STRINGS)/
%ignore /[ \t\n\f\r]+/
%ignore /\/\/[^\n]*/
"""
_LONG = r"QQQ(?:[^Q\\]|\\.|Q(?!QQ))*QQQ"
_SHORT = r"Q(?:[^Q\\\n\r]|\\.)*Q"
_RAW = r"[rR](?:QQQ(?:[^Q]|Q(?!QQ))*QQQ|Q[^Q\n\r]*Q)"
_STRINGS = "|".join(form.replace("Q", quote) for form in (_RAW, _LONG, _SHORT) for quote in ('"', "'"))


@cache
def cel_parser() -> Lark:
    """Loaded with the first expression there is: not everybody has one."""
    from lark import Lark

    grammar = GRAMMAR.replace("STRINGS", _STRINGS)
    return Lark(grammar, parser="lalr", maybe_placeholders=False, transformer=Builder())
