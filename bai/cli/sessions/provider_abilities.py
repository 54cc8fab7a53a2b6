"""What a workspace's provider can do besides keeping kernels; without the ability, an error that says so."""

from __future__ import annotations

from providers.abilities import (
    AttachesTerminal,
    CopiesFiles,
    ForwardsPorts,
    MeasuresUsage,
    RecallsLogs,
    StreamsEvents,
)
from reconciler.workspace.workspace import Workspace
from schemas.problems.errors.provider import NotAble


def require_attach(workspace: Workspace) -> AttachesTerminal:
    provider = workspace.provider
    if not isinstance(provider, AttachesTerminal):
        raise _not_able(workspace, "attach a terminal")
    return provider


def require_copy(workspace: Workspace) -> CopiesFiles:
    provider = workspace.provider
    if not isinstance(provider, CopiesFiles):
        raise _not_able(workspace, "copy files")
    return provider


def require_port_forward(workspace: Workspace) -> ForwardsPorts:
    provider = workspace.provider
    if not isinstance(provider, ForwardsPorts):
        raise _not_able(workspace, "forward ports")
    return provider


def require_log_times(workspace: Workspace) -> RecallsLogs:
    provider = workspace.provider
    if not isinstance(provider, RecallsLogs):
        raise _not_able(workspace, "tell when output was written")
    return provider


def require_usage(workspace: Workspace) -> MeasuresUsage:
    provider = workspace.provider
    if not isinstance(provider, MeasuresUsage):
        raise _not_able(workspace, "measure what sessions use")
    return provider


def require_events(workspace: Workspace) -> StreamsEvents:
    provider = workspace.provider
    if not isinstance(provider, StreamsEvents):
        raise _not_able(workspace, "tell what happens to sessions")
    return provider


def _not_able(workspace: Workspace, what: str) -> NotAble:
    name = workspace.cluster.spec.provider
    hint = f"cluster {workspace.cluster.name} runs on it; other providers can"
    return NotAble(provider=name, what=what, hint=hint)
