"""What is wrong with a GPU, by the rules of NVIDIA's GPU debug guidelines: what needs a reset or a
replacement is unfit for use.
"""

from __future__ import annotations

from typing import Any, Callable

_UNCORRECTED, _VOLATILE = 1, 0
_DOUBLE_BIT = 1
_MOST_RETIRED = 60
_FABRIC_STATES = {1: "has not started", 2: "is still starting"}


def health(pynvml: Any, ask: Callable[..., Any], handle: Any) -> tuple[bool, list[str]]:
    """(fit for use, complaints in words). What the library does not tell is no complaint."""
    complaints: list[str] = []
    errors = ask(pynvml.nvmlDeviceGetTotalEccErrors, handle, _UNCORRECTED, _VOLATILE)
    if errors:
        complaints.append(f"{errors} uncorrected ECC errors since the driver was loaded")
    rows = ask(pynvml.nvmlDeviceGetRemappedRows, handle)
    if rows is not None:
        _, _, pending, failed = rows
        if failed:
            complaints.append("row remapping failed: replace the GPU")
        if pending:
            complaints.append("row remapping pending: reset the GPU")
    retired = ask(pynvml.nvmlDeviceGetRetiredPages, handle, _DOUBLE_BIT)
    if retired and len(retired) >= _MOST_RETIRED:
        complaints.append(f"{len(retired)} pages retired for double-bit errors: replace the GPU")
    if ask(pynvml.nvmlDeviceGetRetiredPagesPendingStatus, handle):
        complaints.append("page retirement pending: reset the GPU")
    return not complaints, complaints
