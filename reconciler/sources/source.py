"""Documents of a directory or commit → `Desired`: the read side of git."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.sources.owner_stores import load_owner_stores
from reconciler.sources.repository_root import find_repository_root
from schemas.files.git_process import git_lines, is_below_git
from schemas.problems.errors.plan import PlanError
from schemas.problems.errors.repository import CannotRead
from schemas.repository.declared_stores import NO_OWNER, OwnerStores

if TYPE_CHECKING:
    from schemas.files.sources import Source as Files
    from schemas.kinds.cluster import Cluster
    from schemas.loading.document_cache import DocumentCache
    from schemas.repository.repository import Repository

_GIT_ANSWERS = 4


@dataclass(frozen=True, slots=True)
class Source:
    """Where documents come from. `repo` identifies the repository wherever it is cloned to."""

    directory: Path
    """Absolute folder of the documents."""
    git: Path | None
    """Top of the working tree (or the bare repository) that the folder belongs to."""
    subpath: str
    """The folder below it, `/`-separated; empty for the top."""
    repo: str
    head: str
    """Commit that is checked out; empty without one."""
    revision: str | None = None
    owner: OwnerStores = NO_OWNER
    """The secret stores that count beside those of the documents."""
    left_out: frozenset[str] = frozenset()
    """Files below the folder that are not read."""

    @property
    def folders(self) -> list[Path]:
        """Where who may change documents can write."""
        return [self.directory, *([self.git] if self.git else [])]

    def load(self, cache: DocumentCache | None = None) -> tuple[Repository, str]:
        """The documents, and the commit they are from (empty for a folder's files). `cache`: of this
        repository, for whoever loads it again and again. Raises InvalidRepository and CannotRead."""
        from schemas.loading.document_cache import DocumentCache
        from schemas.loading.loader import load

        cache = cache or DocumentCache()
        repository = load(self.file_source(cache), self.owner, cache)
        return repository, repository.commit

    def file_source(self, cache: DocumentCache | None = None) -> Files:
        """Its files, read when they are asked for. Raises CannotRead."""
        if self.revision is None:
            from schemas.files.sources import DirectorySource

            if cache is not None:
                return cache.directory(self.directory, self.left_out)
            return DirectorySource(self.directory, self.left_out)
        from schemas.files.git_source import CommitSource

        if self.git is None:
            raise CannotRead(
                what=f"revision {self.revision}", why=f"{self.directory} is not in a git repository"
            )
        return CommitSource(self.git, self.revision, self.subpath)


def open_source(
    directory: Path | str, revision: str | None = None, *, stores: Path | None = None, final: bool = False
) -> Source:
    """Find out what repository a folder belongs to (itself, or one above it), and what the owner of its
    cluster declares: `stores` and `final` as for `load_owner_stores`. Raises CannotRead when there is no such
    folder, and what that raises."""
    found = _locate_source(directory, revision)
    return replace(found, owner=load_owner_stores(stores, found.folders, final=final))


def _locate_source(directory: Path | str, revision: str | None) -> Source:
    folder = Path(directory).expanduser().absolute()
    if not folder.is_dir():
        raise CannotRead(what=str(directory), why="it is not a folder")
    folder = find_repository_root(folder.resolve())
    alone = Source(folder, None, "", repository_id_of_path(folder), "", revision)
    if not is_below_git(folder):
        return alone
    found = git_lines(
        folder, "rev-parse", "--show-toplevel", "--show-prefix", "--is-shallow-repository", "HEAD"
    )
    if found is None or len(found) < _GIT_ANSWERS:
        return alone
    top, prefix, shallow, head = found
    roots = git_lines(folder, "rev-list", "--max-parents=0", "HEAD") if shallow == "false" else None
    subpath = prefix.strip("/")
    # A shallow clone does not know its root, so only its place tells it apart.
    repo = _short_hash(f"{min(roots)}:{subpath}") if roots else repository_id_of_path(folder)
    return Source(folder, Path(top), subpath, repo, head, revision)


def remote_source(copy: Path, commit: str, subpath: str, owner: OwnerStores) -> Source:
    """The documents of a commit in a bare copy of a remote; the repository is the same wherever it was cloned
    to."""
    subpath = subpath.strip("/")
    roots = git_lines(copy, "rev-list", "--max-parents=0", commit)
    repo = _short_hash(f"{min(roots)}:{subpath}") if roots else repository_id_of_path(copy)
    return Source(copy, copy, subpath, repo, commit, commit, owner)


def repository_id_of_path(folder: Path) -> str:
    """Id of a repository that has no commit yet: where it is."""
    return _short_hash(str(folder))


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def choose_cluster(repository: Repository, name: str | None) -> Cluster:
    """The named cluster, or the only one. Raises PlanError when that leaves none or several."""
    from schemas.kinds.cluster import Cluster

    clusters = {cluster.name: cluster for cluster in repository.of(Cluster)}
    if name is not None:
        if name in clusters:
            return clusters[name]
        raise PlanError(
            why=f"there is no cluster {name!r}", hint=f"clusters: {', '.join(sorted(clusters)) or 'none'}"
        )
    if len(clusters) == 1:
        return next(iter(clusters.values()))
    if not clusters:
        raise PlanError(why="the repository has no Cluster document", hint="add one, or run `bai init`")
    raise PlanError(
        why="the repository has several clusters",
        hint=f"choose one with --cluster: {', '.join(sorted(clusters))}",
    )
