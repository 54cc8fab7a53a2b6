"""How busy this machine's GPUs are, as NVML says. Without the library or a driver nothing is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from providers.abilities import GpuUsage


def measure_gpus(devices: Iterable[str]) -> Mapping[str, GpuUsage]:
    """By id (UUID of a GPU or MIG device, or PCI address); a device that NVML does not know is left out."""
    wanted = sorted(set(devices))
    if not wanted:
        return {}
    import pynvml

    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError, OSError):
        return {}
    try:
        return {name: _measure_device(pynvml, handle) for name in wanted if (handle := _handle(pynvml, name))}
    finally:
        _ask_nvml(pynvml, pynvml.nvmlShutdown)


def _ask_nvml(pynvml: Any, question: Any, *arguments: Any) -> Any:
    """None where the driver or the device has no answer."""
    try:
        return question(*arguments)
    except (pynvml.NVMLError, AttributeError):
        return None


def _handle(pynvml: Any, name: str) -> Any:
    by_uuid = name.startswith(("GPU-", "MIG-"))
    find = pynvml.nvmlDeviceGetHandleByUUID if by_uuid else pynvml.nvmlDeviceGetHandleByPciBusId
    return _ask_nvml(pynvml, find, name.encode())


def _measure_device(pynvml: Any, handle: Any) -> GpuUsage:
    rates = _ask_nvml(pynvml, pynvml.nvmlDeviceGetUtilizationRates, handle)
    memory = _ask_nvml(pynvml, pynvml.nvmlDeviceGetMemoryInfo, handle)
    return GpuUsage(
        busy=None if rates is None else int(rates.gpu),
        memory=None if memory is None else int(memory.used),
    )
