"""What HAMi-core needs on this node: its library, a cache of its own per kernel, and a lock for all.

The library keeps a kernel's limits and use in a cache file, and never reads the limits again: a kernel gets
a new one whenever it is made (github.com/Project-HAMi/HAMi-core).
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

LIBRARY, CACHE, LOCK = "/usr/local/vgpu/libvgpu.so", "/run/hami", "/tmp/vgpulock"
"""Where a container finds the library, its cache and the lock (the library knows no other place for that)."""

YOUNG = 600.0
"""Seconds in which a kernel need not be seen running: its image may be fetched first."""


def serve(request: dict[str, Any]) -> dict[str, Any]:
    """`request`: `do` (`hold` or `drop`), `root`, `kernel`; the answer has `failed` when it failed."""
    try:
        return {"hold": hold, "drop": drop}[request["do"]](request)
    except OSError as error:
        return {"failed": f"{error.strerror or error} at {error.filename}" if error.filename else str(error)}


def hold(request: dict[str, Any]) -> dict[str, Any]:
    """An empty cache for a kernel. `running`: kernels that live here; what others left goes."""
    library = next((path for path in request["libraries"] if os.path.isfile(path)), "")
    if not library:
        return {"failed": f"libvgpu.so is not at {' or '.join(request['libraries'])}"}
    root = Path(request["root"])
    _sweep(root, request.get("running"))
    shutil.rmtree(str(root / "kernels" / request["kernel"]), ignore_errors=True)
    for folder in (root / "lock", root / "kernels" / request["kernel"]):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o1777)
    for folder in (root, root / "kernels"):
        folder.chmod(0o755)
    cache = root / "kernels" / request["kernel"]
    return {"library": library, "cache": str(cache), "lock": str(root / "lock")}


def variables(library: str, cache: str) -> dict[str, str]:
    """What a kernel's environment needs beside its limits."""
    return {"LD_PRELOAD": library, "CUDA_DEVICE_MEMORY_SHARED_CACHE": f"{cache}/vgpu.cache"}


def drop(request: dict[str, Any]) -> dict[str, Any]:
    """A kernel's cache goes."""
    root = Path(request["root"])
    shutil.rmtree(str(root / "kernels" / request["kernel"]), ignore_errors=True)
    _sweep(root, request.get("running"))
    return {}


def _sweep(root: Path, running: Any) -> None:
    folder = root / "kernels"
    if running is not None and folder.is_dir():
        for left in folder.iterdir():
            if left.name not in running and time.time() - left.stat().st_mtime > YOUNG:
                shutil.rmtree(str(left), ignore_errors=True)
