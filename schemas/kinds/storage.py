"""StorageHost and Volume: where persistent data lives, and a named folder there; never a bare host path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, Strict, model_validator

from schemas.problems.issues import Issue, issues_error
from schemas.values.envelope import Model, Resource, SharedMetadata, exactly_one_schema
from schemas.values.names import AbsolutePath, Mode, Name, NodeName, RelativePath, Text, UserRef
from schemas.values.quantities import Memory

FILE_SYSTEMS: Mapping[str, tuple[str, ...]] = {
    "local": (),
    "nfs": ("nfs", "nfs4"),
    "weka": ("wekafs",),
    "lustre": ("lustre",),
    "cephfs": ("ceph", "fuse.ceph", "fuse.ceph-fuse"),
}
"""What the kernel calls them in /proc/self/mountinfo."""
TRASH = ".bai-trash"
"""Folder of a storage host in which deleted volumes wait."""


class StorageHostSpec(Model):
    cluster: Name | None = None
    """May be left out when the repository has exactly one Cluster."""
    type: Literal["local", "nfs", "weka", "lustre", "cephfs"] = "local"
    """`local`: a disk of one node, sessions that mount it run there. The others are mounted on every node."""
    root: AbsolutePath
    """Where it is mounted on the nodes; nothing outside it is ever given to a session."""
    node: NodeName | None = None
    """The node on which folders are made, limited and moved. Left out: this machine when it is one of the
    cluster's nodes, else the first active node. A `local` host's data is on this node alone."""
    file_systems: tuple[Text, ...] = ()
    """Types of file system, as /proc/self/mountinfo names them, of which the root must be; otherwise it is
    taken for not mounted, and nothing is written there. Left out: what `type` implies,
    anything for `local`."""

    @property
    def accepted_file_systems(self) -> tuple[str, ...]:
        """Types of file system that the root may be on; empty: any."""
        return self.file_systems or FILE_SYSTEMS[self.type]


UnixId = Annotated[int, Strict(), Field(ge=0, le=2**32 - 2)]


class StorageHost(Resource):
    """A place for persistent data."""

    singular = "storage host"
    kind: Literal["StorageHost"]
    spec: StorageHostSpec


class Permission(Model):
    """Who may mount a volume: a user or a project."""

    model_config = ConfigDict(json_schema_extra=exactly_one_schema("user", "project"))

    user: UserRef | None = None
    project: Name | None = None
    access: Literal["read-only", "read-write"] = "read-only"

    @model_validator(mode="after")
    def _require_exactly_one(self) -> Permission:
        if [self.user, self.project].count(None) != 1:
            raise issues_error([Issue((), "a permission names a user or a project", code="BAI-V034")])
        return self


class VolumeSpec(Model):
    host: Name | None = None
    """The StorageHost; may be left out when the repository has exactly one."""
    path: RelativePath | None = None
    """Folder below the host's root; the volume's (project and) name when left out."""
    owner: UserRef | None = None
    """The user who may always mount it, whatever the permissions say."""
    uid: UnixId | None = None
    """Number of the Linux user whom the folder belongs to, which is no other project's; as it was made when
    left out: a new one belongs to the user that the project's sessions run as, else to whom the folder above
    belongs."""
    gid: UnixId | None = None
    """Linux group. Sessions that mount the volume are members, of one from 1000 on."""
    mode: Mode | None = None
    """Octal permissions such as "0770"; 0755 for a new folder when left out."""
    permissions: tuple[Permission, ...] = ()
    """Left out: everybody of the volume's project (or everybody, without a project) may read and write."""
    quota: Annotated[Memory, Field(ge=1)] | None = None
    """Most data it holds, where the file system has quotas for folders; the plan says where it has none."""


class Volume(Resource):
    """A named folder on a storage host."""

    singular = "volume"
    kind: Literal["Volume"]
    metadata: SharedMetadata
    spec: VolumeSpec = VolumeSpec()

    @property
    def path(self) -> str:
        """Folder below the storage host's root."""
        return self.spec.path or (f"{self.project}/{self.name}" if self.project else self.name)
