"""What a cluster's provider can do besides keeping kernels; without the ability, an error that says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.abilities import (
    AttachesTerminal,
    CopiesFiles,
    ForwardsPorts,
    KeepsFiles,
    MeasuresUsage,
    OpensTerminals,
    RecallsLogs,
    StreamsEvents,
)
from schemas.problems.errors.provider import NotAble

if TYPE_CHECKING:
    from providers.base import Provider
    from schemas.kinds.cluster import Cluster


def require_attach(provider: Provider, cluster: Cluster) -> AttachesTerminal:
    if not isinstance(provider, AttachesTerminal):
        raise _not_able(cluster, "attach a terminal")
    return provider


def require_terminals(provider: Provider, cluster: Cluster) -> OpensTerminals:
    if not isinstance(provider, OpensTerminals):
        raise _not_able(cluster, "open terminals for others")
    return provider


def require_copy(provider: Provider, cluster: Cluster) -> CopiesFiles:
    if not isinstance(provider, CopiesFiles):
        raise _not_able(cluster, "copy files")
    return provider


def require_files(provider: Provider, cluster: Cluster) -> KeepsFiles:
    if not isinstance(provider, KeepsFiles):
        raise _not_able(cluster, "list files")
    return provider


def require_port_forward(provider: Provider, cluster: Cluster) -> ForwardsPorts:
    if not isinstance(provider, ForwardsPorts):
        raise _not_able(cluster, "forward ports")
    return provider


def require_log_times(provider: Provider, cluster: Cluster) -> RecallsLogs:
    if not isinstance(provider, RecallsLogs):
        raise _not_able(cluster, "tell when output was written")
    return provider


def require_usage(provider: Provider, cluster: Cluster) -> MeasuresUsage:
    if not isinstance(provider, MeasuresUsage):
        raise _not_able(cluster, "measure what sessions use")
    return provider


def require_events(provider: Provider, cluster: Cluster) -> StreamsEvents:
    if not isinstance(provider, StreamsEvents):
        raise _not_able(cluster, "tell what happens to sessions")
    return provider


def _not_able(cluster: Cluster, what: str) -> NotAble:
    hint = f"cluster {cluster.name} runs on it; other providers can"
    return NotAble(provider=cluster.spec.provider, what=what, hint=hint)
