"""What a kernel wrote, as much of it as is asked for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from providers.base import Provider
    from schemas.kinds.cluster import Cluster


@dataclass(frozen=True, slots=True)
class LogRequest:
    """`tail`: lines; `since`: as a person writes it."""

    follow: bool = False
    tail: int | None = None
    since: str | None = None


def read_logs(provider: Provider, cluster: Cluster, kernel_id: str, wanted: LogRequest) -> Iterator[bytes]:
    """Raises ProviderError, NotAble, and CommandError for a time that is none."""
    if wanted.since is None:
        return provider.logs(kernel_id, follow=wanted.follow, tail=wanted.tail)
    from bai.queries.names.moments import parse_time
    from providers.required_abilities import require_log_times

    since = parse_time(wanted.since, time.time())
    return require_log_times(provider, cluster).logs_since(kernel_id, since, follow=wanted.follow)
