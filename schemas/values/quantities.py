"""Amounts as people write them ⇄ integers in their smallest unit, exactly; floats never enter accounting.

| type | written | held |
|---|---|---|
| `Memory` | `512MiB`, `64GiB`, `1TB`, a whole number of bytes | bytes |
| `Pages2Mi`, `Pages1Gi` | the same, in whole pages | bytes |
| `Cpu` | `16`, `1.5`, `500m` | milli-cores; whole cores are exclusive |
| `Shares` | `0.5` | milli |
| `Duration` | `90s`, `1h30m` | seconds |
| `Percent` | `5%` | whole percent |
| `Timestamp` | `2026-12-01T00:00:00Z` | an aware datetime |
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema

from schemas.problems.issues import value_error
from schemas.problems.text import format_value

BIGGEST = 2**63 - 1
_BINARY = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
_DECIMAL = {"KB": 10**3, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
_UNITS = {**dict(reversed(_BINARY.items())), **dict(reversed(_DECIMAL.items())), "B": 1}
_SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}

NUMBER = r"[0-9]{1,19}(\.[0-9]{1,18})?"
MEMORY_PATTERN = rf"^{NUMBER} ?(B|[KMGTP]iB|[kKMGTP]B)$"
CPU_PATTERN = r"^([0-9]{1,9}(\.[0-9]{1,3})?|[0-9]{1,12}m)$"
SHARES_PATTERN = r"^[0-9]{1,9}(\.[0-9]{1,3})?$"
DURATION_PATTERN = r"^(?=[0-9])([0-9]{1,9}w)?([0-9]{1,9}d)?([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s)?$"
TIMESTAMP_PATTERN = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"(\.[0-9]{1,6})?(Z|[-+]([01][0-9]|2[0-3]):[0-5][0-9])$"
)
PERCENT_PATTERN = r"^(100|[0-9]{1,2})%$"

_MEMORY = re.compile(rf"({NUMBER}) ?([A-Za-z]+)\Z", re.ASCII)
_CPU = re.compile(CPU_PATTERN.replace("$", r"\Z"))
_SHARES = re.compile(SHARES_PATTERN.replace("$", r"\Z"))
_TIMESTAMP = re.compile(TIMESTAMP_PATTERN.replace("$", r"\Z"))
_DURATION = re.compile(DURATION_PATTERN.replace("$", r"\Z"))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _require_in_range(value: int, text: object) -> int:
    if not 0 <= value <= BIGGEST:
        raise ValueError(f"{format_value(text)} is out of range")
    return value


def parse_memory(value: object) -> int:
    """Bytes of `64GiB`, `1.5TB` or a whole number. Raises ValueError, with what was probably meant."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _require_in_range(value, value)
    found = _MEMORY.match(value) if isinstance(value, str) else None
    if not found:
        raise ValueError(f"{format_value(value)} is not an amount of memory such as 512MiB or 64GiB")
    number, unit = Decimal(found[1]), found[3]
    if unit not in _UNITS:
        raise ValueError(f"{format_value(unit)} is not a unit of memory; {_unit_hint(found[1], unit)}")
    amount = number * _UNITS[unit]
    if amount != amount.to_integral_value():
        raise ValueError(f"{format_value(value)} is not a whole number of bytes")
    return _require_in_range(int(amount), value)


def _unit_hint(number: str, unit: str) -> str:
    first = unit[:1].upper()
    if first in "KMGTP" and unit.lower() in {
        first.lower(),
        f"{first.lower()}i",
        f"{first.lower()}b",
        f"{first.lower()}ib",
    }:
        return f"did you mean {number}{first}iB?"
    return "write B, KiB, MiB, GiB, TiB, PiB (1024) or kB, MB, GB, TB, PB (1000)"


@lru_cache(maxsize=4096)
def format_memory(value: int) -> str:
    """The shortest exact text; bigger and binary units first."""
    exact = [f"{value // size}{unit}" for unit, size in _UNITS.items() if value % size == 0]
    return min(exact, key=len)


def _parse_milli(value: object, pattern: re.Pattern[str], what: str) -> int:
    if not (_is_number(value) or isinstance(value, str)):
        raise ValueError(f"{format_value(value)} is not {what}")
    text = value if isinstance(value, str) else _format_decimal(value)
    if not pattern.match(text):
        raise ValueError(f"{format_value(value)} is not {what}")
    if text.endswith("m"):
        return int(text[:-1])
    return int(Decimal(text) * 1000)


def _format_decimal(number: object) -> str:
    """A number without exponent; a float with the digits that were written."""
    try:
        return f"{Decimal(repr(number)):f}" if not isinstance(number, int) else str(number)
    except (InvalidOperation, ValueError):
        return "?"


def parse_cpu(value: object) -> int:
    """Milli-cores of `16`, `1.5` or `500m`. Raises ValueError otherwise."""
    return _parse_milli(value, _CPU, "a number of cores such as 16, 1.5 or 500m")


def format_cpu(value: int) -> int | str:
    """Whole cores as a number, parts as `500m`."""
    return value // 1000 if value % 1000 == 0 else f"{value}m"


def is_exclusive(cpu: int) -> bool:
    """Whole cores are pinned for one container alone; anything else is a share of the cores that are left."""
    return cpu > 0 and cpu % 1000 == 0


def parse_shares(value: object) -> int:
    """Thousandths of `0.5`. Raises ValueError otherwise."""
    return _parse_milli(value, _SHARES, "a number of shares such as 0.5, with at most three decimals")


def format_shares(value: int) -> int | float:
    """The shortest number."""
    return value // 1000 if value % 1000 == 0 else value / 1000


def parse_duration(value: object) -> int:
    """Seconds of `90s`, `1h30m`, `2d`. Raises ValueError otherwise."""
    if _is_number(value):
        raise ValueError(
            f"{format_value(value)} has no unit; did you mean {format_value(value)}s?".replace("'", "")
        )
    found = _DURATION.match(value) if isinstance(value, str) else None
    if not found:
        raise ValueError(f"{format_value(value)} is not a duration such as 90s, 30m, 1h30m or 2d")
    return sum(int(part[:-1]) * _SECONDS[part[-1]] for part in found.groups() if part)


def format_duration(value: int) -> str:
    """The shortest text, biggest units first: `1h30m`."""
    parts: list[str] = []
    for unit, size in _SECONDS.items():
        count, value = divmod(value, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def parse_percent(value: object) -> int:
    """Whole percent of `5%`. Raises ValueError otherwise."""
    if isinstance(value, str) and re.match(PERCENT_PATTERN.replace("$", r"\Z"), value):
        return int(value[:-1])
    raise ValueError(f"{format_value(value)} is not a percentage from 0% to 100%")


def parse_timestamp(value: object) -> datetime:
    """The moment of `2026-12-01T00:00:00Z`. Raises ValueError for anything without a time zone."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value
    if isinstance(value, str) and _TIMESTAMP.match(value):
        with contextlib.suppress(ValueError):
            return datetime.fromisoformat(value)
    raise ValueError(
        f"{format_value(value)} is not a moment with its time zone, such as 2026-12-01T00:00:00Z"
    )


def format_timestamp(value: datetime) -> str:
    """In UTC, to the second or microsecond."""
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _parsed_by(parse: Callable[[object], object]) -> BeforeValidator:
    def read(value: Any) -> object:
        try:
            return parse(value)
        except ValueError as error:
            message, _, hint = str(error).partition("; ")
            raise value_error(message, hint) from None

    return BeforeValidator(read)


def _text_schema(pattern: str, *examples: str) -> dict[str, Any]:
    return {"type": "string", "pattern": pattern, "examples": list(examples)}


MEMORY_SCHEMA = {
    "anyOf": [
        _text_schema(MEMORY_PATTERN, "512MiB", "64GiB"),
        {"type": "integer", "minimum": 0, "maximum": BIGGEST},
    ]
}
CPU_SCHEMA = {
    "anyOf": [
        _text_schema(CPU_PATTERN, "500m"),
        {"type": "number", "minimum": 0, "exclusiveMaximum": 10**9},
    ]
}
SHARES_SCHEMA = {
    "anyOf": [
        _text_schema(SHARES_PATTERN, "0.5"),
        {"type": "number", "minimum": 0, "exclusiveMaximum": 10**9},
    ]
}
DURATION_SCHEMA = _text_schema(DURATION_PATTERN, "90s", "1h30m")
PERCENT_SCHEMA = _text_schema(PERCENT_PATTERN, "5%")

Memory = Annotated[
    int,
    _parsed_by(parse_memory),
    PlainSerializer(format_memory, return_type=str),
    WithJsonSchema(MEMORY_SCHEMA),
]


def _in_pages_of(size: int) -> AfterValidator:
    def check(value: int) -> int:
        if value % size:
            given, page = format_memory(value), format_memory(size)
            nearest = format_memory(-(-value // size) * size)
            raise value_error(f"{given} is not a whole number of pages of {page}", f"ask for {nearest}")
        return value

    return AfterValidator(check)


Pages2Mi = Annotated[Memory, _in_pages_of(2 * 2**20)]
Pages1Gi = Annotated[Memory, _in_pages_of(2**30)]
Bytes = Annotated[int, _parsed_by(parse_memory), WithJsonSchema(MEMORY_SCHEMA)]
"""`Memory` that is written as a plain number of bytes, for files that machines write."""
Cpu = Annotated[int, _parsed_by(parse_cpu), PlainSerializer(format_cpu), WithJsonSchema(CPU_SCHEMA)]
Shares = Annotated[
    int, _parsed_by(parse_shares), PlainSerializer(format_shares), WithJsonSchema(SHARES_SCHEMA)
]
Duration = Annotated[
    int,
    _parsed_by(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema(DURATION_SCHEMA),
]
Percent = Annotated[
    int,
    _parsed_by(parse_percent),
    PlainSerializer(lambda v: f"{v}%", return_type=str),
    WithJsonSchema(PERCENT_SCHEMA),
]
Timestamp = Annotated[
    datetime,
    _parsed_by(parse_timestamp),
    PlainSerializer(format_timestamp, return_type=str, when_used="json"),
    WithJsonSchema(_text_schema(TIMESTAMP_PATTERN, "2026-12-01T00:00:00Z")),
]
