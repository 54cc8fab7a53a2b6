"""From a repository's working directory or commit, and another commit, to a Review of what lies between."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.observe.endpoints import endpoints
from reconciler.observe.node_status import provision_status
from reconciler.review.build import DocumentVersion, Tell, build_review, tell_nobody
from reconciler.review.memory import ReviewMemory
from reconciler.review.predicted_state import observed_state
from reconciler.review.values import Review
from reconciler.sources.desired import make_desired
from reconciler.sources.source import Source, choose_cluster
from reconciler.store.store import Store
from reconciler.trust.gate import TrustGate
from reconciler.values.provision_status import ProvisionStatus
from reconciler.values.state import Actual, Desired
from reconciler.workspace.placement_policies import planner_for
from reconciler.workspace.workspace import Workspace
from schemas.files.git_objects import commit_time, merge_base, resolve_commit
from schemas.files.git_process import git_lines
from schemas.kinds.cluster import Cluster
from schemas.problems.errors.plan import PlanError
from schemas.problems.errors.repository import CannotRead


def review_since(
    workspace: Workspace,
    base: str,
    *,
    exactly: bool = False,
    gate: TrustGate | None = None,
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
    git = _git_directory(source, base)
    start = resolve_commit(git, base) if exactly else merge_base(git, base, source.revision or "HEAD")
    before = desired_at(workspace, start)
    found = _review_between(
        workspace, before, workspace.desired(), _time_of(source, start), ReviewMemory(), seen=seen
    )
    if gate is not None:
        tip = resolve_commit(git, source.revision or "HEAD")
        found = replace(found, untrusted_commits=gate.refusals(git, tip, start))
    return (
        found
        if found.head or _has_local_changes(source)
        else replace(found, head=resolve_commit(git, "HEAD"))
    )


def review_of(workspace: Workspace, revision: str, memory: ReviewMemory | None = None) -> Review:
    """What another commit would do, on what the workspace's own documents ask for. `memory`: of the reviews
    before. Raises the same."""
    return reviewed_commit(workspace, revision, memory=memory).review


@dataclass(frozen=True, slots=True)
class ReviewedCommit:
    """A review with the documents on both sides of it."""

    review: Review
    base: Desired
    head: Desired


def reviewed_commit(
    workspace: Workspace,
    revision: str,
    git: Path | None = None,
    head: Desired | None = None,
    memory: ReviewMemory | None = None,
    tell: Tell = tell_nobody,
) -> ReviewedCommit:
    """The same as `review_of`. `git`: the repository that has the commit, where it is another one than the
    documents'; `head`: what the documents say there, where that is known. Raises the same."""
    source = workspace.source if git is None else replace(workspace.source, git=git)
    commit = resolve_commit(_git_directory(source, revision), revision)
    head = head or desired_at(workspace, commit, source)
    if head is None:
        raise PlanError(why=f"{commit[:12]} has no cluster {workspace.cluster.name}")
    base = workspace.desired()
    memory = memory or ReviewMemory()
    return ReviewedCommit(
        _review_between(workspace, base, head, _time_of(source, commit), memory, tell=tell), base, head
    )


def review_of_documents(
    own: Desired, head: Desired, seen: Actual, now: float, memory: ReviewMemory, tell: Tell = tell_nobody
) -> Review:
    """What documents that nobody has committed would do, on what `own` asks for and somebody has just seen of
    the cluster. Raises PlanError."""
    actual = observed_state(seen, now, memory.existing)
    actual = replace(actual, provision_status=_provision_status(own, seen))
    base = DocumentVersion(own, actual.provision_status, planner_for(own))
    changed = DocumentVersion(head, _provision_status(head, actual), planner_for(head))
    return build_review(base, changed, actual, now, memory, tell)


def _review_between(
    workspace: Workspace,
    base: Desired | None,
    head: Desired,
    committed: float,
    memory: ReviewMemory,
    *,
    seen: Actual | None = None,
    tell: Tell = tell_nobody,
) -> Review:
    own = workspace.desired()
    now = max(committed, _last_event_time(workspace.existing_store, own.cluster))
    if seen is None:
        # Not the workspace's own memo: a loop that looks meanwhile keeps what it knows.
        actual = workspace.actual(offline=True, memo=memory.existing)
    else:
        actual = observed_state(seen, now, memory.existing)
        actual = replace(actual, provision_status=_provision_status(own, seen))

    def version(desired: Desired) -> DocumentVersion:
        found = actual.provision_status if desired is own else _provision_status(desired, actual)
        return DocumentVersion(desired, found, planner_for(desired))

    before = version(base) if base is not None else None
    return build_review(before, version(head), actual, now, memory, tell)


def _provision_status(desired: Desired, actual: Actual) -> ProvisionStatus | None:
    """How the nodes stand against other documents than those that `actual` was seen with."""
    cluster = choose_cluster(desired.repository, desired.cluster)
    return provision_status(desired, endpoints(desired.nodes, cluster.spec), actual.provision_records, None)


def _git_directory(source: Source, revision: str) -> Path:
    if source.git is None:
        raise CannotRead(what=f"revision {revision}", why=f"{source.directory} is not in a git repository")
    return source.git


def _time_of(source: Source, commit: str) -> float:
    return commit_time(_git_directory(source, commit), commit)


def desired_at(workspace: Workspace, commit: str, source: Source | None = None) -> Desired | None:
    """What the documents said at this commit; None where it does not know the cluster. `source`: in which it
    is, the workspace's own by default. What is the same as in the workspace's documents is not read anew.
    Raises CannotRead, InvalidRepository."""
    documents, known = workspace.reading_caches()
    repository, commit = replace(source or workspace.source, revision=commit).load(documents)
    name = workspace.cluster.name
    if name not in {cluster.name for cluster in repository.of(Cluster)}:
        return None
    return make_desired(repository, name, repo=workspace.repo_id, commit=commit, cache=known)


def _has_local_changes(source: Source) -> bool:
    """Whether the folder's files are others than those of the commit that is checked out."""
    assert source.git is not None
    return git_lines(source.git, "status", "--porcelain", "--", source.subpath or ".") != []


def _last_event_time(store: Store | None, cluster: str) -> float:
    events = store.events(cluster, limit=1) if store is not None else ()
    return events[-1].at if events else 0.0
