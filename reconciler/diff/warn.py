"""What a provider cannot do, said before it matters. Pure."""

from __future__ import annotations

from planner.types import Placement
from providers.base import Capabilities, KernelSpec, Limit
from reconciler.actual import Desired
from schemas.session import Session

_WORDS = {
    Limit.CPUSET: "CPU pinning",
    Limit.CPU_SHARE: "the share of CPU",
    Limit.MEMSET: "binding of memory to NUMA nodes",
    Limit.MEMORY: "the memory limit",
    Limit.PIDS: "the limit on processes",
    Limit.DEVICES: "access to devices",
    Limit.FRACTION: "the GPU fraction",
    Limit.FILESYSTEM: "isolation of files",
}


def not_enforced(
    specs: tuple[KernelSpec, ...], placement: Placement, capabilities: Capabilities | None
) -> tuple[str, ...]:
    """Limits that these kernels are to have and that nobody will hold them to, each with the reason."""
    if capabilities is None:
        return ()
    wanted = {limit for spec in specs for limit in _limits(spec)}
    if any(grant.milli < 1000 for part in placement.kernels for grant in part.devices):
        wanted.add(Limit.FRACTION)
    missing = [limit for limit in Limit if limit in wanted and limit not in capabilities.limits]
    return tuple(_sentence(limit, capabilities) for limit in missing)


def _sentence(limit: Limit, capabilities: Capabilities) -> str:
    why = capabilities.limits_missing.get(limit, "")
    return f"{_WORDS.get(limit, limit.value)} is not enforced" + (
        f": {why}" if why else f" by provider {capabilities.name}"
    )


def _limits(spec: KernelSpec) -> set[Limit]:
    asked = {
        Limit.CPUSET: bool(spec.cpus),
        Limit.CPU_SHARE: bool(spec.cpu_milli),
        Limit.MEMSET: bool(spec.memory_nodes),
        Limit.MEMORY: bool(spec.memory),
        Limit.PIDS: bool(spec.pids),
        Limit.DEVICES: bool(spec.devices),
    }
    return {limit for limit, yes in asked.items() if yes}


def everywhere(capabilities: Capabilities | None) -> tuple[str, ...]:
    """What concerns every session alike."""
    if capabilities is None or Limit.FILESYSTEM in capabilities.limits:
        return ()
    return (_sentence(Limit.FILESYSTEM, capabilities),)


def fraction_refused(session: Session, desired: Desired, capabilities: Capabilities | None) -> str:
    """Why a part of a device cannot be given as its group demands; empty when it can."""
    group = desired.groups.get(session.spec.resource_group or "")
    shares = any(
        ".shares" in slot for c in session.spec.containers() for slot, n in c.resources.slots.items() if n
    )
    if not shares or group is None or capabilities is None:
        return ""
    means = group.spec.fractional.enforcement
    if means == "none" or means in capabilities.fractions:
        return ""
    able = f"provider {capabilities.name} cannot enforce"
    return f"group {group.name} demands {means} for parts of a GPU, which {able}"
