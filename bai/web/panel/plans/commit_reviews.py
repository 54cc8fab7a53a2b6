"""What commits of a cluster's documents would do: found by their names, and made once for all who look."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bai.web.cluster_loops import ServedCluster
from bai.web.etag_cache import ENTRY_OVERHEAD, VersionedCache
from bai.web.panel.plans.commits import (
    CommitRow,
    FileRow,
    FirstRows,
    changed_files,
    commits_between,
    require_git,
)
from bai.web.panel.plans.open_requests import KnownRequests, OpenRequests
from bai.web.panel.plans.planning_queue import PATIENCE, PlanningQueue, Progress
from reconciler.gitops.proposed_heads import ProposedHeads
from reconciler.review.between_commits import ReviewedCommit, desired_at, reviewed_commit
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.plan import PlanError
from schemas.problems.errors.repository import CannotRead
from schemas.problems.errors.server import TooMuchPlanned

if TYPE_CHECKING:
    from providers.forge.base import Forge
    from reconciler.review.build import Tell
    from reconciler.values.state import Desired

MOST_KEPT = 8
"""Reviews that are kept."""
LONG, STALE = PATIENCE, 10.0
"""Seconds that making one must take to be long, and how many times as long it is shown before it is made
anew: pages that are open do not keep a large cluster's server busy."""
ORDER_PATIENCE = 20.0
"""Seconds that an order waits for what it would change now."""
MOST_DOCUMENTS = 4
"""Commits whose documents are kept."""
FETCH_INTERVAL = 30.0
"""Seconds after which a replica that stands by asks the remote again."""
_PULL = re.compile(r"#([1-9][0-9]{0,8})")
FindForge = Callable[[str], "Forge | None"]


def _no_forge(url: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class FoundCommit:
    """A commit by its full name, in the repository that has it. `named`: as somebody asked for it; `pull`:
    number of the pull request whose head it is, 0 for none."""

    named: str
    commit: str
    git: Path
    pull: int = 0


@dataclass(frozen=True, slots=True)
class ShownReview:
    """`made`: what there is of it, None for nothing yet; `progress`: how far the one of now is, None where
    this is it."""

    made: ReviewedCommit | None
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class CommitContents:
    """What a commit has that what is in force has not."""

    commits: FirstRows[CommitRow]
    files: FirstRows[FileRow]


@dataclass(frozen=True, slots=True)
class _KeptReview:
    """`version`: of the cluster; `until`: when it is too old for others."""

    made: ReviewedCommit
    version: Hashable
    until: float


class CommitReviews:
    """Of one cluster. `find_forge`: the forge that a remote's address leads to, None for none; raises
    ForgeUnknown."""

    def __init__(
        self, cluster: ServedCluster, planning: PlanningQueue, find_forge: FindForge = _no_forge
    ) -> None:
        self._cluster, self._planning = cluster, planning
        self._reviews: OrderedDict[Hashable, _KeptReview] = OrderedDict()
        self._documents: VersionedCache[Desired] = VersionedCache(
            lambda desired: 0, MOST_DOCUMENTS * ENTRY_OVERHEAD
        )
        self._contents: VersionedCache[CommitContents] = VersionedCache(
            lambda contents: 0, MOST_KEPT * ENTRY_OVERHEAD
        )
        self._lock = threading.Lock()
        self._next_fetch, self._fetches = 0.0, 0
        self._find_forge = find_forge
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

    def look(self, found: FoundCommit, person: str) -> ShownReview:
        """What it would do beside what runs, as far as it is known by now. It may be a little older, where it
        takes long to make and the documents in force are the same. Raises CannotRead, InvalidRepository,
        PlanError, StoreError, TooMuchPlanned."""
        key, kept = self._kept(found)
        if kept is not None and (kept.version == self._cluster.version() or time.monotonic() < kept.until):
            return ShownReview(kept.made)
        made = self._planning.ask(key, person, lambda tell: self._make_kept(key, found, tell))
        if isinstance(made, Progress):
            return ShownReview(kept.made if kept is not None else None, made)
        return ShownReview(made)

    def review(self, found: FoundCommit, person: str) -> ReviewedCommit:
        """What it would do beside what runs now; waits for it. Raises the same."""
        key, kept = self._kept(found)
        if kept is not None and kept.version == self._cluster.version():
            return kept.made
        now = (key, object())  # What others ask for may have begun before.
        made = self._planning.ask(now, person, lambda tell: self._make_kept(key, found, tell), ORDER_PATIENCE)
        if isinstance(made, Progress):
            raise TooMuchPlanned(hint="nothing was ordered: look again in a moment")
        return made

    def contents(self, found: FoundCommit) -> CommitContents:
        """What is known of it without a plan. Raises CannotRead."""
        base, folder = self.in_force, self._cluster.loop.workspace.source.subpath

        def read() -> CommitContents:
            files = changed_files(found.git, base, found.commit, folder)
            return CommitContents(commits_between(found.git, base, found.commit), files)

        return self._contents.get((found.commit, found.git, base), "", read)

    def _kept(self, found: FoundCommit) -> tuple[Hashable, _KeptReview | None]:
        """What it is kept under, and what is."""
        key = (self._cluster.name, found.commit, found.git, self.in_force)
        with self._lock:
            if key in self._reviews:
                self._reviews.move_to_end(key)
            return key, self._reviews.get(key)

    def _make_kept(self, key: Hashable, found: FoundCommit, tell: Tell) -> ReviewedCommit:
        version, began = self._cluster.version(), time.monotonic()
        made = self._make_review(found, tell)
        ended = time.monotonic()
        patience = STALE * (ended - began) if ended - began >= LONG else 0.0
        with self._lock:
            self._reviews[key] = _KeptReview(made, version, ended + patience)
            self._reviews.move_to_end(key)
            while len(self._reviews) > MOST_KEPT:
                self._reviews.popitem(last=False)
        return made

    def _make_review(self, found: FoundCommit, tell: Tell) -> ReviewedCommit:
        tell("reading its documents")
        head = self.documents(found.commit, found.git)
        workspace, memory = self._cluster.loop.workspace, self._cluster.review_memory
        made = reviewed_commit(workspace, found.commit, found.git, head, memory, tell)
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
