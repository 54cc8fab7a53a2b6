"""What a workspace's provider can do besides keeping kernels; without the ability, an error that says so."""

from __future__ import annotations

from providers.abilities import Attaches, Copies, Forwards, Measures, Recalls, Tells
from reconciler.workspace.workspace import Workspace
from schemas.problems.errors import NotAble


def attaches(workspace: Workspace) -> Attaches:
    provider = workspace.provider
    if not isinstance(provider, Attaches):
        raise _not_able(workspace, "attach a terminal")
    return provider


def copies(workspace: Workspace) -> Copies:
    provider = workspace.provider
    if not isinstance(provider, Copies):
        raise _not_able(workspace, "copy files")
    return provider


def forwards(workspace: Workspace) -> Forwards:
    provider = workspace.provider
    if not isinstance(provider, Forwards):
        raise _not_able(workspace, "forward ports")
    return provider


def recalls(workspace: Workspace) -> Recalls:
    provider = workspace.provider
    if not isinstance(provider, Recalls):
        raise _not_able(workspace, "tell when output was written")
    return provider


def measures(workspace: Workspace) -> Measures:
    provider = workspace.provider
    if not isinstance(provider, Measures):
        raise _not_able(workspace, "measure what sessions use")
    return provider


def tells(workspace: Workspace) -> Tells:
    provider = workspace.provider
    if not isinstance(provider, Tells):
        raise _not_able(workspace, "tell what happens to sessions")
    return provider


def _not_able(workspace: Workspace, what: str) -> NotAble:
    name = workspace.cluster.spec.provider
    hint = f"cluster {workspace.cluster.name} runs on it; other providers can"
    return NotAble(provider=name, what=what, hint=hint)
