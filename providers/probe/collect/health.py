"""What NVML knows of a GPU's health."""

from __future__ import annotations

from typing import Any, Callable

from schemas.hardware.gpu_health import HealthCounters, health_problems

_UNCORRECTED, _VOLATILE = 1, 0
_DOUBLE_BIT = 1


def health(pynvml: Any, ask: Callable[..., Any], handle: Any) -> list[str]:
    """Complaints in words; none when the GPU is fit for use, or does not tell."""
    _, _, pending, failed = ask(pynvml.nvmlDeviceGetRemappedRows, handle) or (0, 0, 0, 0)
    return health_problems(
        HealthCounters(
            uncorrected=ask(pynvml.nvmlDeviceGetTotalEccErrors, handle, _UNCORRECTED, _VOLATILE) or 0,
            rows_failed=bool(failed),
            rows_pending=bool(pending),
            retired=len(ask(pynvml.nvmlDeviceGetRetiredPages, handle, _DOUBLE_BIT) or ()),
            retirement_pending=bool(ask(pynvml.nvmlDeviceGetRetiredPagesPendingStatus, handle)),
        )
    )
