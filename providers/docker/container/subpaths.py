"""A `subPath` of a volume in a container. Engines follow links in the source of a bind mount, as root and at
each start, restarts without bai included; whoever may write to the volume would choose what is mounted.

From docker 26 on the engine gets the volume's own folder as a volume of its `local` driver, and the path in
it as `Subpath`: it resolves that beneath the folder and mounts what it opened, whenever the container starts.
Nothing of bai is on the node. Such a volume holds nothing but these words; it is one kernel's own, and goes
with it. Older engines get a path where root holds the very folder for them (`providers.storage.pins`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from providers.base import KernelSpec, Mount
from providers.docker.container.edits import ContainerEdits
from providers.docker.engine.engine import NAME_OF, Engine
from providers.docker.engine.errors import NAME
from providers.docker.engine.http import EngineRefusal, quote_segment
from providers.machines.base import Machine
from providers.storage import pins
from schemas.problems.errors.kernel import KernelRefused
from schemas.problems.errors.provider import ProviderError

SINCE = (1, 45)
"""The API in which engines take a `Subpath`: docker 26."""
MOUNT = "bai.mount"
"""Label of these volumes: the kernel that they are for."""
_PREFIX = "bai-mount-"
_OPTIONS = "rbind,rprivate"
"""With what is mounted below the folder, for a `subPath` may lead through it; private, so that taking the
volume down takes nothing down in the folder itself."""
_GONE, _CONFLICT = 404, 409


def mount_payload(kernel: str, mount: Mount) -> dict[str, Any]:
    """One of the `Mounts` of `POST /containers/create`. Pure."""
    options = {"type": "none", "device": mount.volume, "o": _OPTIONS}
    return {
        "Type": "volume",
        "Source": _volume_name(kernel, mount),
        "Target": mount.target,
        "ReadOnly": mount.read_only,
        "VolumeOptions": {
            "NoCopy": True,
            "Subpath": mount.sub_path,
            "Labels": {MOUNT: kernel},
            "DriverConfig": {"Name": "local", "Options": options},
        },
    }


def _volume_name(kernel: str, mount: Mount) -> str:
    """An engine takes a volume of this name as it is, whatever its options: another folder, another name."""
    digest = hashlib.sha256(f"{mount.volume}\0{_OPTIONS}".encode()).hexdigest()
    return f"{_PREFIX}{kernel}-{digest[:12]}"


def is_needed(spec: KernelSpec) -> bool:
    return any(mount.sub_path for mount in spec.mounts)


def prepare(engine: Engine, spec: KernelSpec) -> ContainerEdits:
    """What an older engine needs. Raises KernelRefused where the node cannot hold a folder, ProviderError."""
    if not is_needed(spec) or engine.since(*SINCE):
        return ContainerEdits()
    mounts = [mount for mount in spec.mounts if mount.sub_path]
    sources, why = pins.pin_mounts(_remote_machine(engine), spec.id, mounts)
    if why:
        old = f"node {engine.node}: its engine (API {engine.version}) follows links in a subPath"
        hint = "docker 26 (API 1.45) needs no help of root; or mount the whole volume"
        raise KernelRefused(provider=NAME, kernel=spec.id, why=f"{old}, and {why}", hint=hint)
    return ContainerEdits(held={mount.source: at for mount, at in zip(mounts, sources, strict=True)})


def release_uncreated(engine: Engine, spec: KernelSpec) -> None:
    """What a kernel that could not be made was given. Raises BaiError, EngineRefusal, OSError."""
    if not is_needed(spec):
        return
    if engine.since(*SINCE):
        _remove_volumes(engine, {_volume_name(spec.id, mount) for mount in spec.mounts if mount.sub_path})
    else:
        pins.unpin_mounts(_remote_machine(engine), spec.id)


def release(engine: Engine, kernel: str, mounts: Iterable[Mapping[str, Any]]) -> None:
    """What a container had that has just been removed, by its `Mounts` as inspected. Raises ProviderError,
    EngineRefusal, OSError."""
    mounts = list(mounts)
    names = (str(mount.get("Name") or "") for mount in mounts if mount.get("Type") == "volume")
    _remove_volumes(engine, {name for name in names if name.startswith(_PREFIX)})
    if any(str(mount.get("Source", "")).startswith(f"{pins.PLACE}/{kernel}/") for mount in mounts):
        _unpin(engine, kernel)


def sweep(engine: Engine, kernel: str) -> None:
    """All of a kernel whose container is gone. Raises ProviderError, EngineRefusal, OSError."""
    found = engine.call("GET", "/volumes", query={"filters": {"label": [f"{MOUNT}={kernel}"]}})
    _remove_volumes(engine, [volume["Name"] for volume in found.get("Volumes") or ()])
    if engine.has_machine and not engine.since(*SINCE) and NAME_OF.fullmatch(kernel):
        _unpin(engine, kernel)


def _unpin(engine: Engine, kernel: str) -> None:
    why = pins.unpin_mounts(_remote_machine(engine), kernel)
    if why:
        why = f"node {engine.node}: {pins.PLACE}/{kernel} stays: {why}"
        raise ProviderError(provider=NAME, why=why)


def _remote_machine(engine: Engine) -> Machine | None:
    return None if engine.local else engine.machine


def _remove_volumes(engine: Engine, volumes: Iterable[str]) -> None:
    """But not those that a container still has."""
    for name in volumes:
        try:
            engine.call("DELETE", f"/volumes/{quote_segment(name)}")
        except EngineRefusal as refusal:
            if refusal.status not in (_GONE, _CONFLICT):
                raise
