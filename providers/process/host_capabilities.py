"""What this machine lets us enforce, found out by trying."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from providers.base import Limit
from providers.process.linux import cgroup, cgroup_mounts

CONTROLLER = {
    Limit.CPUSET: "cpuset",
    Limit.MEMSET: "cpuset",
    Limit.MEMORY: "memory",
    Limit.PIDS: "pids",
    Limit.CPU_SHARE: "cpu",
}
SUBSTITUTES = {
    Limit.CPUSET: "affinity is set instead, which a process can change",
    Limit.MEMORY: "each process's data is limited instead, not their sum",
    Limit.SCRATCH: "its files are counted instead now and then, and it is stopped when they are too much",
}


@dataclass(frozen=True, slots=True)
class GroupAccess:
    """`groups`: the base group per hierarchy; `scope`: supervisors start as systemd user scopes; `lacking`:
    controller → why it is not among them."""

    groups: tuple[cgroup.Group, ...]
    scope: bool
    lacking: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class HostCapabilities:
    """`groups`, `scope`: as of `GroupAccess`; `missing`: limit → reason."""

    groups: tuple[cgroup.Group, ...]
    scope: bool
    sandbox: bool
    missing: Mapping[Limit, str]

    @property
    def limits(self) -> frozenset[Limit]:
        return frozenset(Limit) - self.missing.keys()


def find_groups(base: str, *, wanted: bool = True) -> GroupAccess:
    """`base` names our group in every hierarchy; it stays only where it holds kernels. `wanted`: whether the
    cluster's options let us have any."""
    scope = wanted and os.geteuid() != 0 and _has_user_manager()
    if scope or not wanted:
        return GroupAccess((), scope, _undelegated(scope, wanted))
    groups, lacking = cgroup_mounts.prepare(base)
    cgroup.tidy(groups, seconds=0.0)
    return GroupAccess(tuple(groups), scope, lacking)


def examine_host(access: GroupAccess, root: str, *, want_sandbox: bool = True) -> HostCapabilities:
    """`root`: where kernels' files are; `want_sandbox`: whether the cluster's options let us have one."""
    from providers.process.sandbox.bubblewrap import sandbox_problem
    from providers.process.supervision import scratch

    missing = {
        limit: _with_substitute(limit, access.lacking[name])
        for limit, name in CONTROLLER.items()
        if name in access.lacking
    }
    unseen = sandbox_problem() if want_sandbox else "turned off by the cluster's option `sandbox: false`"
    if unseen:
        missing[Limit.FILESYSTEM] = unseen
        missing[Limit.DEVICES] = f"device nodes are hidden by the sandbox only; {unseen}"
    if loose := scratch.quota_problem(root, sandboxed=not unseen):
        missing[Limit.SCRATCH] = _with_substitute(Limit.SCRATCH, loose)
    missing[Limit.FRACTION] = "its group demands no enforcement"
    missing[Limit.HUGEPAGES] = "native sessions are given none"
    return HostCapabilities(access.groups, access.scope, not unseen, missing)


def _with_substitute(limit: Limit, reason: str) -> str:
    instead = SUBSTITUTES.get(limit)
    return f"{reason}; {instead}" if instead else reason


def _undelegated(scope: bool, wanted: bool) -> dict[str, str]:
    """Controllers that the systemd user manager does not hand down; all when groups are not wanted."""
    if not wanted:
        return dict.fromkeys(cgroup.CONTROLLERS, "turned off by the cluster's option `cgroups: false`")
    delegated = _delegated_controllers() if scope else set()
    return {
        name: "systemd does not delegate this controller to your user manager"
        for name in cgroup.CONTROLLERS
        if name not in delegated
    }


def _delegated_controllers() -> set[str]:
    for top in cgroup_mounts.mounted():
        if top["version"] == 2:
            uid = os.geteuid()
            path = f"{top['path']}/user.slice/user-{uid}.slice/user@{uid}.service/cgroup.controllers"
            try:
                return set(cgroup.read(path).split())
            except OSError:
                return set()
    return set()


def _has_user_manager() -> bool:
    """Whether there is a systemd user manager that answers."""
    if not shutil.which("systemd-run") or not os.path.isdir("/run/systemd/system"):
        return False
    try:
        answer = subprocess.run(
            ["systemctl", "--user", "is-system-running"],
            capture_output=True,
            timeout=10,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.stdout.strip() in (b"running", b"degraded", b"starting")
