"""What a kernel is given beyond its spec's own words, because of what its node and engine are: devices,
folders, variables. Values; whoever finds them out says so in `ContainerEdits`, and `config` writes them all
down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class BindMount:
    """A folder or file of the node in the container."""

    source: str
    target: str
    read_only: bool = True


@dataclass(frozen=True, slots=True)
class ContainerEdits:
    """Added up with `+`; of what there can be only one, the right one wins where it says anything."""

    env: Mapping[str, str] = field(default_factory=dict)
    """The spec's own variables win over these."""
    firm: Mapping[str, str] = field(default_factory=dict)
    """Variables that win over the spec's own: what limits depend on."""
    devices: tuple[str, ...] = ()
    """Device nodes, under the same path in the container."""
    requests: tuple[Mapping[str, Any], ...] = ()
    """The engine's `DeviceRequests`."""
    binds: tuple[BindMount, ...] = ()
    ulimits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()
    cpus: tuple[int, ...] = ()
    """Cores that it shares with others; none: all."""
    runtime: str = ""
    ipc: str = ""
    """The engine's `IpcMode`."""
    entrypoint: tuple[str, ...] = ()
    """In place of the image's own, which with its command or the kernel's becomes `command`."""
    command: tuple[str, ...] = ()
    size: int = 0
    """Bytes that the engine holds its own files to; 0: any number."""
    held: Mapping[str, str] = field(default_factory=dict)
    """Source of a mount → the path where the node holds it for the engine."""
    tmpfs: Mapping[str, str] = field(default_factory=dict)
    """Folder → the mount options of a file system in memory."""
    groups: tuple[int, ...] = ()
    """Linux groups that may use its devices."""
    masked: tuple[str, ...] = ()
    """Paths of its node that are hidden from it, besides those that are everywhere."""
    workdir: str = ""
    """Where the command starts, unless the spec says so."""

    def __add__(self, other: ContainerEdits) -> ContainerEdits:
        return ContainerEdits(
            {**self.env, **other.env},
            {**self.firm, **other.firm},
            tuple(dict.fromkeys((*self.devices, *other.devices))),
            (*self.requests, *other.requests),
            (*self.binds, *other.binds),
            {**self.ulimits, **other.ulimits},
            (*self.capabilities, *other.capabilities),
            other.cpus or self.cpus,
            other.runtime or self.runtime,
            other.ipc or self.ipc,
            other.entrypoint or self.entrypoint,
            other.command or self.command,
            other.size or self.size,
            {**self.held, **other.held},
            {**self.tmpfs, **other.tmpfs},
            (*self.groups, *other.groups),
            (*self.masked, *other.masked),
            other.workdir or self.workdir,
        )


NO_EDITS = ContainerEdits()
