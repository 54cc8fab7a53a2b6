"""The section of the role `storage_client`: file systems of the network, mounted on the node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field

from schemas.problems.issues import Issue
from schemas.profile.roles.field_types import Package, Version
from schemas.values.envelope import Flag, Model
from schemas.values.names import AbsolutePath, RelativePath, Text


class NetworkMount(Model):
    """One file system."""

    type: Literal["nfs", "nfs4", "lustre", "wekafs", "ceph", "tmpfs", "ext4", "xfs"]
    """As the kernel calls it; `ext4` and `xfs` are local scratch disks, `tmpfs` is memory."""
    source: Text
    """`server:/export`, `10.0.0.1@o2ib:/fs`, `backend/fs`, `UUID=…`."""
    path: AbsolutePath
    """Where it is mounted."""
    options: tuple[Text, ...] = ()
    """Of mount(8); `_netdev` is added for file systems of the network."""
    writable: Flag = False
    """Verification writes a small file below `path` and takes it away."""
    marker: RelativePath | None = None
    """A file or folder that must be seen below `path`: proof that it is the right file system."""
    state: Literal["mounted", "absent"] = "mounted"
    """`absent` unmounts it and forgets it."""


class StorageClient(Model):
    """File systems of the network, mounted on the node."""

    mounts: tuple[NetworkMount, ...] = ()
    """In this order."""
    packages: Mapping[Package, Version | None] = {}
    """Further packages that mounting needs, name → exact version; null for any."""
    lustre: Version | None = None
    """Of Lustre's client; needed for mounts of type lustre."""
    lnet: tuple[Text, ...] = Field(default=(), max_length=32)
    """Networks of Lustre, `o2ib0(ib0)`; what the module takes by itself when left out."""
    weka: Version | None = None
    """Of Weka's agent; needed for mounts of type wekafs."""

    def issues(self) -> Iterator[Issue]:
        """What cannot stand together."""
        needs = {"lustre": self.lustre, "wekafs": self.weka}
        for number, mount in enumerate(self.mounts):
            if mount.state == "mounted" and mount.type in needs and needs[mount.type] is None:
                field = "lustre" if mount.type == "lustre" else "weka"
                words = f"a mount of type {mount.type} needs the client's version"
                yield Issue(("mounts", number, "type"), words, f"give {field}: <version>", "BAI-V021")
