"""The part of Jinja that documents may hold: expressions, `if`, one `for`.

Whoever may commit writes it, and it is filled in wherever documents are read: nothing in it makes much out of
little, neither time nor memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import partial, update_wrapper
from typing import Any

from jinja2 import StrictUndefined, TemplateError, meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_RESULT = 100_000
"""Characters that anything in a template may become; numbers up to its square."""
MAX_TEMPLATE_LENGTH = 10_000
"""Characters of one template."""
MAX_NAMES = 100
"""Places in one template where a value is used."""
MAX_DEPTH = 30
"""Parts of an expression inside of each other."""
MAX_LOOP_TURNS = 1_000
"""Values that a `for` goes through."""
FILTERS = (
    *("abs", "capitalize", "count", "d", "default", "e", "escape", "first", "float", "int", "items", "join"),
    *("last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "replace", "reverse"),
    *("round", "select", "selectattr", "sort", "string", "sum", "title", "tojson", "trim", "truncate"),
    *("unique", "upper", "urlencode"),
)
"""Those whose result is about as large as what they are given; of `map` only `map(attribute=...)`."""
_ALLOWED = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Name, nodes.Const),
    *(nodes.List, nodes.Tuple, nodes.Dict, nodes.Pair, nodes.Keyword, nodes.CondExpr, nodes.Filter),
    *(
        nodes.Test,
        nodes.Compare,
        nodes.Operand,
        nodes.And,
        nodes.Or,
        nodes.Not,
        nodes.Neg,
        nodes.Pos,
        nodes.Concat,
    ),
    *(nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Getattr, nodes.Getitem),
    nodes.Slice,
)
_WHY: Mapping[type[nodes.Node], str] = {
    nodes.Call: "nothing is called here; filters do what methods would",
    nodes.Pow: "** makes too large a value",
    nodes.Assign: "nothing is set here",
}


class _Sandbox(ImmutableSandboxedEnvironment):
    """Arithmetic is for numbers of a bounded size; `~` joins texts."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        numbers = all(isinstance(each, int | float) for each in (left, right))
        if operator == "**" or not numbers or max(abs(left), abs(right)) > MAX_RESULT**2:
            raise SecurityError(f"{operator} is for numbers up to {MAX_RESULT**2} here; `~` joins texts")
        return super().call_binop(context, operator, left, right)


def _bound_result(filter: Callable[..., Any], *given: Any, **named: Any) -> Any:
    found = filter(*given, **named)
    if isinstance(found, str | list | tuple | dict) and len(found) > MAX_RESULT:
        raise SecurityError("a value becomes too long")
    return found


def _join(values: Any, d: str = "", attribute: str | None = None) -> str:
    """Measured before it is made: two long values make a huge one."""
    separator = str(d)
    parts = [str(each if attribute is None else _JINJA.getitem(each, attribute)) for each in values]
    if sum(map(len, parts)) + len(separator) * len(parts) > MAX_RESULT:
        raise SecurityError("a value becomes too long")
    return separator.join(parts)


def _replace(text: Any, old: str, new: str) -> str:
    whole, old, new = str(text), str(old), str(new)
    if len(whole) + whole.count(old) * len(new) > MAX_RESULT:
        raise SecurityError("a value becomes too long")
    return whole.replace(old, new)


def _map_attribute(values: Any, *, attribute: str) -> Iterator[Any]:
    return (_JINJA.getitem(each, attribute) for each in values)


def _round(number: float, precision: int = 0) -> float:
    if abs(precision) > 15:
        raise SecurityError(f"numbers are not rounded to {precision} digits here")
    return round(number, precision)


def _bound_loop(values: Any) -> list[Any]:
    found = list(itertools.islice(values, MAX_LOOP_TURNS + 1))
    if len(found) > MAX_LOOP_TURNS:
        raise SecurityError(f"a `for` goes through {MAX_LOOP_TURNS} values at most")
    return found


def _environment() -> _Sandbox:
    made = _Sandbox(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True)
    made.globals.clear()
    own = {"join": _join, "replace": _replace, "map": _map_attribute, "round": _round}
    made.filters = {name: own.get(name) or _wrap_filter(made.filters[name]) for name in FILTERS} | {
        "few": _bound_loop
    }
    return made


def _wrap_filter(filter: Callable[..., Any]) -> Callable[..., Any]:
    """With what Jinja notes on a filter: that it is handed the environment, say."""
    return update_wrapper(partial(_bound_result, filter), filter, assigned=())


_JINJA = _environment()


def undeclared_variables(text: str, *, loops: bool = False) -> set[str]:
    """What a template wants to be defined. Raises TemplateError for what is none, or does what none may do;
    `loops`: it may hold a `for`."""
    return meta.find_undeclared_variables(_parse_template(text, loops=loops))


def render(text: str, values: Mapping[str, Any], *, loops: bool = False) -> str:
    """A template filled in. Raises TemplateError, TypeError, ValueError, LookupError or ArithmeticError."""
    parts: list[str] = []
    size = 0
    for part in _JINJA.from_string(_parse_template(text, loops=loops)).generate(values):
        parts.append(part)
        size += len(part)
        if size > MAX_RESULT:
            raise SecurityError("a text becomes too long")
    return "".join(parts)


def evaluate(expression: str, values: Mapping[str, Any]) -> Any:
    """What one expression is. Raises as `render` does."""
    _parse_template("{{" + expression + "}}", loops=False)
    found = _JINJA.compile_expression(expression, undefined_to_none=False)(**values)
    if isinstance(found, StrictUndefined):
        str(found)  # Raises, with the name of what is not defined.
    if isinstance(found, str) and len(found) > MAX_RESULT:
        raise SecurityError("a text becomes too long")
    return found


def _parse_template(text: str, *, loops: bool) -> nodes.Template:
    if len(text) > MAX_TEMPLATE_LENGTH:
        raise TemplateError(f"a template has {MAX_TEMPLATE_LENGTH} characters at most")
    try:
        tree = _JINJA.parse(text)
    except RecursionError:
        raise TemplateError("it is nested too deeply") from None
    for node in tree.iter_child_nodes():
        _check_node(node, loops, MAX_DEPTH)
    if sum(1 for _ in tree.find_all(nodes.Name)) > MAX_NAMES:
        raise TemplateError(f"a template uses values in {MAX_NAMES} places at most")
    return tree


def _check_node(node: nodes.Node, loops: bool, depth: int) -> None:
    if depth == 0:
        raise TemplateError("it is nested too deeply")
    if not isinstance(node, _ALLOWED) or (isinstance(node, nodes.For) and (not loops or node.recursive)):
        word = f"no `{type(node).__name__.lower()}` here"
        raise TemplateError(next((why for kind, why in _WHY.items() if isinstance(node, kind)), word))
    if isinstance(node, nodes.Name) and node.name == "self":
        raise TemplateError("'self' is not known here")
    if isinstance(node, nodes.Filter) and node.name not in FILTERS:
        raise TemplateError(f"no filter '{node.name}' here; there are {', '.join(FILTERS)}")
    for child in node.iter_child_nodes():
        _check_node(child, loops and not isinstance(node, nodes.For), depth - 1)
    if isinstance(node, nodes.For):
        node.iter = nodes.Filter(node.iter, "few", [], [], None, None, lineno=node.lineno)
