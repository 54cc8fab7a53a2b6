"""Numbers and names as people read them. What came from outside passes through `clean` before it is shown."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime

from schemas.values.resource_ref import ref_of

_BYTE_UNITS = ((1 << 50, "PiB"), (1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_DURATION_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))
_YEAR_10000 = 253_402_300_800
_NUMBERED = re.compile(r"(|.*\D)(0|[1-9]\d{0,8})")
_COUNTED = re.compile(r"(|.*[^0-9])([0-9]{1,9})")
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def clean(text: str, limit: int = 0) -> str:
    """The text with control and direction characters made visible, cut to `limit` characters (0: whole)."""
    shown = _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
    return shown[: limit - 3] + "..." if 0 < limit < len(shown) else shown


def truncate_around_difference(before: str, after: str, limit: int) -> tuple[str, str]:
    """Both as `clean` gives them, cut so that where they begin to differ is seen."""
    old, new = clean(before), clean(after)
    if max(len(old), len(new)) <= limit:
        return old, new
    same = next(
        (at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new))
    )
    begin = max(0, same - limit // 4)
    return _excerpt(old, begin, limit), _excerpt(new, begin, limit)


def _excerpt(text: str, begin: int, limit: int) -> str:
    lead = "..." if begin > 3 else ""
    rest = text[begin:] if lead else text
    room = limit - len(lead)
    return lead + (rest[: room - 3] + "..." if len(rest) > room else rest)


def ascii_only(text: str) -> str:
    """The nearest ASCII text."""
    plain = text.translate(_ASCII)
    return unicodedata.normalize("NFKD", plain).encode("ascii", "replace").decode()


_ASCII = str.maketrans({"·": "-", "→": "->", "≥": ">=", "≤": "<=", "…": "...", "–": "-", "×": "x", "’": "'"})


def size(count: int) -> str:
    """Bytes with a binary unit: `64GiB`, `1.5TiB`, `0`."""
    for unit, name in _BYTE_UNITS:
        if count >= unit:
            whole, rest = divmod(count * 10, unit * 10)
            tenth = rest // unit
            return f"{whole}.{tenth}{name}" if tenth and whole < 100 else f"{whole}{name}"
    return f"{count}B" if count else "0"


def format_milli(milli: int) -> str:
    """Thousandths as a decimal: 16000 → `16`, 500 → `0.5`."""
    whole, rest = divmod(milli, 1000)
    return f"{whole}.{rest:03d}".rstrip("0") if rest else str(whole)


def slot_amount(name: str, amount: int) -> str:
    """One amount of a slot in words: `16 cpu`, `64GiB mem`, `2 cuda.device`, `0.5 cuda.shares`."""
    if name == "mem" or name.startswith("hugepages-"):
        return size(amount)
    if name == "cpu" or name.endswith(".shares"):
        return format_milli(amount)
    return str(amount)


def slot_amounts(amounts: Mapping[str, int]) -> str:
    """All amounts that are not zero: `cpu 16, mem 64GiB, cuda.device 2`."""
    return ", ".join(
        f"{name} {slot_amount(name, amount)}" for name, amount in sorted(amounts.items()) if amount
    )


def duration(seconds: float) -> str:
    """The two largest units: `3d4h`, `5m10s`, `0s`."""
    left = max(0, int(seconds))
    parts: list[str] = []
    for unit, name in _DURATION_UNITS:
        count, left = divmod(left, unit)
        if count:
            parts.append(f"{count}{name}")
    if left or not parts:
        parts.append(f"{left}s")
    return "".join(parts[:2])


def iso_time(seconds: float | None) -> str:
    """A time as ISO 8601 in UTC to the second; empty when there is none, or none that a calendar has."""
    if seconds is None or not 0 <= seconds < _YEAR_10000:
        return ""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def plural(count: int, noun: str, many: str = "") -> str:
    """`1 session`, `2 sessions`."""
    return f"{count} {noun if count == 1 else many or noun + 's'}"


def join_limited(items: Iterable[object], most: int = 6) -> str:
    """`a, b, c and 4 more`."""
    names = [str(item) for item in items]
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def name_list(names: Iterable[str], most: int) -> str:
    """Names with neighbouring numbers joined, at most so many parts: `dgx-[01-16], lab-3 and 12 more`."""
    every = list(names)
    parts = [*itertools.islice(_each_range(every), most)]
    rest = len(every) - sum(count for _, count in parts)
    shown = ", ".join(text for text, _ in parts)
    return f"{shown} and {rest} more" if rest else shown


def name_ranges(names: Iterable[str]) -> list[tuple[str, int]]:
    """The names in their order, three and more that only count up as one text, each with how many it stands
    for: `dgx-[01-16]` for 16, `lab-3` for one."""
    return [*_each_range(names)]


def _each_range(names: Iterable[str]) -> Iterator[tuple[str, int]]:
    return (part for run in _runs(names, _COUNTED) for part in _run_parts(run))


def _runs(names: Iterable[str], numbered: re.Pattern[str]) -> Iterator[list[str]]:
    """The names in their order, neighbours that only count up together; `numbered` has stem and number."""
    run: list[str] = []
    last: tuple[str, int, int] | None = None
    for name in names:
        found = numbered.fullmatch(name)
        here = (found[1], int(found[2]), len(found[2])) if found else None
        if run and not (here and last and _is_next(last, here)):
            yield run
            run = []
        run.append(name)
        last = here
    if run:
        yield run


def _is_next(last: tuple[str, int, int], here: tuple[str, int, int]) -> bool:
    """Whether `here` is the name after `last`: `n-9` and `n-10`, or `n-09` and `n-10`; stem, number,
    digits."""
    plain = here[2] == len(str(here[1])) and last[2] == len(str(last[1]))
    return last[0] == here[0] and here[1] == last[1] + 1 and (here[2] == last[2] or plain)


def _run_parts(run: list[str]) -> list[tuple[str, int]]:
    if len(run) < 3:
        return [(name, 1) for name in run]
    first, last = _COUNTED.fullmatch(run[0]), _COUNTED.fullmatch(run[-1])
    assert first and last
    return [(f"{first[1]}[{first[2]}-{last[2]}]", len(run))]


def number_ranges(names: Iterable[object]) -> str:
    """Names with neighbouring numbers joined: `0-3, 6`, `mlx5_0-3, mlx5_6`; others as they are."""
    return ", ".join(map(_format_range, _runs(map(str, names), _NUMBERED)))


def _format_range(run: list[str]) -> str:
    last = _NUMBERED.fullmatch(run[-1])
    return f"{run[0]}-{last[2]}" if last and len(run) > 1 else run[0]


def shared_lines(sets: Collection[Iterable[str]], most: int, others: Callable[[int], str]) -> Iterator[str]:
    """The lines that most of the sets have, and how many of these do; `others` tells of the rest by its
    number."""
    ranked = Counter(line for lines in sets for line in dict.fromkeys(lines)).most_common()
    for line, count in ranked[:most]:
        yield line if count == len(sets) else f"{count} of them: {line}"
    if len(ranked) > most:
        yield others(len(ranked) - most)


def short_name(identity: str) -> str:
    """An identity without its kind: `Session/vision/llama` → `vision/llama`."""
    return clean(ref_of(identity).qualified_name or identity)
