"""A tree becomes functions that call each other: several times faster than to walk it each time.

Each function gets the `Evaluation`. What depends on nothing but the text is found once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from reconciler.guards.cel import values
from reconciler.guards.cel.functions import FUNCTIONS
from reconciler.guards.cel.steps import MAX_STEPS, Budget, Evaluation, EvaluationError, TooManySteps
from reconciler.guards.cel.values import describe_type, kind
from schemas.expressions import Comprehension, Node, parse, patterns
from schemas.problems.text import format_value

Evaluator: TypeAlias = Callable[[Evaluation], Any]


@dataclass(frozen=True, slots=True)
class Expression:
    """`text` compiled; it may be evaluated as often as one likes, also by several threads."""

    text: str
    _evaluate: Evaluator
    _size: int

    def evaluate(self, variables: Mapping[str, Any], budget: Budget | None = None) -> bool:
        """Whether it holds. `variables`: a value for each declared name, of the kinds that `values` tells
        of; they are neither copied nor changed. `budget`: what several evaluations may cost together.
        Raises EvaluationError, and TooManySteps for one that costs more than `MAX_STEPS`, or than is
        left."""
        most = MAX_STEPS if budget is None else min(MAX_STEPS, budget.left)
        run = Evaluation(dict(variables), most)
        try:
            run.spend(self._size)
            return _require_boolean(self._evaluate(run), "the expression")
        except TooManySteps:
            if budget is not None and most < MAX_STEPS:
                why = f"the expressions of the plan take more than {budget.steps:,} steps together"
                raise TooManySteps(why) from None
            raise TooManySteps(f"it takes more than {MAX_STEPS:,} steps") from None
        finally:
            if budget is not None:
                budget.left -= min(most, most - run.left)


def compile(text: str, variables: Collection[str]) -> Expression:
    """`variables`: the names that may be used. Raises InvalidExpression."""
    tree = parse(text, variables)
    return Expression(text, _compile_node(tree), tree.size)


def _compile_node(node: Node) -> Evaluator:
    if isinstance(node, Comprehension):
        return _comprehension(node)
    made = _COMPILERS[node.op](node)
    return _constant(made) if node.op == "[]" and all(part.op == "literal" for part in node.parts) else made


def _constant(made: Evaluator) -> Evaluator:
    found = made(Evaluation({}, MAX_STEPS))
    return lambda run: found


def _require_boolean(value: Any, what: str) -> bool:
    if value is True or value is False:
        return value
    raise EvaluationError(f"{what} is {describe_type(value)}, not a boolean")


# --- values -----------------------------------------------------------------------------------------------


def _literal(node: Node) -> Evaluator:
    value = node.value
    return lambda run: value


def _name(node: Node) -> Evaluator:
    name = str(node.value)

    def named(run: Evaluation) -> Any:
        try:
            return run.variables[name]
        except KeyError:
            raise EvaluationError(f"the variable {_shown_name(name)} has no value") from None

    return named


def _field(node: Node) -> Evaluator:
    of, name = _compile_node(node.parts[0]), str(node.value)

    def field(run: Evaluation) -> Any:
        value = of(run)
        if kind(value) != "map":
            raise EvaluationError(
                f"{describe_type(value)} has no fields: {format_value(name)} is asked of it"
            )
        try:
            return value[name]
        except KeyError:
            raise EvaluationError(f"no such field: {_shown_name(name)}") from None

    return field


def _shown_name(name: str) -> str:
    return format_value(name)[1:-1]


def _has(node: Node) -> Evaluator:
    of, name = _compile_node(node.parts[0]), str(node.value)

    def has(run: Evaluation) -> bool:
        value = of(run)
        if kind(value) != "map":
            raise EvaluationError(
                f"{describe_type(value)} has no fields: {format_value(name)} is asked of it"
            )
        return bool(name in value)

    return has


def _index(node: Node) -> Evaluator:
    of, at = (_compile_node(part) for part in node.parts)

    def index(run: Evaluation) -> Any:
        value, key = of(run), at(run)
        what = kind(value)
        if what == "list":
            if kind(key) != "int":
                raise EvaluationError(f"elements of a list have whole numbers, not {describe_type(key)}")
            if not 0 <= key < len(value):
                raise EvaluationError(f"no such element: {_shown_name(str(values.integer(key)))}")
            return value[key]
        if what != "map":
            raise EvaluationError(f"{describe_type(value)} has no elements")
        if not values.is_key(key) or key not in value:
            raise EvaluationError(
                f"no such key: {format_value(key)}"
                if values.is_key(key)
                else f"{describe_type(key)} is no key"
            )
        return value[key]

    return index


def _list(node: Node) -> Evaluator:
    parts = [_compile_node(part) for part in node.parts]
    return lambda run: [part(run) for part in parts]


def _map(node: Node) -> Evaluator:
    keys = [_compile_node(part) for part in node.parts[::2]]
    parts = [_compile_node(part) for part in node.parts[1::2]]

    def made(run: Evaluation) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key, part in zip(keys, parts, strict=True):
            at = key(run)
            if kind(at) not in ("string", "int"):
                raise EvaluationError(f"keys of a map are texts or whole numbers, not {describe_type(at)}")
            if at in found:
                raise EvaluationError(f"a key is there twice: {format_value(at)}")
            found[at] = part(run)
        return found

    return made


# --- logic ------------------------------------------------------------------------------------------------


def _logical(node: Node) -> Evaluator:
    """`&&` and `||`: one side that decides hides an error of the other, in whatever order they stand."""
    parts = [_compile_node(part) for part in node.parts]
    decisive, word = node.op == "||", f"a side of `{node.op}`"

    def decided(run: Evaluation) -> bool:
        failed: EvaluationError | None = None
        for part in parts:
            try:
                if _require_boolean(part(run), word) is decisive:
                    return decisive
            except TooManySteps:
                raise
            except EvaluationError as error:
                failed = failed or error
        if failed:
            raise failed
        return not decisive

    return decided


def _not(node: Node) -> Evaluator:
    part = _compile_node(node.parts[0])
    return lambda run: not _require_boolean(part(run), "what `!` turns round")


def _conditional(node: Node) -> Evaluator:
    condition, then, other = (_compile_node(part) for part in node.parts)
    return lambda run: then(run) if _require_boolean(condition(run), "the condition of `?`") else other(run)


# --- operators and functions ------------------------------------------------------------------------------


def _equals(node: Node) -> Evaluator:
    left, right = (_compile_node(part) for part in node.parts)
    if node.op == "==":
        return lambda run: values.equal(left(run), right(run), run)
    return lambda run: not values.equal(left(run), right(run), run)


_OPERATORS: Mapping[str, Callable[[Any, Any, Evaluation], Any]] = {
    "+": values.add,
    "-": values.subtract,
    "*": values.multiply,
    "/": values.divide,
    "%": values.remainder,
    "in": values.contains,
    "<": values.ordered("<", operator.lt),
    "<=": values.ordered("<=", operator.le),
    ">": values.ordered(">", operator.gt),
    ">=": values.ordered(">=", operator.ge),
}


def _binary(node: Node) -> Evaluator:
    left, right = (_compile_node(part) for part in node.parts)
    apply = _OPERATORS[node.op]
    return lambda run: apply(left(run), right(run), run)


def _negative(node: Node) -> Evaluator:
    part = _compile_node(node.parts[0])
    return lambda run: values.negative(part(run))


def _call(node: Node) -> Evaluator:
    function, parts = FUNCTIONS[str(node.value)], [_compile_node(part) for part in node.parts]
    if len(parts) == 1:
        only = parts[0]
        return lambda run: function(run, only(run))
    first, second = parts
    return lambda run: function(run, first(run), second(run))


def _matches(node: Node) -> Evaluator:
    pattern = str(node.value)
    part, matches = _compile_node(node.parts[0]), patterns.compile_pattern(pattern)
    cost = 1 + patterns.pattern_weight(pattern) // 50

    def matched(run: Evaluation) -> bool:
        text = part(run)
        if kind(text) != "string":
            raise EvaluationError(f"matches() is not for {describe_type(text)}")
        run.spend(10 + len(text) * cost)
        return matches(text)

    return matched


_COMPILERS: Mapping[str, Callable[[Node], Evaluator]] = {
    **{
        "literal": _literal,
        "name": _name,
        "field": _field,
        "has": _has,
        "index": _index,
        "[]": _list,
        "{}": _map,
    },
    **{"&&": _logical, "||": _logical, "!": _not, "?:": _conditional, "==": _equals, "!=": _equals},
    **{"negative": _negative, "call": _call, "matches": _matches},
    **dict.fromkeys(_OPERATORS, _binary),
}


# --- comprehensions ---------------------------------------------------------------------------------------

Step: TypeAlias = Callable[[Evaluator, Any], Any]
"""What a part of it is, with the variable being so."""


def _comprehension(node: Comprehension) -> Evaluator:
    over, name, gather = _compile_node(node.parts[0]), node.value, _GATHERERS[node.op]
    bodies = [_compile_node(part) for part in node.parts[1:]]
    cost = 1 + sum(part.size for part in node.parts[1:])

    def looped(run: Evaluation) -> Any:
        found = over(run)
        if kind(found) not in ("list", "map"):
            raise EvaluationError(f"{node.op}() goes through a list or a map, not {describe_type(found)}")
        names = run.variables
        hidden = {name: names[name]} if name in names else None

        def turn(body: Evaluator, value: Any) -> Any:
            run.spend(cost)
            names[name] = value
            return body(run)

        try:
            return gather(found, bodies, turn)
        finally:
            names.pop(name, None)
            names.update(hidden or {})

    return looped


def _quantified(decisive: bool, word: str) -> Callable[[Collection[Any], list[Evaluator], Step], bool]:
    """`all` is `&&` of the elements, `exists` is `||`: what decides hides errors."""

    def gather(found: Collection[Any], bodies: list[Evaluator], turn: Step) -> bool:
        failed: EvaluationError | None = None
        for value in found:
            try:
                if _require_boolean(turn(bodies[0], value), word) is decisive:
                    return decisive
            except TooManySteps:
                raise
            except EvaluationError as error:
                failed = failed or error
        if failed:
            raise failed
        return not decisive

    return gather


def _exists_one(found: Collection[Any], bodies: list[Evaluator], turn: Step) -> bool:
    return len(_select(found, bodies[0], turn, "the condition of exists_one()")) == 1


def _filter(found: Collection[Any], bodies: list[Evaluator], turn: Step) -> list[Any]:
    return _select(found, bodies[0], turn, "the condition of filter()")


def _select(found: Collection[Any], body: Evaluator, turn: Step, word: str) -> list[Any]:
    return [value for value in found if _require_boolean(turn(body, value), word)]


def _mapped(found: Collection[Any], bodies: list[Evaluator], turn: Step) -> list[Any]:
    *conditions, result = bodies
    return [
        turn(result, value)
        for value in found
        if all(_require_boolean(turn(each, value), "the condition of map()") for each in conditions)
    ]


_GATHERERS: Mapping[str, Callable[[Collection[Any], list[Evaluator], Step], Any]] = {
    "all": _quantified(False, "the condition of all()"),
    "exists": _quantified(True, "the condition of exists()"),
    "exists_one": _exists_one,
    "filter": _filter,
    "map": _mapped,
}
