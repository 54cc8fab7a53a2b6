"""Hours that were held, as rows, JSON and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from bai.render.humanize import clean, iso_time
from reconciler.values.usage.totals import MILLI_HOUR, HeldTotal, Period, names_of

COLUMNS = ("sessions", "starts", "gpu hours", "cpu hours", "memory GiB hours")
_FIGURES = ("sessions", "starts", "gpuHours", "cpuHours", "memoryGiBHours")
_GIB_HOUR = 3_600_000 << 30
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""How a cell begins that a spreadsheet takes for a formula, some also in their full width."""


def usage_rows(by: str, totals: Mapping[str, HeldTotal], *, wide: bool) -> list[list[str]]:
    """A row for each, and their sum; `wide`: with memory, and hours by slot."""
    rows = [_row(list(names_of(by, key).values()), total, wide) for key, total in totals.items()]
    sum_names = ["total", *("" for _ in by.split("-")[1:])]
    return [*rows, _row(sum_names, sum_of(totals), wide)] if len(rows) > 1 else rows


def usage_columns(by: str, *, wide: bool) -> list[str]:
    return [*by.split("-"), *(COLUMNS if wide else COLUMNS[:4]), *(["by slot"] if wide else [])]


def _row(names: list[str], total: HeldTotal, wide: bool) -> list[str]:
    cells = [
        *map(clean, names),
        str(len(total.sessions)),
        str(len(total.starts)),
        _text(total.gpu, MILLI_HOUR),
        _text(total.cpu, MILLI_HOUR),
    ]
    if wide:
        slots = (f"{clean(slot)} {_text(amount, MILLI_HOUR)}" for slot, amount in sorted(total.slots.items()))
        cells += [_text(total.memory, _GIB_HOUR), ", ".join(slots)]
    return cells


def sum_of(totals: Mapping[str, HeldTotal]) -> HeldTotal:
    """All together."""
    found = HeldTotal()
    for total in totals.values():
        found.sessions |= total.sessions
        found.starts |= total.starts
        found.cpu, found.gpu = found.cpu + total.cpu, found.gpu + total.gpu
        found.memory += total.memory
        for slot, amount in total.slots.items():
            found.slots[slot] = found.slots.get(slot, 0) + amount
    return found


def _text(amount: int, unit: int) -> str:
    return f"{amount / unit:.2f}"


def usage_json(
    by: str, period: Period, totals: Mapping[str, HeldTotal], since: float | None
) -> dict[str, Any]:
    """`bai.usage/v1`; `since`: from when on everything is known."""
    return {
        "by": by,
        **known_times(period, since),
        "items": [{**names_of(by, key), **_total_json(total)} for key, total in totals.items()],
        "total": _total_json(sum_of(totals)),
    }


def known_times(period: Period, since: float | None) -> dict[str, Any]:
    """Of a `bai.usage/v1`, what it is about, and from when on everything is known."""
    return {
        "since": iso_time(period.since),
        "until": iso_time(period.until),
        "completeSince": iso_time(since) if since is not None else None,
    }


def _total_json(total: HeldTotal) -> dict[str, Any]:
    return {
        "sessions": len(total.sessions),
        "starts": len(total.starts),
        "gpuHours": round(total.gpu / MILLI_HOUR, 6),
        "cpuHours": round(total.cpu / MILLI_HOUR, 6),
        "memoryGiBHours": round(total.memory / _GIB_HOUR, 6),
        "slots": {slot: round(amount / MILLI_HOUR, 6) for slot, amount in sorted(total.slots.items())},
    }


def incomplete_note(report: Mapping[str, Any]) -> str:
    """That what is older is not known; empty when all of a `bai.usage/v1` is. Raises KeyError, TypeError."""
    since = report["completeSince"]
    if since is None or since <= report["since"]:
        return ""
    return f"note: what ended before {clean(since)} may be missing; it is not known"


def usage_csv(report: Mapping[str, Any]) -> str:
    """A line for each of a `bai.usage/v1`, without a sum; texts that a spreadsheet would compute stay texts.
    Raises KeyError, TypeError and AttributeError for what is none."""
    columns = str(report["by"]).split("-")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*columns, *_FIGURES])
    for item in report["items"]:
        names = (_text_cell(clean(item[each])) for each in columns)
        writer.writerow([*names, *(_number(item[each]) for each in _FIGURES)])
    return out.getvalue()


def _text_cell(text: str) -> str:
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


def _number(value: Any) -> float:
    if isinstance(value, int | float):
        return value
    raise TypeError(value)
