"""Folders of volumes as the reconciler asks for them: the seam, and the values that cross it.

`providers.storage.nodes` carries it out on the nodes; tests and simulations may have their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from providers.machines.folder_listing import FolderListing
from providers.machines.one_file_archive import ArchivedFile


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    """A PersistentVolumeClaim as it must be."""

    namespace: str
    name: str
    """The same for the same volume."""
    access_modes: tuple[str, ...]
    """In the words of Kubernetes: `ReadWriteOnce`, ..."""
    size: int
    """Bytes that it asks for."""
    storage_class: str | None = None
    """None: the cluster's default one, as it was when the claim was made."""


@dataclass(frozen=True, slots=True)
class VolumeFolder:
    """A volume's folder as it must be. None: as it is, whoever made it."""

    volume: str
    """Identity: `Volume/vision/data`."""
    node: str
    """The node that administers it; empty: none does."""
    root: str
    path: str
    """Below the root."""
    file_systems: tuple[str, ...] = ()
    """Types of which the root's file system must be one; empty: any."""
    uid: int | None = None
    gid: int | None = None
    new_owner: int | None = None
    """Linux user, and group, of a folder that has to be made, where `uid` and `gid` do not say."""
    projects: tuple[tuple[int, int], ...] = ()
    """Linux users of projects, first and last of each range: a folder that belongs to one other than
    `new_owner` is another project's, and refused."""
    mode: int | None = None
    quota: int | None = None
    """Bytes; 0 lifts a limit."""
    host: str = ""
    """Name of the storage host."""
    namespace: str = ""
    """Of the pods that mount it, where it is in no node's care; empty: several may."""
    server: str = ""
    """The NFS server whose path the root is; empty: the nodes' own."""
    claim: VolumeClaim | None = None
    """What it is in place of a folder: root and path are empty then."""

    @property
    def source(self) -> str:
        """Its absolute path; `SERVER:PATH` on an NFS server, `pvc NAMESPACE/NAME` for a claim."""
        if self.claim is not None:
            return f"pvc {self.claim.namespace}/{self.claim.name}"
        path = f"{self.root.rstrip('/')}/{self.path}"
        return f"{self.server}:{path}" if self.server else path

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return f"{self.source} on {self.node}" if self.node else self.source


@dataclass(frozen=True, slots=True)
class FolderState:
    """A volume's folder as it is."""

    state: Literal["there", "absent", "refused", "unknown"]
    """`refused`: it cannot be used (`why`: not mounted, a link on the way); `unknown`: nobody could look."""
    why: str = ""
    uid: int = 0
    gid: int = 0
    mode: int = 0
    quota: int = 0
    """Bytes that the file system holds it to; 0 is none."""
    unheld: str = ""
    """Why this file system cannot hold it to a quota; empty when it can."""
    used: int | None = None
    """Bytes in it; None where nobody counted."""
    whole: bool = True
    """False when counting was cut short: `used` is a lower bound."""
    size: int = 0
    """Bytes that its claim asks for; 0: it is none."""
    mounted: bool = True
    """False where it is refused because the root is not on a file system of a kind that was asked for."""


@dataclass(frozen=True, slots=True)
class TrashedVolume:
    """A deleted volume that waits in its storage host's trash."""

    volume: str
    entry: str
    """Its name there, unique per storage host."""
    host: str
    path: str
    """Where it was, below the root."""
    at: float
    """When it was moved, seconds since the epoch."""
    commit: str = ""
    document: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class TrashLocation:
    """A storage host's trash: where to look for it."""

    host: str
    node: str
    root: str
    file_systems: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    """In which its claims are, where volumes are claims: node and root are empty then."""

    def place_of(self, path: str) -> str:
        """Where a volume was, for people."""
        return f"pvc {path}" if self.namespaces else f"{self.root}/{path} on {self.node}"


class Storage(Protocol):
    """Raises VolumeRefused for what cannot be, ProviderUnavailable (retryable) where a node cannot be
    reached."""

    def observe(self, folders: Sequence[VolumeFolder], *, usage: bool = False) -> Mapping[str, FolderState]:
        """By volume; never raises: what could not be looked at is `unknown`. One call per node."""
        ...

    def make(self, folder: VolumeFolder) -> None:
        """Bring a folder to what it must be; what is in it stays. Idempotent."""
        ...

    def trash(self, folder: VolumeFolder, record: TrashedVolume) -> None:
        """Move a folder aside. One that is not there is moved already."""
        ...

    def trashed(self, trash: TrashLocation) -> tuple[TrashedVolume, ...]:
        """What waits there, oldest first."""
        ...

    def restore(self, trash: TrashLocation, entry: str) -> None:
        """Put it back where it was, unless something is there."""
        ...

    def purge(self, trash: TrashLocation, entry: str) -> None:
        """Delete it for good."""
        ...

    def close(self) -> None:
        """Give up connections of its own. Those to nodes are the process's (`providers.machines`)."""
        ...


@runtime_checkable
class KeepsVolumeFiles(Protocol):
    """Files of volumes that a node looks after: beneath their folder, no link on the way is followed. Raises
    VolumeRefused, ProviderUnavailable."""

    def list_files(self, folder: VolumeFolder, path: str, most: int) -> FolderListing:
        """The first `most` of a folder; `path` is below the volume's, empty for that."""
        ...

    def read_file(self, folder: VolumeFolder, path: str) -> ArchivedFile: ...

    def read_folder(self, folder: VolumeFolder, path: str) -> Iterator[bytes]:
        """As a tar stream; what may not be read is left out."""
        ...

    def write_file(self, folder: VolumeFolder, path: str, size: int, data: Iterator[bytes]) -> None:
        """Whole or not at all, and not past the volume's quota; it belongs to whom its folder belongs. Raises
        what `data` raises, too."""
        ...
