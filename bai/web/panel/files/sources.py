"""Where files are: in a container of a session, or in the folder of a volume."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from fastapi import HTTPException

from bai.render.humanize import clean
from bai.web.auth.roles import Role, require_role
from bai.web.panel.access.visitor import Visitor
from bai.web.panel.files.addresses import FilesAddress
from bai.web.panel.views.session_page import require_session
from bai.web.pass_view import PassView
from bai.web.routes.logs import kernel_ids
from providers.machines.files.one_file_archive import ArchivedFile, archived_file
from providers.required_abilities import require_copy, require_files
from providers.storage.base import KeepsVolumeFiles
from reconciler.values.volume_folders import folder_of
from schemas.kinds.storage import Volume
from schemas.problems.errors.command import NoSuchResource
from schemas.values.resource_ref import identity_of

if TYPE_CHECKING:
    from bai.web.cluster_loops import ServedCluster
    from providers.abilities import CopiesFiles, KeepsFiles
    from providers.machines.files.folder_listing import FolderListing
    from providers.storage.base import VolumeFolder


class FileSource(Protocol):
    """What pages ask of files. Raises BaiError and NoFile."""

    @property
    def address(self) -> FilesAddress: ...

    @property
    def identity(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def start(self) -> str:
        """What the empty path is called."""
        ...

    @property
    def kernels(self) -> tuple[str, ...]:
        """Containers, where there may be several."""
        ...

    @property
    def page(self) -> tuple[str, ...]:
        """Parts of the address of the page about what they belong to."""
        ...

    def list_files(self, path: str, most: int) -> FolderListing: ...

    def read_file(self, path: str) -> ArchivedFile: ...

    def read_folder(self, path: str) -> Iterator[bytes]:
        """As a tar stream."""
        ...

    def write_file(self, path: str, size: int, data: Iterator[bytes]) -> None: ...


class SessionFiles:
    """Of one container of a session."""

    start = "Working directory"

    def __init__(
        self, provider: tuple[CopiesFiles, KeepsFiles], kernel_id: str, address: FilesAddress,
        identity: str, kernels: tuple[str, ...],
    ) -> None:  # fmt: skip
        self._copies, self._keeps = provider
        self._kernel_id = kernel_id
        self.address, self.identity, self.kernels = address, identity, kernels

    @property
    def title(self) -> str:
        return self.identity.partition("/")[2]

    @property
    def page(self) -> tuple[str, ...]:
        return self.address.parts

    def list_files(self, path: str, most: int) -> FolderListing:
        return self._keeps.list_files(self._kernel_id, path or ".", most)

    def read_file(self, path: str) -> ArchivedFile:
        return archived_file(self._copies.copy_out(self._kernel_id, path))

    def read_folder(self, path: str) -> Iterator[bytes]:
        return self._copies.copy_out(self._kernel_id, path or ".")

    def write_file(self, path: str, size: int, data: Iterator[bytes]) -> None:
        self._keeps.write_file(self._kernel_id, path, size, data)


def session_files(
    cluster: ServedCluster, visitor: Visitor, project: str, name: str, kernel: str
) -> SessionFiles:
    """For operators of its project: files may hold secrets. Answers 403 to others who see it, and 404; raises
    NoSuchResource, NotAble."""
    view = PassView(cluster, visitor.principal)
    identity = require_session(view, project, name)
    require_role(visitor.principal, Role.operator, project)
    known = kernel_ids(view.actual.existing.get(identity), recorded=not cluster.observed_here)
    found = kernel or next(iter(known), "")
    if found not in known:
        raise HTTPException(404, f"{identity} has no container {kernel}".rstrip())
    workspace = cluster.loop.workspace
    able = (
        require_copy(workspace.provider, workspace.cluster),
        require_files(workspace.provider, workspace.cluster),
    )
    parts = ("clusters", cluster.name, "sessions", project, name)
    return SessionFiles(able, known[found], FilesAddress(parts, kernel), identity, tuple(known))


class VolumeFiles:
    """Of the folder of a volume, by the node that looks after it."""

    start = "Volume"
    kernels: tuple[str, ...] = ()

    def __init__(
        self, storage: KeepsVolumeFiles, folder: VolumeFolder, address: FilesAddress, identity: str
    ) -> None:
        self._storage, self._folder = storage, folder
        self.address, self.identity = address, identity

    @property
    def title(self) -> str:
        return self.identity.partition("/")[2]

    @property
    def page(self) -> tuple[str, ...]:
        return (*self.address.parts[:2], "resources", "Volume", *self.address.parts[3:])

    def list_files(self, path: str, most: int) -> FolderListing:
        return self._storage.list_files(self._folder, path, most)

    def read_file(self, path: str) -> ArchivedFile:
        return self._storage.read_file(self._folder, path)

    def read_folder(self, path: str) -> Iterator[bytes]:
        return self._storage.read_folder(self._folder, path)

    def write_file(self, path: str, size: int, data: Iterator[bytes]) -> None:
        self._storage.write_file(self._folder, path, size, data)


def volume_files(cluster: ServedCluster, visitor: Visitor, project: str, name: str) -> VolumeFiles:
    """For operators of its project; where it is no project's, for operators of all. Answers as
    `session_files`; 409 where no node looks after it."""
    view = PassView(cluster, visitor.principal)
    identity = identity_of("Volume", name, project)
    volume = view.desired.resources.get(identity)
    if not isinstance(volume, Volume) or not view.sees(identity):
        raise NoSuchResource(what="volume", name=clean(f"{project}/{name}".lstrip("/")), hint="")
    require_role(visitor.principal, Role.operator, project)
    folder, storage = folder_of(view.repository, volume), cluster.loop.workspace.storage
    if folder is None or not folder.node or not isinstance(storage, KeepsVolumeFiles):
        raise HTTPException(409, f"no node looks after {identity}: open a session that mounts it")
    parts = ("clusters", cluster.name, "volumes", *filter(None, (project, name)))
    return VolumeFiles(storage, folder, FilesAddress(parts), identity)
