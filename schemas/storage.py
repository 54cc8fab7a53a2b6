"""StorageHost and Volume: where persistent data lives, and a named folder there; never a bare host path."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from schemas.envelope import Model, Resource, SharedMetadata, exactly_one
from schemas.issues import Issue, refuse
from schemas.names import AbsolutePath, Name, RelativePath, UserRef
from schemas.quantities import Memory


class StorageHostSpec(Model):
    cluster: Name | None = None
    """May be left out when the repository has exactly one Cluster."""
    type: Literal["local", "nfs", "weka", "lustre", "cephfs"] = "local"
    root: AbsolutePath
    """Where it is mounted on every node; nothing outside it is ever given to a session."""


class StorageHost(Resource):
    """A place for persistent data."""

    singular = "storage host"
    kind: Literal["StorageHost"]
    spec: StorageHostSpec


class Permission(Model):
    """Who may mount a volume: a user or a project."""

    model_config = ConfigDict(json_schema_extra=exactly_one("user", "project"))

    user: UserRef | None = None
    project: Name | None = None
    access: Literal["read-only", "read-write"] = "read-only"

    @model_validator(mode="after")
    def _one(self) -> Permission:
        if [self.user, self.project].count(None) != 1:
            raise refuse([Issue((), "a permission names a user or a project", code="BAI-V034")])
        return self


class VolumeSpec(Model):
    host: Name | None = None
    """The StorageHost; may be left out when the repository has exactly one."""
    path: RelativePath | None = None
    """Folder below the host's root; the volume's (project and) name when left out."""
    owner: UserRef | None = None
    permissions: tuple[Permission, ...] = ()
    """Left out: everybody of the volume's project (or everybody, without a project) may read and write."""
    quota: Annotated[Memory, Field(ge=1)] | None = None
    """Most data it holds."""


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
