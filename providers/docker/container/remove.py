"""Stopping a kernel's container and removing it, with all that belongs to it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from providers.docker import notes
from providers.docker.container import entrypoint, gpu_share, runtime_files, subpaths
from providers.docker.container.create import remove_unstarted
from providers.docker.engine.engine import Engine
from providers.docker.engine.errors import engine_errors
from providers.docker.engine.http import EngineRefusal

LONGER = 60.0
"""Seconds beyond the grace for the engine to say that it is done."""
_GONE, _CONFLICT = 404, 409


def stop_container(
    engine: Engine, kernel: str, found: Mapping[str, Any], *, grace: float, signal: str
) -> None:
    """Stop gracefully, then kill; nothing when it has ended. `found`: as inspected. Raises ProviderError."""
    if found["State"]["Status"] in ("exited", "dead", "created"):
        gpu_share.release(engine, kernel, found.get("Mounts") or ())
        return
    seconds = max(0, round(grace))
    path = f"/containers/{found['Id']}"
    with engine_errors(engine.node, kernel):
        notes.note_stop(engine, kernel, found["Id"])
        if signal:
            # A notice: who goes on after it is stopped as usual.
            _send_signal(engine, path, signal)
            _await_exit(engine, path, seconds)
            seconds = int(found["Config"].get("StopTimeout") or 0)
        engine.call("POST", f"{path}/stop", query={"t": str(seconds)}, timeout=seconds + LONGER)
    gpu_share.release(engine, kernel, found.get("Mounts") or ())


def _send_signal(engine: Engine, path: str, signal: str) -> None:
    try:
        engine.call("POST", f"{path}/kill", query={"signal": signal})
    except EngineRefusal as refusal:
        if refusal.status != _CONFLICT:  # It has just ended.
            raise


def _await_exit(engine: Engine, path: str, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        engine.call("POST", f"{path}/wait", query={"condition": "not-running"}, timeout=max(0.1, seconds))


def sweep_leftovers(engine: Engine, kernel: str) -> None:
    """What a container that somebody else removed has left on a node. Raises ProviderError, EngineRefusal,
    OSError."""
    notes.remove_notes(engine, kernel)
    runtime_files.sweep(engine, kernel)
    subpaths.sweep(engine, kernel)


def remove_container(engine: Engine, kernel: str, found: Mapping[str, Any]) -> None:
    """Everything goes, the container last: until then the rest can be found by it. Only what its mounts come
    from goes afterwards; what is left of that by a kill, `sweep_leftovers` finds. Raises ProviderError."""
    with engine_errors(engine.node, kernel):
        if found["State"]["Status"] in ("running", "restarting", "paused"):
            _send_signal(engine, f"/containers/{found['Id']}", "SIGKILL")
        for mount in found.get("Mounts") or ():
            if mount.get("Destination") == entrypoint.TARGET:
                runtime_files.release(engine, kernel, str(mount.get("Source", "")))
        gpu_share.release(engine, kernel, found.get("Mounts") or ())
        notes.remove_notes(engine, kernel)
        remove_unstarted(engine, found["Id"])
        subpaths.release(engine, kernel, found.get("Mounts") or ())
