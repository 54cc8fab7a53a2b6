"""CEL's functions and methods (https://github.com/google/cel-spec/blob/master/doc/langdef.md#functions)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, TypeAlias

from reconciler.guards.cel import values
from reconciler.guards.cel.steps import Evaluation, EvaluationError
from reconciler.guards.cel.values import describe_type, kind
from schemas.expressions import Type
from schemas.problems.text import format_value

Function: TypeAlias = Callable[..., Any]
"""Of the evaluation and the arguments; of a method the target is the first."""

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.A)
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|NaN|[+-]?Inf(?:inity)?", re.A
)
_RFC3339 = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?(Z|[+-][0-9]{2}:[0-9]{2})",
    re.A,
)
_PART = re.compile(r"([0-9]+)(?:\.([0-9]*))?(h|ms|m|s|us|µs|ns)", re.A)
_NANOSECONDS = {
    **{"h": 3_600_000_000_000, "m": 60_000_000_000, "s": 1_000_000_000, "ms": 1_000_000},
    **{"us": 1_000, "µs": 1_000, "ns": 1},
}
_OFFSET = re.compile(r"([+-]?)([0-9]{2}):([0-9]{2})", re.A)
_ZONE = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*", re.A)
_TRUE, _FALSE = ("1", "t", "true", "TRUE", "True"), ("0", "f", "false", "FALSE", "False")
_SECOND = timedelta(seconds=1)
_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_PARSED_LENGTH = 100
"""Characters of a text that stands for a number or a time."""
_PARSE_COST = 20
"""Steps of reading a time."""


def _wrong_type(name: str, value: Any) -> EvaluationError:
    return EvaluationError(f"{name}() is not for {describe_type(value)}")


def _unreadable(name: str, text: str) -> EvaluationError:
    return EvaluationError(f"{name}() cannot read {format_value(text)}")


def _require_texts(name: str, *given: Any) -> None:
    for value in given:
        if kind(value) != "string":
            raise _wrong_type(name, value)


def size(_run: Evaluation, value: Any) -> int:
    if kind(value) not in ("string", "list", "map"):
        raise _wrong_type("size", value)
    return len(value)


def starts_with(run: Evaluation, text: Any, part: Any) -> bool:
    _require_texts("startsWith", text, part)
    run.spend(values.scan_cost(part))
    return bool(text.startswith(part))


def ends_with(run: Evaluation, text: Any, part: Any) -> bool:
    _require_texts("endsWith", text, part)
    run.spend(values.scan_cost(part))
    return bool(text.endswith(part))


def contains(run: Evaluation, text: Any, part: Any) -> bool:
    _require_texts("contains", text, part)
    run.spend(1 + (len(text) + len(part)) // 8)
    return part in text


def as_int(_run: Evaluation, value: Any) -> int:
    match kind(value):
        case "int":
            return values.integer(value)
        case "double":
            if not values.LEAST <= value < -values.LEAST:  # NaN is not, either.
                raise EvaluationError("a number is beyond 64 bits")
            return int(value)
        case "string":
            if not _WHOLE_NUMBER.fullmatch(value):
                raise _unreadable("int", value)
            return values.integer(int(value))
        case "timestamp":
            return (_utc(value) - _EPOCH) // _SECOND
    raise _wrong_type("int", value)


def as_double(_run: Evaluation, value: Any) -> float:
    match kind(value):
        case "int" | "double":
            return float(values.integer(value) if kind(value) == "int" else value)
        case "string":
            if len(value) > _MAX_PARSED_LENGTH or not _NUMBER.fullmatch(value):
                raise _unreadable("double", value)
            return float(value)
    raise _wrong_type("double", value)


def as_bool(_run: Evaluation, value: Any) -> bool:
    match kind(value):
        case "bool":
            return bool(value)
        case "string":
            if value not in _TRUE + _FALSE:
                raise _unreadable("bool", value)
            return value in _TRUE
    raise _wrong_type("bool", value)


def as_string(_run: Evaluation, value: Any) -> str:
    match kind(value):
        case "string":
            return str(value)
        case "bool":
            return "true" if value else "false"
        case "int":
            return str(values.integer(value))
        case "double":
            return str(int(value)) if value.is_integer() and abs(value) < 1e21 else _decimal(value)
        case "timestamp":
            moment = _utc(value).replace(tzinfo=None).isoformat()
            return (moment.rstrip("0") if "." in moment else moment) + "Z"
        case "duration":
            seconds, rest = divmod(abs(value) // _MICROSECOND, 10**6)
            sign = "-" if value < timedelta(0) else ""
            fraction = f".{rest:06}".rstrip("0") if rest else ""
            return f"{sign}{seconds}{fraction}s"
    raise _wrong_type("string", value)


def _decimal(value: float) -> str:
    return {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(repr(value), repr(value))


def as_timestamp(run: Evaluation, value: Any) -> datetime:
    match kind(value):
        case "timestamp":
            return _utc(value)
        case "int":
            try:
                return _EPOCH + timedelta(seconds=value)
            except OverflowError:
                raise EvaluationError("a timestamp is not within the years 1 to 9999") from None
        case "string":
            run.spend(_PARSE_COST)
            found = _RFC3339.fullmatch(value) if len(value) <= _MAX_PARSED_LENGTH else None
            if not found:
                raise _unreadable("timestamp", value)
            moment, fraction, zone = found.groups()
            try:
                whole = datetime.fromisoformat(moment + zone.replace("Z", "+00:00")).astimezone(UTC)
                return whole + timedelta(microseconds=int((fraction or "0").ljust(6, "0")[:6]))
            except (ValueError, OverflowError):
                raise _unreadable("timestamp", value) from None
    raise _wrong_type("timestamp", value)


def as_duration(run: Evaluation, value: Any) -> timedelta:
    match kind(value):
        case "duration":
            return values.duration(value)
        case "string":
            run.spend(_PARSE_COST)
            return _duration(value)
    raise _wrong_type("duration", value)


def _duration(text: str) -> timedelta:
    """As Go writes them: `1h30m`, `-1.5s`."""
    sign = -1 if text[:1] == "-" else 1
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return timedelta(0)
    parts = list(_PART.finditer(rest)) if len(rest) <= _MAX_PARSED_LENGTH else []
    if not parts or sum(len(part[0]) for part in parts) != len(rest):
        raise _unreadable("duration", text)
    total = 0
    for part in parts:
        whole, fraction, unit = part[1], part[2] or "", _NANOSECONDS[part[3]]
        total += int(whole) * unit + int(fraction or "0") * unit // 10 ** len(fraction)
    try:
        return values.duration(timedelta(microseconds=sign * (total // 1000)))
    except OverflowError:
        raise _unreadable("duration", text) from None


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise EvaluationError("a timestamp has no time zone")
    return moment.astimezone(UTC)


def _zone(run: Evaluation, zone: Any) -> tzinfo:
    """`+09:00`, or `Asia/Seoul` of the machine's time zones."""
    _require_texts("the time zone", zone)
    run.spend(100)
    if found := _OFFSET.fullmatch(zone):
        minutes = int(found[2]) * 60 + int(found[3])
        if minutes < 24 * 60:
            return timezone(timedelta(minutes=-minutes if found[1] == "-" else minutes))
    elif len(zone) <= _MAX_PARSED_LENGTH and _ZONE.fullmatch(zone):
        from zoneinfo import ZoneInfo

        try:
            return ZoneInfo(zone)
        except (ValueError, OSError, LookupError):
            pass
    raise EvaluationError(f"no time zone {format_value(zone)}")


def _in_zone(run: Evaluation, moment: datetime, zone: Any) -> datetime:
    try:
        return _utc(moment).astimezone(_zone(run, zone) if zone is not None else UTC)
    except OverflowError:
        raise EvaluationError("a timestamp is not within the years 1 to 9999") from None


def _getter(name: str, of: Callable[[datetime], int], unit: timedelta | None = None) -> Function:
    """`unit`: durations have it as well, as a whole."""

    def get(run: Evaluation, value: Any, zone: Any = None) -> int:
        match kind(value):
            case "timestamp":
                return of(_in_zone(run, value, zone))
            case "duration" if unit and zone is None:
                return -(-value // unit) if value < timedelta(0) else int(value // unit)
        raise _wrong_type(name, value)

    return get


def _milliseconds(run: Evaluation, value: Any, zone: Any = None) -> int:
    """Of the second, not of the whole."""
    match kind(value):
        case "timestamp":
            return _in_zone(run, value, zone).microsecond // 1000
        case "duration" if zone is None:
            part = int((abs(value) % _SECOND) // timedelta(milliseconds=1))
            return -part if value < timedelta(0) else part
    raise _wrong_type("getMilliseconds", value)


FUNCTIONS: Mapping[str, Function] = {
    "size": size, "startsWith": starts_with, "endsWith": ends_with, "contains": contains,
    "int": as_int, "double": as_double, "bool": as_bool, "string": as_string,
    "timestamp": as_timestamp, "duration": as_duration,
    "dyn": lambda _run, value: value,
    "type": lambda _run, value: Type(kind(value)),
    "getFullYear": _getter("getFullYear", lambda moment: moment.year),
    "getMonth": _getter("getMonth", lambda moment: moment.month - 1),
    "getDate": _getter("getDate", lambda moment: moment.day),
    "getDayOfMonth": _getter("getDayOfMonth", lambda moment: moment.day - 1),
    "getDayOfWeek": _getter("getDayOfWeek", lambda moment: moment.isoweekday() % 7),
    "getDayOfYear": _getter("getDayOfYear", lambda moment: moment.timetuple().tm_yday - 1),
    "getHours": _getter("getHours", lambda moment: moment.hour, timedelta(hours=1)),
    "getMinutes": _getter("getMinutes", lambda moment: moment.minute, timedelta(minutes=1)),
    "getSeconds": _getter("getSeconds", lambda moment: moment.second, _SECOND),
    "getMilliseconds": _milliseconds,
}  # fmt: skip
