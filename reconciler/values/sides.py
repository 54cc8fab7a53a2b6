"""What a resource is before an action, and what it is after it: a head that all kinds have, and the state of
those that have one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from planner.model.types import Placement
from providers.base import KernelSpec
from providers.storage.base import VolumeFolder
from reconciler.values.records import Account, Ghost
from reconciler.values.rollout import Provision
from reconciler.values.services.state import NO_STATE, ServiceState


@dataclass(frozen=True, slots=True)
class Pull:
    """An image that a node must have, and who logs in to the registry: references, never a password."""

    node: str
    image: str
    """With the digest where it is pinned."""
    policy: Literal["missing", "always"] = "missing"
    size: int = 0
    """Bytes to be transferred at most; 0 where that is not known."""
    registry: str = ""
    """Its address, where somebody logs in."""
    username: str = ""
    username_from: str = ""
    password_from: str = ""


@dataclass(frozen=True, slots=True)
class Side:
    """A resource at a generation, with the digest of its canonical document and the document itself (no
    secrets). Made by the stage of actions, read by apply, guards, reviews and renderers. Kinds without a
    state of their own (clusters, groups, quotas, policies, ...) are this and no more."""

    generation: int
    digest: str
    document: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SessionSide(Side):
    """A session, or a kernel that nobody owns."""

    phase: str = ""
    """PENDING, RUNNING, TERMINATED, ... as observed."""
    placement: Placement | None = None
    kernels: tuple[str, ...] = ()
    """Ids of the provider's kernels on this side."""
    enqueued_at: float | None = None
    """When it joined its queue, seconds since the epoch; kept while it waits."""
    skips: int = 0
    """How often later sessions were placed before this one."""
    reason: str = ""
    """Why the phase is what it is: what a waiting session waits for, why one ended."""
    result: str = ""
    """For a finished batch session: `success` or `failure`."""
    exit_codes: Mapping[str, int] = field(default_factory=dict)
    """Kernel name → exit code, for kernels that ended."""
    specs: tuple[KernelSpec, ...] = ()
    """What to create or update, complete but for secrets; `labels.document` and `labels.placement` are
    filled in by `steps`."""
    ghosts: tuple[Ghost, ...] = ()
    """Kernels of earlier generations that may still run where nobody sees them; left out of the JSON when
    there are none."""
    account: Account | None = None
    """Whom what it holds is charged to; left out of the JSON where it holds nothing."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Variable → reference (`STORE/ENTRY`), resolved only while applying."""
    pulls: tuple[Pull, ...] = ()
    """Images that its kernels are created from; left out of the JSON when there are none."""


@dataclass(frozen=True, slots=True)
class ImageSide(Side):
    """An image."""

    pulls: tuple[Pull, ...] = ()
    """The nodes that it is brought to; left out of the JSON when there are none."""


@dataclass(frozen=True, slots=True)
class VolumeSide(Side):
    """A volume."""

    folder: VolumeFolder | None = None
    """What is made, or moved aside; left out of the JSON otherwise."""


@dataclass(frozen=True, slots=True)
class NodeSide(Side):
    """A node."""

    provision: Provision | None = None
    """What it is brought to; left out of the JSON otherwise."""


@dataclass(frozen=True, slots=True)
class ServiceSide(Side):
    """A service."""

    state: ServiceState = NO_STATE


@dataclass(frozen=True, slots=True)
class AppProxySide(Side):
    """An AppProxy."""

    app_ports: Mapping[str, int] = field(default_factory=dict)
    """App (identity of its session or service, a space, its name) → port of the host; left out of the JSON
    where none has any."""


AnySide = SessionSide | ImageSide | VolumeSide | NodeSide | ServiceSide | AppProxySide | Side

_SIDES: Mapping[str, type[AnySide]] = {
    "Session": SessionSide,
    "Kernel": SessionSide,
    "Image": ImageSide,
    "Volume": VolumeSide,
    "Node": NodeSide,
    "Service": ServiceSide,
    "AppProxy": AppProxySide,
}


def side_type(kind: str) -> type[AnySide]:
    """The type of the sides of a kind."""
    return _SIDES.get(kind, Side)
