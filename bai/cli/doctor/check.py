"""What a check says, and how checks are run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `failed`: something needed does not work; `warning`: something is missed."""

    name: str
    status: Status
    message: str
    hint: str = ""


Check = Callable[[], Iterable[Finding]]


def run_checks(checks: Iterable[tuple[str, Check]]) -> list[Finding]:
    """All findings. A check that breaks is a failed one, named; it never ends the others."""
    found: list[Finding] = []
    for name, check in checks:
        try:
            found += check()
        except Exception as error:
            found.append(Finding(name, "failed", f"the check itself broke: {type(error).__name__}: {error}"))
    return found
