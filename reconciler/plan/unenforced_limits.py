"""What a provider cannot do, said before it matters. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from planner.model.types import Placement
from providers.base import Capabilities, KernelSpec, Limit
from schemas.values.linux_users import is_root

_WORDS = {
    Limit.CPUSET: "CPU pinning",
    Limit.CPU_SHARE: "the share of CPU",
    Limit.MEMSET: "binding of memory to NUMA nodes",
    Limit.MEMORY: "the memory limit",
    Limit.HUGEPAGES: "the limit on huge pages",
    Limit.PIDS: "the limit on processes",
    Limit.SCRATCH: "the limit on scratch",
    Limit.DEVICES: "access to devices",
    Limit.FRACTION: "the GPU fraction",
    Limit.FILESYSTEM: "isolation of files",
}

_CONTAINERS_ONLY = ("user", "read_only_root", "capabilities", "ulimits")
_NATIVE = "spec.container is for containers: native processes run as whoever runs bai, with its limits"
_NO_NAMESPACE = "its container is in no user namespace (userns-remap of the engine)"
_POD_WITHOUT_NAMESPACE = "its pod is in no user namespace"


def unenforced_limits(
    specs: tuple[KernelSpec, ...], placement: Placement, capabilities: Capabilities | None
) -> tuple[str, ...]:
    """Limits that these kernels are to have and that nobody will hold them to, each with the reason."""
    if capabilities is None:
        return ()
    wanted = {limit for spec in specs for limit in _wanted_limits(spec)}
    nodes = {spec.labels.node for spec in specs}
    wanted -= {limit for limit, lack in capabilities.missing_on.items() if not lack & nodes}
    held = {spec.labels.kernel for spec in specs if spec.share is not None}
    kept = (wanted & capabilities.limits) | ({Limit.FRACTION} if held else set())
    loose = (part for part in placement.kernels if part.kernel not in held)
    if any(grant.milli < 1000 for part in loose for grant in part.devices):
        wanted.add(Limit.FRACTION)
    if capabilities.name == "process":
        unheeded = [name for name in _CONTAINERS_ONLY if any(getattr(spec, name) for spec in specs)]
        if unheeded:
            return (*_missing_limits(wanted, capabilities), _NATIVE)
    return (
        *_missing_limits(wanted, capabilities),
        *(
            why
            for limit, why in capabilities.weaker.items()
            if limit in kept and capabilities.weaker_on.get(limit, nodes) & nodes
        ),
        *_user_warnings(specs, capabilities),
    )


def _user_warnings(specs: tuple[KernelSpec, ...], capabilities: Capabilities) -> Iterator[str]:
    """What root may, and what others cannot have."""
    roots = [spec for spec in specs if is_root(spec.user.partition(":")[0])]
    nodes = sorted({spec.labels.node for spec in roots} & capabilities.shared_root)
    if nodes:
        why = _POD_WITHOUT_NAMESPACE if capabilities.name == "kubernetes" else _NO_NAMESPACE
        yield f"its root is root of the kernel of {', '.join(nodes)}, with few capabilities: {why}"
    if any(spec.capabilities for spec in specs if spec not in roots) and capabilities.name == "docker":
        yield "spec.container.capabilities are root's: other users have none of them"


def _missing_limits(wanted: set[Limit], capabilities: Capabilities) -> tuple[str, ...]:
    missing = [limit for limit in Limit if limit in wanted and limit not in capabilities.limits]
    return tuple(_limit_warning(limit, capabilities) for limit in missing)


def _limit_warning(limit: Limit, capabilities: Capabilities) -> str:
    why = capabilities.limits_missing.get(limit, "")
    return f"{_WORDS.get(limit, limit.value)} is not enforced" + (
        f": {why}" if why else f" by provider {capabilities.name}"
    )


def _wanted_limits(spec: KernelSpec) -> set[Limit]:
    asked = {
        Limit.CPUSET: bool(spec.cpus),
        Limit.CPU_SHARE: bool(spec.cpu_milli),
        Limit.MEMSET: bool(spec.memory_nodes),
        Limit.MEMORY: bool(spec.memory),
        Limit.HUGEPAGES: bool(spec.hugepages),
        Limit.PIDS: bool(spec.pids),
        Limit.SCRATCH: bool(spec.scratch),
        Limit.DEVICES: bool(spec.devices),
    }
    return {limit for limit, yes in asked.items() if yes}


def cluster_warnings(capabilities: Capabilities | None) -> tuple[str, ...]:
    """What concerns every session alike."""
    if capabilities is None:
        return ()
    if Limit.FILESYSTEM in capabilities.limits:
        return capabilities.cautions
    return (_limit_warning(Limit.FILESYSTEM, capabilities), *capabilities.cautions)
