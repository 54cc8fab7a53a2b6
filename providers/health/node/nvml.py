"""NVIDIA's library through ctypes: the state of each GPU in a few milliseconds. What it does not answer is
left out."""

from __future__ import annotations

import ctypes
from typing import Any

_LOST, _NOT_LOADED, _MISMATCH = 15, 9, 18
_WORDS = {
    _NOT_LOADED: "the driver is not loaded",
    _LOST: "GPU is lost",
    _MISMATCH: "driver/library version mismatch",
    4: "no permission",
    999: "unknown error",
}
_MOST_LINKS = 36
_RECOVERY = 230
_ACTIONS = {
    0: "none", 1: "reset", 2: "reboot", 3: "drain-p2p", 4: "drain-and-reset", 5: "recover-imex",
    6: "bus-reset", 7: "system-reboot",
}  # fmt: skip
_SLOWED = {8: "hw-slowdown", 32: "sw-thermal", 64: "hw-thermal", 128: "hw-power-brake"}
_FABRIC = {1: "not started", 2: "in progress", 3: "completed"}


class _Pci(ctypes.Structure):
    _fields_ = (
        ("legacy", ctypes.c_char * 16), ("domain", ctypes.c_uint), ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint), ("id", ctypes.c_uint), ("subsystem", ctypes.c_uint),
        ("bus_id", ctypes.c_char * 32),
    )  # fmt: skip


class _Field(ctypes.Structure):
    _fields_ = (
        ("field", ctypes.c_uint), ("scope", ctypes.c_uint), ("at", ctypes.c_longlong),
        ("took", ctypes.c_longlong), ("kind", ctypes.c_uint), ("code", ctypes.c_uint),
        ("value", ctypes.c_ulonglong),
    )  # fmt: skip


class _Fabric(ctypes.Structure):
    _fields_ = (
        ("cluster", ctypes.c_char * 16), ("status", ctypes.c_uint), ("clique", ctypes.c_uint),
        ("state", ctypes.c_ubyte),
    )  # fmt: skip


class Library:
    """libnvidia-ml.so.1; raises OSError where it is not."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libnvidia-ml.so.1")

    def code(self, name: str, *arguments: Any) -> int:
        """What a function returns; 13 where an old driver has none of that name."""
        function = getattr(self._library, name, None)
        return 13 if function is None else int(function(*arguments))

    def numbers(self, name: str, *arguments: Any, count: int = 1, wide: bool = False) -> list[int] | None:
        """The `count` numbers that a function writes behind its arguments."""
        kind = ctypes.c_ulonglong if wide else ctypes.c_uint
        found = [kind() for _ in range(count)]
        code = self.code(name, *arguments, *map(ctypes.byref, found))
        return None if code else [int(each.value) for each in found]

    def number(self, name: str, *arguments: Any, wide: bool = False) -> int | None:
        found = self.numbers(name, *arguments, wide=wide)
        return found[0] if found else None

    def text(self, name: str, *arguments: Any) -> str:
        room = ctypes.create_string_buffer(128)
        return "" if self.code(name, *arguments, room, 128) else room.value.decode("utf-8", "replace")


def state() -> dict[str, Any] | None:
    """`driver`, `problem` and `devices`; None without the library."""
    try:
        library = Library()
    except OSError:
        return None
    code = library.code("nvmlInit_v2")
    if code:
        return {"driver": "", "problem": _WORDS.get(code, f"NVML error {code}"), "devices": []}
    try:
        count = library.number("nvmlDeviceGetCount_v2") or 0
        devices = [_device(library, index) for index in range(count)]
        return {"driver": library.text("nvmlSystemGetDriverVersion"), "problem": "", "devices": devices}
    finally:
        library.code("nvmlShutdown")


def _device(library: Library, index: int) -> dict[str, Any]:
    gpu = ctypes.c_void_p()
    code = library.code("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(gpu))
    if code:
        return {"index": index, "problem": _WORDS.get(code, f"NVML error {code}")}
    place = _Pci()
    known = not library.code("nvmlDeviceGetPciInfo_v3", gpu, ctypes.byref(place))
    found: dict[str, Any] = {
        "index": index,
        "uuid": library.text("nvmlDeviceGetUUID", gpu),
        "pci": place.bus_id.decode("ascii", "replace") if known else "",
        "model": library.text("nvmlDeviceGetName", gpu),
        "persistence": _flag(library.number("nvmlDeviceGetPersistenceMode", gpu)),
        "recovery": _recovery(library, gpu),
        "fabric": _fabric(library, gpu),
    }
    found.update(_memory(library, gpu))
    found.update(_link(library, gpu))
    found.update(_heat(library, gpu))
    found.update(_mig(library, gpu))
    return found


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _memory(library: Library, gpu: Any) -> dict[str, Any]:
    ecc = library.numbers("nvmlDeviceGetEccMode", gpu, count=2)
    rows = library.numbers("nvmlDeviceGetRemappedRows", gpu, count=4)
    count = ctypes.c_uint(0)
    retired = library.code("nvmlDeviceGetRetiredPages", gpu, 1, ctypes.byref(count), None)
    found: dict[str, Any] = {
        "ecc": _flag(ecc[0]) if ecc else None,
        "ecc_pending": _flag(ecc[1]) if ecc else None,
        "retirement_pending": _flag(library.number("nvmlDeviceGetRetiredPagesPendingStatus", gpu)),
        "retired": count.value if retired in (0, 7) else None,
    }
    for kind, error in (("corrected", 0), ("uncorrected", 1)):
        for since, counter in (("", 0), ("_ever", 1)):
            name = "nvmlDeviceGetTotalEccErrors"
            found[f"{kind}{since}"] = library.number(name, gpu, error, counter, wide=True)
    if rows:
        found.update(rows_uncorrected=rows[1], rows_pending=bool(rows[2]), rows_failed=bool(rows[3]))
    return found


def _link(library: Library, gpu: Any) -> dict[str, Any]:
    links = []
    for link in range(_MOST_LINKS):
        up = library.number("nvmlDeviceGetNvLinkState", gpu, link)
        if up is not None:
            links.append(bool(up))
    return {
        "width": library.number("nvmlDeviceGetCurrPcieLinkWidth", gpu),
        "width_most": library.number("nvmlDeviceGetMaxPcieLinkWidth", gpu),
        "speed": library.number("nvmlDeviceGetCurrPcieLinkGeneration", gpu),
        "speed_most": library.number("nvmlDeviceGetMaxPcieLinkGeneration", gpu),
        "replays": library.number("nvmlDeviceGetPcieReplayCounter", gpu),
        "links": sum(links) if links else None,
    }


def _heat(library: Library, gpu: Any) -> dict[str, Any]:
    slowed = library.number("nvmlDeviceGetCurrentClocksThrottleReasons", gpu, wide=True)
    power = library.number("nvmlDeviceGetPowerUsage", gpu)
    return {
        "temperature": library.number("nvmlDeviceGetTemperature", gpu, 0),
        "temperature_slows": library.number("nvmlDeviceGetTemperatureThreshold", gpu, 1),
        "slowed": None if slowed is None else [name for bit, name in _SLOWED.items() if slowed & bit],
        "performance": library.number("nvmlDeviceGetPerformanceState", gpu),
        "clock": library.number("nvmlDeviceGetClockInfo", gpu, 1),
        "clock_most": library.number("nvmlDeviceGetMaxClockInfo", gpu, 1),
        "watts": None if power is None else power / 1000,
    }


def _mig(library: Library, gpu: Any) -> dict[str, Any]:
    mode = library.numbers("nvmlDeviceGetMigMode", gpu, count=2)
    if not mode:
        return {}
    instances = 0
    most = library.number("nvmlDeviceGetMaxMigDeviceCount", gpu) if mode[0] else 0
    for at in range(most or 0):
        handle = ctypes.c_void_p()
        code = library.code("nvmlDeviceGetMigDeviceHandleByIndex", gpu, at, ctypes.byref(handle))
        instances += not code
    return {"mig": bool(mode[0]), "mig_pending": bool(mode[1]), "instances": instances}


def _recovery(library: Library, gpu: Any) -> str:
    """What the driver wants done to the GPU; empty where it does not say (before R565)."""
    field = _Field(field=_RECOVERY)
    if library.code("nvmlDeviceGetFieldValues", gpu, 1, ctypes.byref(field)) or field.code:
        return ""
    return _ACTIONS.get(field.value & 0xFFFFFFFF, "unknown")


def _fabric(library: Library, gpu: Any) -> str:
    found = _Fabric()
    if library.code("nvmlDeviceGetGpuFabricInfo", gpu, ctypes.byref(found)):
        return ""
    if found.state == 3 and found.status:
        return f"failed with error {found.status}"
    return _FABRIC.get(found.state, "")
