"""Values as CEL has them: what they are, when they are equal, which is less, how they are computed with.

They are Python's own, as JSON is read, so that nothing is converted: None, bool, int, float, str, list or
tuple, dict with keys that are texts or whole numbers; and `datetime` with a time zone, `timedelta` and
`Type`. Times are exact to a microsecond.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from reconciler.guards.cel.steps import Evaluation, EvaluationError
from schemas.expressions import GREATEST, Type

LEAST = -GREATEST - 1
MAX_DURATION = timedelta(seconds=315_576_000_000)
"""Of durations: 10,000 years."""
MAX_DEPTH = 50
"""Of lists and maps in each other that are compared."""

TYPE_NAMES: Mapping[type, str] = {
    **{type(None): "null_type", bool: "bool", int: "int", float: "double", str: "string", list: "list"},
    **{tuple: "list", dict: "map", datetime: "timestamp", timedelta: "duration", Type: "type"},
}
_TYPE_PHRASES = {
    **{
        "null_type": "null",
        "bool": "a boolean",
        "int": "a whole number",
        "double": "a number with a fraction",
    },
    **{"string": "a text", "list": "a list", "map": "a map", "timestamp": "a timestamp"},
    **{"duration": "a duration", "type": "a type"},
}


def kind(value: Any) -> str:
    """CEL's name of its type. Raises EvaluationError for what expressions cannot read."""
    found = TYPE_NAMES.get(type(value))
    if found is None:
        found = next((name for known, name in TYPE_NAMES.items() if isinstance(value, known)), None)
        if found is None:
            raise EvaluationError("a value is of a kind that expressions cannot read")
    return found


def describe_type(value: Any) -> str:
    """What it is, in words."""
    return _TYPE_PHRASES[kind(value)]


def scan_cost(text: str) -> int:
    """Steps for what looks at each character once, and quickly."""
    return 1 + len(text) // 64


def equal(left: Any, right: Any, run: Evaluation, depth: int = 0) -> bool:
    """Numbers are equal by value, whichever their kind; otherwise other kinds are not equal, and no error."""
    if type(left) is str and type(right) is str:
        if len(left) == len(right):
            run.spend(scan_cost(left))
        return left == right
    one, other = kind(left), kind(right)
    if one != other:
        return {one, other} == {"int", "double"} and bool(left == right)
    if one not in ("list", "map"):
        return bool(left == right)
    if len(left) != len(right):
        return False
    if depth == MAX_DEPTH:
        raise EvaluationError("values are nested too deeply to be compared")
    run.spend(1 + len(left))
    if one == "list":
        return all(equal(*pair, run, depth + 1) for pair in zip(left, right, strict=True))
    return all(key in right and equal(value, right[key], run, depth + 1) for key, value in left.items())


def contains(value: Any, container: Any, run: Evaluation) -> bool:
    """`in`: an element of a list, or a key of a map."""
    what = kind(container)
    if what == "map":
        return is_key(value) and value in container
    if what != "list":
        raise EvaluationError(f"`in` looks into a list or a map, not into {describe_type(container)}")
    run.spend(len(container))
    return any(equal(value, each, run) for each in container)


def is_key(value: Any) -> bool:
    return type(value) in (str, int, float) or isinstance(value, str)


_ORDERED_TYPES = ("bool", "string", "timestamp", "duration")


def ordered(operator: str, compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Evaluation], bool]:
    """`<` and its like."""

    def less(left: Any, right: Any, run: Evaluation) -> bool:
        one, other = kind(left), kind(right)
        if not ({one, other} <= {"int", "double"} or (one == other and one in _ORDERED_TYPES)):
            raise _unsupported_operands(operator, left, right)
        if one == "string":
            run.spend(scan_cost(left))
        return bool(compare(left, right))

    return less


def integer(number: int) -> int:
    if not LEAST <= number <= GREATEST:
        raise EvaluationError("a whole number is beyond 64 bits")
    return number


def duration(found: timedelta) -> timedelta:
    if not -MAX_DURATION <= found <= MAX_DURATION:
        raise EvaluationError("a duration is longer than 10,000 years")
    return found


def negative(value: Any) -> Any:
    match kind(value):
        case "int":
            return integer(-value)
        case "double":
            return -value
    raise EvaluationError(f"`-` is not for {describe_type(value)}")


def add(left: Any, right: Any, run: Evaluation) -> Any:
    match kind(left), kind(right):
        case "int", "int":
            return integer(left + right)
        case "double", "double":
            return left + right
        case ("string", "string") | ("list", "list"):
            run.spend(len(left) + len(right))
            return [*left, *right] if kind(left) == "list" else left + right
        case ("timestamp", "duration") | ("duration", "timestamp"):
            return _shift_timestamp(lambda: left + right)
        case "duration", "duration":
            return duration(left + right)
    raise _unsupported_operands("+", left, right)


def subtract(left: Any, right: Any, _run: Evaluation) -> Any:
    match kind(left), kind(right):
        case "int", "int":
            return integer(left - right)
        case "double", "double":
            return left - right
        case ("timestamp", "timestamp") | ("duration", "duration"):
            return duration(left - right)
        case "timestamp", "duration":
            return _shift_timestamp(lambda: left - right)
    raise _unsupported_operands("-", left, right)


def multiply(left: Any, right: Any, _run: Evaluation) -> Any:
    match kind(left), kind(right):
        case "int", "int":
            return integer(left * right)
        case "double", "double":
            return left * right
    raise _unsupported_operands("*", left, right)


def divide(left: Any, right: Any, _run: Evaluation) -> Any:
    """Of whole numbers towards zero; of others as IEEE 754 has it."""
    match kind(left), kind(right):
        case "int", "int":
            return integer(_quotient(left, right))
        case "double", "double":
            if right:
                return left / right
            nothing = math.isnan(left) or not left
            return math.nan if nothing else math.copysign(math.inf, left) * math.copysign(1, right)
    raise _unsupported_operands("/", left, right)


def remainder(left: Any, right: Any, _run: Evaluation) -> Any:
    """With the sign of the left one."""
    if kind(left) == kind(right) == "int":
        return left - right * integer(_quotient(left, right))
    raise _unsupported_operands("%", left, right)


def _quotient(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("division by zero")
    found = abs(left) // abs(right)
    return found if (left < 0) == (right < 0) else -found


def _shift_timestamp(move: Callable[[], datetime]) -> datetime:
    try:
        return move()
    except OverflowError:
        raise EvaluationError("a timestamp is not within the years 1 to 9999") from None


def _unsupported_operands(operator: str, left: Any, right: Any) -> EvaluationError:
    return EvaluationError(f"`{operator}` is not for {describe_type(left)} and {describe_type(right)}")
