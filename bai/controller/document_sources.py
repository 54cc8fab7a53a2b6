"""A loop's workspaces and where their documents come from: a folder, or a git remote."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bai.settings import Settings
from providers.state_folder import state_folder

if TYPE_CHECKING:
    from reconciler.gitops.document_source import DocumentSource
    from reconciler.gitops.revision_tracker import RevisionTracker
    from reconciler.sources.source import Source
    from reconciler.store.database.address import StoreAddress
    from reconciler.store.store import Store
    from reconciler.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class RemoteOrigin:
    """A git remote as it is named on the command line."""

    url: str
    ref: str = ""
    """Branch, tag or commit; empty: the remote's main branch."""
    path: str = ""
    """Folder of the documents."""
    approval: bool = False
    """Whether somebody must approve of a new commit."""
    home: Path | None = None
    """The folder of its copy; None: one below the state's."""


def open_workspaces(
    settings: Settings, origin: RemoteOrigin | None
) -> Iterator[tuple[Workspace, DocumentSource]]:
    """The workspace of the cluster that is named, or of each that there is. Raises BaiError."""
    if origin is not None:
        yield from _open_remote(settings, origin)
        return
    from reconciler.gitops.document_source import FolderDocuments
    from schemas.problems.errors.command import CommandError

    source = settings.source(acting=True)
    if settings.gate(source.folders) is not None:
        why = "only commits can be trusted (BAI_TRUST, trust.yaml), and the files of a folder are none"
        raise CommandError(why=why, hint="follow a remote: --remote URL")
    for name in [settings.cluster] if settings.cluster else _cluster_names(source):
        yield replace(settings, cluster=name).workspace(acting=True), FolderDocuments()


def _open_remote(settings: Settings, origin: RemoteOrigin) -> Iterator[tuple[Workspace, DocumentSource]]:
    from reconciler.gitops.directives import read_directives
    from reconciler.gitops.document_source import FollowedDocuments, first_commit
    from reconciler.gitops.remote import Remote
    from reconciler.gitops.revision_tracker import RevisionTracker, TrackedRef
    from reconciler.sources.git_command import login_from_environment
    from reconciler.sources.owner_stores import load_owner_stores
    from reconciler.store.database.address import StoreAddress
    from reconciler.store.store import Store
    from reconciler.workspace.workspace import Workspace

    home = remote_folder(origin)
    home.mkdir(parents=True, exist_ok=True)
    address = StoreAddress.choose(home, settings.state, default=home / "store.db")
    remote = Remote(origin.url, home / "copy.git", login_from_environment(os.environ))
    tracked = TrackedRef(remote, origin.ref or remote.default_branch(), origin.path)
    owner = load_owner_stores(settings.stores, [remote.folder], final=True)
    gate = settings.gate([remote.folder])

    def tracker_of(store: Store, name: str) -> RevisionTracker:
        return RevisionTracker(tracked, store, name, owner, gate)

    for name in [settings.cluster] if settings.cluster else _followed_clusters(tracker_of, address):
        store = Store.open(address)
        tracker = tracker_of(store, name)
        pin = read_directives(store, name).pin
        start = first_commit(tracker, pin.commit if pin else "", approval=origin.approval)
        workspace = Workspace.at(tracker.source(start), cluster=name, state=store)
        yield workspace, FollowedDocuments(tracker, approval=origin.approval)


def _followed_clusters(
    tracker_of: Callable[[Store, str], RevisionTracker], address: StoreAddress
) -> list[str]:
    """The clusters that the newest documents have; those that were looked after before, when these cannot be
    used. Raises BaiError when there are neither."""
    from reconciler.store.store import Store
    from schemas.problems.errors.base import BaiError

    with Store.open(address) as store:
        known = list(store.clusters())
        trackers = [tracker_of(store, name) for name in known or [""]]
        # What has passed, or was good, is where the judgement of what is new begins.
        tracker = next((each for each in trackers if each.last_good_commit), trackers[0])
        try:
            commit = tracker.remote.fetch(tracker.ref)
            tracker.verify_trust(commit)
            return _cluster_names(tracker.source(commit))
        except BaiError:
            if known:
                return known
            raise


def _cluster_names(source: Source) -> list[str]:
    """Raises InvalidRepository, CannotRead, and PlanError when there is none."""
    from reconciler.sources.source import choose_cluster
    from schemas.kinds.cluster import Cluster

    repository, _ = source.load()
    names = sorted(cluster.name for cluster in repository.of(Cluster))
    return names or [choose_cluster(repository, None).name]


def remote_folder(origin: RemoteOrigin) -> Path:
    """Where the copy of a remote and, by default, its store are: the same with another password in its
    address."""
    from reconciler.gitops.remote import redact_url

    if origin.home is not None:
        return origin.home
    address = redact_url(origin.url) if origin.url.startswith(("http://", "https://")) else origin.url
    mark = hashlib.sha256(f"{address} {origin.path}".encode()).hexdigest()[:12]
    stem = origin.url.rstrip("/").rpartition("/")[2].removesuffix(".git") or "remote"
    return state_folder() / "remotes" / f"{stem}-{mark}"
