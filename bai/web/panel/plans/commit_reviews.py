"""What commits of a cluster's documents would do: found by their names, and made once for all who look."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bai.web.cluster_loops import ServedCluster
from bai.web.etag_cache import ENTRY_OVERHEAD, VersionedCache
from bai.web.panel.plans.commits import require_git
from bai.web.panel.plans.open_requests import KnownRequests, OpenRequests
from providers.forge.of_remote import forge_of_remote
from reconciler.gitops.proposed_heads import ProposedHeads
from reconciler.review.between_commits import ReviewedCommit, desired_at, reviewed_commit
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.plan import PlanError
from schemas.problems.errors.repository import CannotRead

if TYPE_CHECKING:
    from providers.forge.base import Forge
    from reconciler.values.state import Desired

MOST_KEPT = 8
"""Reviews that are kept, of one version of the cluster."""
MOST_DOCUMENTS = 4
"""Commits whose documents are kept."""
FETCH_INTERVAL = 30.0
"""Seconds after which a replica that stands by asks the remote again."""
_PULL = re.compile(r"#([1-9][0-9]{0,8})")
FindForge = Callable[[str], "Forge | None"]


@dataclass(frozen=True, slots=True)
class FoundCommit:
    """A commit by its full name, in the repository that has it. `named`: as somebody asked for it; `pull`:
    number of the pull request whose head it is, 0 for none."""

    named: str
    commit: str
    git: Path
    pull: int = 0


class CommitReviews:
    """Of one cluster. `find_forge`: the forge that a remote's address leads to; raises ForgeUnknown."""

    def __init__(self, cluster: ServedCluster, find_forge: FindForge | None = None) -> None:
        self._cluster = cluster
        self._reviews: VersionedCache[ReviewedCommit] = VersionedCache(
            lambda review: 0, MOST_KEPT * ENTRY_OVERHEAD
        )
        self._documents: VersionedCache[Desired] = VersionedCache(
            lambda desired: 0, MOST_DOCUMENTS * ENTRY_OVERHEAD
        )
        self._lock = threading.Lock()
        self._next_fetch, self._fetches = 0.0, 0
        self._find_forge = find_forge or (lambda url: forge_of_remote(url, os.environ))
        self._heads: ProposedHeads | None = None
        self._requests: OpenRequests | None = None
        self._forge_problem = ""
        followed = cluster.loop.documents.followed
        if followed is not None:
            remote = followed.remote
            self._heads = ProposedHeads(remote, remote.folder.with_name(f"{remote.folder.name}.proposed"))
            self._requests = self._open_requests(remote.url)

    @property
    def git(self) -> Path:
        """The repository of the documents. Raises CannotRead."""
        return require_git(self._cluster.loop.workspace.source.git)

    @property
    def has_commits(self) -> bool:
        """Whether the documents are in a git repository with a commit."""
        return self._cluster.loop.workspace.source.git is not None and bool(self.in_force)

    @property
    def in_force(self) -> str:
        """The commit whose documents are; of a folder's files, the one that is checked out."""
        workspace = self._cluster.loop.workspace
        return workspace.commit or workspace.source.head

    @property
    def needs_approval(self) -> bool:
        """Whether what is followed is carried out only once somebody has approved of it."""
        followed = self._cluster.loop.documents.followed
        return followed is not None and followed.approval

    @property
    def followed(self) -> str:
        """The branch or tag that is; empty for a folder."""
        followed = self._cluster.loop.documents.followed
        return followed.ref if followed is not None else ""

    def newest(self) -> str:
        """The commit that what is followed names now; what is in force where nothing is followed. Raises
        BaiError."""
        followed = self._cluster.loop.documents.followed
        return followed.remote.resolve(followed.ref) if followed is not None else self.in_force

    def find(self, named: str) -> FoundCommit:
        """A commit, branch, tag, or `#12`: what pull request 12 proposes now. Raises BaiError."""
        if not named.isprintable():
            raise CannotRead(what="this revision", why="it has characters that no name has")
        if (pull := _PULL.fullmatch(named.strip())) is not None:
            if self._heads is None:
                raise CannotRead(what=named, why="no remote is followed that could have pull requests")
            number = int(pull[1])
            return FoundCommit(named.strip(), self._heads.find(number), self._heads.folder, number)
        return FoundCommit(named, self._cluster.find_commit(named), self.git)

    def review(self, found: FoundCommit) -> ReviewedCommit:
        """What it would do beside what runs. Raises CannotRead, InvalidRepository, PlanError, StoreError."""
        key, version = (found.commit, found.git), self._cluster.version()
        return self._reviews.get(key, version, lambda: self._make_review(found))

    def _make_review(self, found: FoundCommit) -> ReviewedCommit:
        made = reviewed_commit(self._cluster.loop.workspace, found.commit, found.git)
        followed = self._cluster.loop.documents.followed
        if followed is None or followed.gate is None:
            return made
        refused = followed.gate.refusals(found.git, found.commit, made.base.commit)
        return replace(made, review=replace(made.review, untrusted_commits=refused))

    def documents(self, commit: str, git: Path) -> Desired:
        """What the documents say at a commit. Raises CannotRead, InvalidRepository, PlanError."""
        return self._documents.get((commit, git), "", lambda: self._documents_at(commit, git))

    def _documents_at(self, commit: str, git: Path) -> Desired:
        workspace = self._cluster.loop.workspace
        found = desired_at(workspace, commit, replace(workspace.source, git=git))
        if found is None:
            raise PlanError(why=f"{commit[:12]} has no cluster {workspace.cluster.name}")
        return found

    def refresh(self) -> int:
        """Where another replica leads, nobody here asks the remote: whoever looks does, now and then. How
        often that was."""
        followed = self._cluster.loop.documents.followed
        if followed is not None and not self._cluster.loop.leads():
            with self._lock:
                due, now = time.monotonic() >= self._next_fetch, time.monotonic()
                if due:
                    self._next_fetch, self._fetches = now + FETCH_INTERVAL, self._fetches + 1
            if due:
                with contextlib.suppress(BaiError):
                    followed.remote.fetch(followed.ref)
        return self._fetches

    def open_requests(self) -> KnownRequests | None:
        """What waits on the forge; None where none is configured."""
        if self._requests is None:
            return KnownRequests(problem=self._forge_problem) if self._forge_problem else None
        return self._requests.known()

    def _open_requests(self, url: str) -> OpenRequests | None:
        try:
            forge = self._find_forge(url)
        except BaiError as error:
            self._forge_problem = str(error)
            return None
        return OpenRequests(forge.open_requests) if forge is not None else None
