"""From a repository's working directory or commit, and another commit, to a Review of what lies between."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from reconciler.observe.endpoints import endpoints
from reconciler.observe.node_status import upkeep
from reconciler.review.build import Version, review
from reconciler.review.predicted_state import as_seen
from reconciler.review.values import Review
from reconciler.sources.git import commit_of, committed_at, common_ancestor, said
from reconciler.sources.source import Source, choose_cluster, make_desired
from reconciler.trust.gate import Gate
from reconciler.values.provision_status import Upkeep
from reconciler.values.state import Actual, Desired
from reconciler.workspace.placement_policies import placer
from reconciler.workspace.workspace import Workspace
from schemas.kinds.cluster import Cluster
from schemas.problems.errors import CannotRead, PlanError


def review_since(
    workspace: Workspace,
    base: str,
    *,
    exactly: bool = False,
    gate: Gate | None = None,
    seen: Actual | None = None,
) -> Review:
    """What the workspace's documents do, compared with the commit that they have in common with `base`, or
    with `base` itself.

    On what is declared and what is recorded: no provider is asked. The time is the base's, or when something
    was last recorded, so that the same documents and records give the same bytes. `gate`: what its commits
    must pass. `seen`: what somebody has just seen of the cluster, which counts in place of what is recorded.
    Raises CannotRead, InvalidRepository, PlanError.
    """
    source = workspace.source
    git = _git(workspace, base)
    start = commit_of(git, base) if exactly else common_ancestor(git, base, source.revision or "HEAD")
    found = _reviewed(workspace, _desired(workspace, start), workspace.desired(), start, seen)
    if gate is not None:
        tip = commit_of(git, source.revision or "HEAD")
        found = replace(found, distrusted=gate.refusals(git, tip, start))
    return found if found.head or _edited(source) else replace(found, head=commit_of(git, "HEAD"))


def review_of(workspace: Workspace, revision: str) -> Review:
    """What another commit would do, on what the workspace's own documents ask for. Raises the same."""
    commit = commit_of(_git(workspace, revision), revision)
    head = _desired(workspace, commit)
    if head is None:
        raise PlanError(why=f"{commit[:12]} has no cluster {workspace.cluster.name}")
    return _reviewed(workspace, workspace.desired(), head, commit)


def _reviewed(
    workspace: Workspace, base: Desired | None, head: Desired, start: str, seen: Actual | None = None
) -> Review:
    now = max(committed_at(_git(workspace, start), start), _last(workspace))
    own = workspace.desired()
    if seen is None:
        actual = workspace.actual(offline=True)
    else:
        actual = replace(as_seen(seen, now), upkeep=_upkeep(own, seen))

    def version(desired: Desired) -> Version:
        found = actual.upkeep if desired is own else _upkeep(desired, actual)
        return Version(desired, found, placer(desired))

    return review(version(base) if base is not None else None, version(head), actual, now)


def _upkeep(desired: Desired, actual: Actual) -> Upkeep | None:
    """How the nodes stand against other documents than those that `actual` was seen with."""
    cluster = choose_cluster(desired.repository, desired.cluster)
    return upkeep(desired, endpoints(desired.nodes, cluster.spec), actual.standings, None)


def _git(workspace: Workspace, revision: str) -> Path:
    source = workspace.source
    if source.git is None:
        raise CannotRead(what=f"revision {revision}", why=f"{source.directory} is not in a git repository")
    return source.git


def _desired(workspace: Workspace, commit: str) -> Desired | None:
    """What the documents said at this commit; None where it does not know the cluster."""
    repository, commit = replace(workspace.source, revision=commit).load()
    name = workspace.cluster.name
    if name not in {cluster.name for cluster in repository.of(Cluster)}:
        return None
    return make_desired(repository, name, repo=workspace.repo_id, commit=commit)


def _edited(source: Source) -> bool:
    """Whether the folder's files are others than those of the commit that is checked out."""
    assert source.git is not None
    return said(source.git, "status", "--porcelain", "--", source.subpath or ".") != []


def _last(workspace: Workspace) -> float:
    if not workspace.has_store:
        return 0.0
    events = workspace.store.events(workspace.cluster.name, limit=1)
    return events[-1].at if events else 0.0
