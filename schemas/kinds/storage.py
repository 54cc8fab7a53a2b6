"""StorageHost and Volume: where persistent data lives, and a named folder there; never a bare host path."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, Strict, model_validator
from pydantic.config import JsonDict

from schemas.kinds.parts.pod_volumes import NfsExport, PersistentVolumeClaims
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
    "pvc": (),
}
"""What the kernel calls them in /proc/self/mountinfo."""
TRASH = ".bai-trash"
"""Folder of a storage host in which deleted volumes wait."""
_LONGEST = 52
"""Letters of a volume's name in that of its claim, which has 63 at most."""


_PLACES: JsonDict = {
    "oneOf": [
        {
            "required": ["root"],
            "properties": {"root": {"type": "string"}, "type": {"not": {"const": "pvc"}}},
        },
        {"required": ["nfs", "type"], "properties": {"nfs": {"type": "object"}, "type": {"const": "nfs"}}},
        {"required": ["pvc", "type"], "properties": {"pvc": {"type": "object"}, "type": {"const": "pvc"}}},
    ]
}
"""The part of the JSON Schema that demands exactly one of them, with its type."""


class StorageHostSpec(Model):
    """Exactly one of `root`, `nfs` and `pvc`, the last two for Kubernetes clusters."""

    model_config = ConfigDict(json_schema_extra=_PLACES)

    cluster: Name | None = None
    """May be left out when the repository has exactly one Cluster."""
    type: Literal["local", "nfs", "weka", "lustre", "cephfs", "pvc"] = "local"
    """`local`: a disk of one node, sessions that mount it run there. `pvc`: claims of a Kubernetes cluster.
    The others are mounted on every node."""
    root: AbsolutePath | None = None
    """Where it is mounted on the nodes; nothing outside it is ever given to a session. On a Kubernetes
    cluster it lies in one of its `hostPathRoots`."""
    nfs: NfsExport | None = None
    """An export that the nodes have not mounted: kubelets do, for each pod."""
    pvc: PersistentVolumeClaims | None = None
    """A PersistentVolumeClaim for each volume."""
    node: NodeName | None = None
    """The node on which folders are made, limited and moved. Left out: this machine when it is one of the
    cluster's nodes, else the first active node. A `local` host's data is on this node alone."""
    file_systems: tuple[Text, ...] = ()
    """Types of file system, as /proc/self/mountinfo names them, of which the root must be; otherwise it is
    taken for not mounted, and nothing is written there. Left out: what `type` implies,
    anything for `local`."""

    @model_validator(mode="after")
    def _require_one_place(self) -> StorageHostSpec:
        said = [name for name in ("root", "nfs", "pvc") if getattr(self, name) is not None]
        if len(said) != 1:
            hint = "write exactly one of root, nfs and pvc"
            message = f"a storage host lies in one place, not in {' and '.join(said) or 'none'}"
            raise issues_error([Issue((), message, hint, "BAI-V034")])
        wanted = said[0] if said != ["root"] else "local" if self.type == "pvc" else self.type
        if self.type != wanted:
            message = f"{said[0]} does not go with type {self.type}"
            raise issues_error([Issue((said[0],), message, f"write type: {wanted}", "BAI-V034", key=True)])
        return self

    @property
    def accepted_file_systems(self) -> tuple[str, ...]:
        """Types of file system that the root may be on; empty: any."""
        return self.file_systems or FILE_SYSTEMS[self.type]

    @property
    def base(self) -> PurePosixPath | None:
        """Below which its volumes' folders lie: on the nodes, or `//SERVER/...` for an export; None where
        they are claims."""
        if self.nfs is not None:
            return PurePosixPath(f"//{self.nfs.server.lower()}") / self.nfs.path.lstrip("/")
        return None if self.root is None else PurePosixPath("/", self.root.lstrip("/"))


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
    size: Annotated[Memory, Field(ge=1)] | None = None
    """Capacity that its claim asks for, on a storage host of type `pvc`; that host's own when left out. It
    can grow where the storage class lets it."""


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

    @property
    def claim_name(self) -> str:
        """Of its PersistentVolumeClaim, where it is one: the same for the same identity, whatever else is."""
        return f"{self.name[:_LONGEST]}-{hashlib.sha256(self.identity.encode()).hexdigest()[:10]}"
