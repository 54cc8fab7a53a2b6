"""What NVIDIA's library says: GPUs, MIG instances, NVLink, health, versions.

Every question may go unanswered (an old driver lacks functions, a function is not supported by a GPU, a
capability is
missing): then that fact is left out. Without the library or a driver there are no GPUs and no error.
"""

from __future__ import annotations

import re
from typing import Any, Callable, NamedTuple

import pynvml

from providers.probe.collect.health import health
from schemas.hardware.sysfs.machine import Accelerators
from schemas.hardware.sysfs.pci import normalize_address

_LEVELS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
_TO_SWITCH = 2
_MOST_LINKS = 36
_QUIET = (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)


class Gpu(NamedTuple):
    handle: Any
    fields: dict[str, object]

    @property
    def id(self) -> str:
        return str(self.fields["id"])


def ask(question: Callable[..., Any], *arguments: Any) -> Any:
    """The answer, or None when the library has none."""
    try:
        return question(*arguments)
    except (pynvml.NVMLError, AttributeError, UnicodeDecodeError):
        return None


def accelerators() -> Accelerators:
    """All that NVML knows about this machine."""
    try:
        _start()
    except pynvml.NVMLError as error:
        quiet = getattr(error, "value", None) in _QUIET
        return (
            Accelerators()
            if quiet
            else Accelerators(unknown=(f"NVIDIA GPUs: NVML says {_error_text(error)}",))
        )
    try:
        return _ask_all()
    finally:
        ask(pynvml.nvmlShutdown)


def _start() -> None:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_FunctionNotFound:
        # Drivers older than 396 have no nvmlInitWithFlags.
        code = pynvml._nvmlGetFunctionPointer("nvmlInit_v2")()
        if code != pynvml.NVML_SUCCESS:
            raise pynvml.NVMLError(code) from None


def _error_text(error: Exception) -> str:
    return str(error).strip() or type(error).__name__


def _ask_all() -> Accelerators:
    unknown: list[str] = []
    count = ask(pynvml.nvmlDeviceGetCount)
    if count is None:
        unknown.append("NVIDIA GPUs: NVML does not count them")
    gpus = [gpu for gpu in (_gpu(index, unknown) for index in range(count or 0)) if gpu is not None]
    links, switches = _links(gpus)
    nodes = [ask(pynvml.nvmlDeviceGetNumaNodeId, gpu.handle) for gpu in gpus]
    return Accelerators(
        gpus=tuple(gpu.fields for gpu in gpus),
        links=tuple(links),
        switches=switches,
        software=_software(),
        memory_nodes=tuple(node for node in nodes if node is not None and 0 <= node < 0xFFFF),
        unknown=tuple(unknown),
    )


def _software() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    driver, cuda = ask(pynvml.nvmlSystemGetDriverVersion), ask(pynvml.nvmlSystemGetCudaDriverVersion)
    if driver:
        found["nvidiaDriver"] = str(driver)
    if cuda:
        found["cuda"] = f"{cuda // 1000}.{cuda % 1000 // 10}"
    return found


def _gpu(index: int, unknown: list[str]) -> Gpu | None:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    except pynvml.NVMLError as error:
        unknown.append(f"NVIDIA GPU {index}: NVML says {_error_text(error)}")
        return None
    place = ask(pynvml.nvmlDeviceGetPciInfo, handle)
    address = normalize_address(_string(place.busId)) if place is not None else None
    uuid, memory = ask(pynvml.nvmlDeviceGetUUID, handle), ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    mode = ask(pynvml.nvmlDeviceGetMigMode, handle)
    instances = _mig_devices(handle) if mode and mode[0] else []
    wrong = health(pynvml, ask, handle)
    fields: dict[str, object] = {
        "id": uuid or address or f"gpu{index}",
        "index": index,
        "slot": "cuda",
        "vendor": "nvidia",
        "model": ask(pynvml.nvmlDeviceGetName, handle) or "",
        "pci": address,
        "memory": int(memory.total) if memory is not None else 0,
        "mig": None if mode is None else ("enabled" if mode[0] else "disabled"),
        "migDevices": instances or [],
        "healthy": not wrong,
        "health": wrong,
    }
    if address is None:
        unknown.append(f"PCI address of NVIDIA GPU {index}")
    if memory is None:
        unknown.append(f"memory of NVIDIA GPU {index}")
    if instances is None:
        unknown.append(f"MIG instances of NVIDIA GPU {index}: the driver does not name their profiles")
    return Gpu(handle, fields)


def _string(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _mig_devices(parent: Any) -> list[dict[str, object]] | None:
    """None where the driver does not name the profile of one: they follow from nothing else for sure."""
    found = []
    for at in range(ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, parent) or 0):
        handle = ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, parent, at)
        uuid = ask(pynvml.nvmlDeviceGetUUID, handle) if handle is not None else None
        if not uuid:
            continue
        named = re.search(r"MIG\s+(\S+)", str(ask(pynvml.nvmlDeviceGetName, handle) or ""))
        if named is None:
            return None
        device: dict[str, object] = {"id": str(uuid), "profile": named.group(1)}
        instance = ask(pynvml.nvmlDeviceGetGpuInstanceId, handle)
        opened = ask(pynvml.nvmlDeviceGetGpuInstanceById, parent, instance) if instance is not None else None
        about = ask(pynvml.nvmlGpuInstanceGetInfo, opened) if opened is not None else None
        if about is not None:
            device.update(start=int(about.placement.start), size=int(about.placement.size))
        found.append(device)
    return found


def _links(gpus: list[Gpu]) -> tuple[list[dict[str, object]], int]:
    """Every pair's best connection, and how many NVSwitches the links lead to."""
    by_address = {str(gpu.fields["pci"]): gpu.id for gpu in gpus}
    direct: dict[tuple[str, str], int] = {}
    switched: dict[str, int] = {}
    switches = set()
    for gpu in gpus:
        for address, to_switch in _remote_ends(gpu.handle):
            if address in by_address:
                pair = (gpu.id, by_address[address])
                direct[pair] = direct.get(pair, 0) + 1
            elif to_switch:
                switched[gpu.id] = switched.get(gpu.id, 0) + 1
                switches.update([address] if address else [])
    links = []
    for at, a in enumerate(gpus):
        for b in gpus[at + 1 :]:
            shared = min(switched.get(a.id, 0), switched.get(b.id, 0))
            count = max(direct.get((a.id, b.id), 0), direct.get((b.id, a.id), 0)) + shared
            level = _LEVELS.get(ask(pynvml.nvmlDeviceGetTopologyCommonAncestor, a.handle, b.handle))
            if count:
                links.append({"a": a.id, "b": b.id, "kind": "NV", "count": count})
            elif level:
                links.append({"a": a.id, "b": b.id, "kind": level})
    return links, len(switches)


def _remote_ends(handle: Any) -> list[tuple[str, bool]]:
    """Of each active NVLink: the address at its other end, and whether that is a switch."""
    found = []
    for link in range(_MOST_LINKS):
        if not ask(pynvml.nvmlDeviceGetNvLinkState, handle, link):
            continue
        remote = ask(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
        kind = ask(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
        address = normalize_address(_string(remote.busId)) if remote is not None else None
        found.append((address or "", kind == _TO_SWITCH))
    return found
