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
    from reconciler.gitops.commit_choice import Follow
    from reconciler.gitops.document_source import Documents
    from reconciler.sources.source import Source
    from reconciler.store import Store
    from reconciler.store.database.address import Address
    from reconciler.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Origin:
    """A git remote as it is named on the command line."""

    url: str
    ref: str = ""
    """Branch, tag or commit; empty: the remote's main branch."""
    path: str = ""
    """Folder of the documents."""
    approval: bool = False
    """Whether somebody must approve of a new commit."""


def opened(settings: Settings, origin: Origin | None) -> Iterator[tuple[Workspace, Documents]]:
    """The workspace of the cluster that is named, or of each that there is. Raises BaiError."""
    if origin is not None:
        yield from _far(settings, origin)
        return
    from reconciler.gitops.document_source import Folder
    from schemas.problems.errors import CommandError

    source = settings.source(acting=True)
    if settings.gate(source.folders) is not None:
        why = "only commits can be trusted (BAI_TRUST, trust.yaml), and the files of a folder are none"
        raise CommandError(why=why, hint="follow a remote: --remote URL")
    for name in [settings.cluster] if settings.cluster else _clusters(source):
        yield replace(settings, cluster=name).workspace(acting=True), Folder()


def _far(settings: Settings, origin: Origin) -> Iterator[tuple[Workspace, Documents]]:
    from reconciler.gitops.commit_choice import Follow
    from reconciler.gitops.directives import orders
    from reconciler.gitops.document_source import Followed, first
    from reconciler.gitops.remote import Remote, environment_login
    from reconciler.sources.owner_stores import owner_stores
    from reconciler.store import Store
    from reconciler.store.database.address import Address
    from reconciler.workspace.workspace import Workspace

    home = _home(origin)
    home.mkdir(parents=True, exist_ok=True)
    address = Address.choose(home, settings.state, default=home / "store.db")
    remote = Remote(origin.url, home / "copy.git", environment_login(os.environ))
    ref = origin.ref or remote.default_branch()
    owner = owner_stores(settings.stores, [remote.folder], final=True)
    gate = settings.gate([remote.folder])

    def follow_of(store: Store, name: str) -> Follow:
        return Follow(remote, ref, origin.path, store, name, owner, gate)

    for name in [settings.cluster] if settings.cluster else _named(follow_of, address):
        store = Store.open(address)
        follow = follow_of(store, name)
        pin = orders(store, name).pin
        start = first(follow, pin.commit if pin else "")
        workspace = Workspace.at(follow.source(start), cluster=name, state=address, store=store)
        yield workspace, Followed(follow, approval=origin.approval)


def _named(follow_of: Callable[[Store, str], Follow], address: Address) -> list[str]:
    """The clusters that the newest documents have; those that were looked after before, when these cannot be
    used. Raises BaiError when there are neither."""
    from reconciler.store import Store
    from schemas.problems.errors import BaiError

    with Store.open(address) as store:
        known = list(store.clusters())
        follows = [follow_of(store, name) for name in known or [""]]
        # What has passed, or was good, is where the judgement of what is new begins.
        follow = next((each for each in follows if each.good), follows[0])
        try:
            commit = follow.remote.fetch(follow.ref)
            follow.trust(commit)
            return _clusters(follow.source(commit))
        except BaiError:
            if known:
                return known
            raise


def _clusters(source: Source) -> list[str]:
    """Raises InvalidRepository, CannotRead, and PlanError when there is none."""
    from reconciler.sources.source import choose_cluster
    from schemas.kinds.cluster import Cluster

    repository, _ = source.load()
    names = sorted(cluster.name for cluster in repository.of(Cluster))
    return names or [choose_cluster(repository, None).name]


def _home(origin: Origin) -> Path:
    """Where the copy of a remote and, by default, its store are: the same with another password in its
    address."""
    from reconciler.gitops.remote import shown

    address = shown(origin.url) if origin.url.startswith(("http://", "https://")) else origin.url
    mark = hashlib.sha256(f"{address} {origin.path}".encode()).hexdigest()[:12]
    stem = origin.url.rstrip("/").rpartition("/")[2].removesuffix(".git") or "remote"
    return state_folder() / "remotes" / f"{stem}-{mark}"
