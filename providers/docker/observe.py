"""What an engine's answers say about kernels. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from providers.base import KernelState, Labels, Observed
from providers.docker.labels import ID, from_engine_labels
from schemas.hardware.cpuset import parse_cpus

_STATES: Mapping[str, KernelState] = {
    "created": "creating",
    "running": "running",
    "restarting": "running",
    "paused": "running",
    "removing": "stopping",
    "exited": "exited",
    "dead": "lost",
}
_LONG = re.compile(r"(\.[0-9]{6})[0-9]+")
_SIGNALLED, _SIGNALS, _UNSEEN = 128, 64, 255


def kernel_id(listed: Mapping[str, Any]) -> str:
    """Of an entry of the list of containers."""
    return str((listed.get("Labels") or {}).get(ID, ""))


def labels_of(listed: Mapping[str, Any]) -> Labels | None:
    return from_engine_labels(listed.get("Labels") or {})


def parse_container(kernel: str, labels: Labels, found: Mapping[str, Any]) -> Observed:
    """A kernel from what `GET /containers/{id}/json` says."""
    state, host = found["State"], found["HostConfig"]
    now = _STATES.get(state["Status"], "lost")
    if now == "exited" and state.get("Error"):
        now = "lost"  # The engine could not start it again.
    ended = now == "exited"
    return Observed(
        id=kernel,
        labels=labels,
        state=now,
        exit_code=parse_number(state["ExitCode"]) if ended else None,
        reason=_reason(state) if ended else str(state.get("Error") or ""),
        created=parse_time(found.get("Created", "")),
        started=parse_time(state.get("StartedAt", "")),
        finished=parse_time(state.get("FinishedAt", "")) if ended else None,
        restarts=parse_number(found.get("RestartCount")),
        pid=parse_number(state.get("Pid")) or None,
        cpus=parse_cpus(host.get("CpusetCpus") or ""),
        memory_nodes=parse_cpus(host.get("CpusetMems") or ""),
        memory=parse_number(host.get("Memory")),
        pids=max(0, parse_number(host.get("PidsLimit"))),
        scratch=parse_number((host.get("StorageOpt") or {}).get("size")),
        image=str(found["Config"].get("Image") or ""),
    )


def parse_number(said: Any) -> int:
    """Of whoever answers for an engine. Raises ValueError, TypeError where it is none."""
    found = int(said or 0)
    if abs(found) >= 2**63:
        raise ValueError("a number larger than an engine's")
    return found


def _reason(state: Mapping[str, Any]) -> str:
    code = int(state["ExitCode"])
    if state.get("OOMKilled") and code:
        return "out-of-memory"
    return f"signal {code - 128}" if _SIGNALLED < code <= _SIGNALLED + _SIGNALS else "exit"


def exit_was_unobserved(found: Mapping[str, Any]) -> bool:
    """Whether the engine only found out afterwards that it had ended: it gives 255 then, as programs may,
    too."""
    state = found["State"]
    return bool(state["Status"] == "exited" and state["ExitCode"] == _UNSEEN)


def parse_time(text: str) -> datetime | None:
    """The engine's time stamps have nine digits after the point, and the year 1 for never."""
    if not text or text.startswith("0001-"):
        return None
    found = datetime.fromisoformat(_LONG.sub(lambda found: found[1], text))
    return found if found.tzinfo else found.replace(tzinfo=UTC)
