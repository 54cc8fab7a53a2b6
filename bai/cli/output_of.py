"""What a kernel wrote, as much of it as is asked for."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from bai.render.words import clean
from schemas.errors import CommandError

if TYPE_CHECKING:
    from reconciler.workspace import Workspace

_AGO = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_UNITS = (86_400, 3_600, 60, 1)


@dataclass(frozen=True, slots=True)
class Wanted:
    """`tail`: lines; `since`: as a person writes it."""

    follow: bool = False
    tail: int | None = None
    since: str | None = None


def read(workspace: Workspace, kernel_id: str, wanted: Wanted) -> Iterator[bytes]:
    """Raises ProviderError, NotAble, and CommandError for a time that is none."""
    if wanted.since is None:
        return workspace.provider.logs(kernel_id, follow=wanted.follow, tail=wanted.tail)
    from bai.cli.ability import recalls

    since = moment_of(wanted.since, time.time())
    return recalls(workspace).logs_since(kernel_id, since, follow=wanted.follow)


def moment_of(text: str, now: float) -> datetime:
    """`10m` or `1h30m` before `now` (seconds since the epoch), or an ISO 8601 time.

    A time without a zone is this machine's. Raises CommandError.
    """
    ago = _AGO.fullmatch(text)
    if text and ago:
        seconds = sum(int(part or 0) * unit for part, unit in zip(ago.groups(), _UNITS, strict=True))
        if seconds < now:
            return datetime.fromtimestamp(now - seconds, UTC)
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        why = f"{clean(text)!r} is not a time"
        raise CommandError(why=why, hint="write 10m, 2h30m or 2026-01-31T12:00:00Z") from None
