"""Words for tests on real kernels: specs, waiting, and what is left of a provider's kernels."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from providers.base import KernelSpec, Labels, Observed
from providers.process.linux import cgroup_mounts, procfs
from providers.process.provider import ProcessProvider
from tests.waiting import until

MODES: Mapping[str, dict[str, bool]] = {
    "sandbox": {},
    "groups": {"sandbox": False},
    "bare": {"sandbox": False, "cgroups": False},
}
UID = 1_900_000_123
"""Linux user of its sessions, where they are made by root."""
LABELS = Labels(
    "repo", "here", "Session/vision/s", 3, "0123456789abcdef", "main1", "node", document='{"a":1}'
)


def spec(*command: str, name: str = "s-main1-00000000-g3", **fields: Any) -> KernelSpec:
    env, uid = fields.pop("env", {}), fields.pop("uid", UID)
    return KernelSpec(name, LABELS, command or ("sleep", "300"), env, uid=uid, **fields)


def script(text: str, **fields: Any) -> KernelSpec:
    return spec("/bin/sh", "-c", text, **fields)


def seen(provider: ProcessProvider, kernel_id: str) -> Observed:
    return next(kernel for kernel in provider.observe().kernels if kernel.id == kernel_id)


def ended(provider: ProcessProvider, kernel_id: str) -> Observed:
    def over() -> Observed | None:
        kernel = seen(provider, kernel_id)
        return kernel if kernel.state in ("exited", "lost") else None

    kernel = until(over, f"{kernel_id} has ended")
    assert isinstance(kernel, Observed)
    return kernel


def output(provider: ProcessProvider, kernel_id: str) -> bytes:
    return b"".join(provider.logs(kernel_id))


def said(provider: ProcessProvider, kernel_id: str, text: bytes) -> None:
    until(lambda: text in output(provider, kernel_id), f"{text!r} in the log")


def state(provider: ProcessProvider, kernel_id: str) -> Mapping[str, Any]:
    record = provider.root.read(kernel_id)
    assert record is not None
    return record.state


def running_of(provider: ProcessProvider) -> list[int]:
    """Every process that carries a mark of this provider's root, and every supervisor of its kernels."""
    prefix = f"{procfs.MARKER}={provider.root.key}/".encode()
    marked = [pid for pid in procfs.pids() if any(e.startswith(prefix) for e in procfs.environment(pid))]
    return [pid for pid in marked if procfs.start_time(pid)]


def groups_of(provider: ProcessProvider) -> list[str]:
    paths = [os.path.join(top["path"], provider.base) for top in cgroup_mounts.mounted()]
    return [path for path in paths if os.path.exists(path)]
