"""A kernel's spec as the engine's `POST /containers/create` wants it. Pure: the provider decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from providers import masked_paths
from providers.base import KernelSpec, Mount, RestartRule
from providers.docker.container import subpaths
from providers.docker.container.edits import NO_EDITS, BindMount, ContainerEdits
from providers.docker.container.user import ContainerUser
from providers.docker.labels import to_engine_labels
from schemas.hardware.cpuset import format_cpus
from schemas.kinds.parts.docker import DEFAULT_CAPABILITIES, Docker

LOG_SIZE = 10 * 2**20
LOG_FILES = 3
PERIOD = 100_000
"""Microseconds over which a share of CPU is counted."""
LEAST_QUOTA = 1000
"""Microseconds; the engine takes no less."""
LEAST_SHARES, NO_SHARES = 2, 1024


def container_payload(
    spec: KernelSpec, options: Docker, user: ContainerUser, edits: ContainerEdits = NO_EDITS
) -> dict[str, Any]:
    """The body of the request; its container has the kernel's id as name."""
    command = edits.command or spec.command
    workdir = spec.workdir or edits.workdir
    return {
        "Image": spec.image,
        "Hostname": spec.hostname,
        "Env": [f"{name}={value}" for name, value in {**edits.env, **spec.env, **edits.firm}.items()],
        "Labels": to_engine_labels(spec.id, spec.labels),
        "StopSignal": spec.stop_signal,
        "StopTimeout": round(spec.stop_grace),
        "Tty": spec.tty,
        "OpenStdin": spec.tty,
        **({"Entrypoint": list(edits.entrypoint)} if edits.entrypoint else {}),
        **({"Cmd": list(command)} if command else {}),
        **({"WorkingDir": workdir} if workdir else {}),
        "User": user.text,
        "HostConfig": {
            **_limits(spec, edits),
            **_security(spec, options, user, edits),
            **_mounts_devices_network(spec, options, edits),
        },
        "NetworkingConfig": _network_endpoints(spec),
        "ExposedPorts": {_port_key(p.port, p.udp): {} for p in spec.network.published},
    }


def _limits(spec: KernelSpec, edits: ContainerEdits) -> dict[str, Any]:
    return {
        "CpusetCpus": format_cpus(spec.cpus or edits.cpus),
        "CpusetMems": format_cpus(spec.memory_nodes),
        "CpuShares": _cpu_shares(spec),
        **({"CpuPeriod": PERIOD, "CpuQuota": _cpu_quota(spec)} if spec.cpu_milli else {}),
        "Memory": spec.memory,
        "MemorySwap": spec.memory,
        "PidsLimit": spec.pids or None,
        **({"ShmSize": spec.shm} if spec.shm else {}),
        **({"StorageOpt": {"size": str(edits.size)}} if edits.size else {}),
        "Ulimits": [
            {"Name": name, "Soft": soft, "Hard": hard}
            for name, (soft, hard) in sorted({**edits.ulimits, **spec.ulimits}.items())
        ],
    }


def _security(
    spec: KernelSpec, options: Docker, user: ContainerUser, edits: ContainerEdits
) -> dict[str, Any]:
    base = DEFAULT_CAPABILITIES if options.capabilities is None else options.capabilities
    wanted = {name.removeprefix("CAP_") for name in (*base, *spec.capabilities, *edits.capabilities)}
    if user.uid != 0:  # They could have none of them, but get them where something else goes wrong.
        wanted = set()
    groups = dict.fromkeys((*user.groups, *edits.groups))
    tmpfs = tmpfs_mounts(spec, edits)
    return {
        "CapDrop": ["ALL"],
        "CapAdd": sorted(wanted),
        "SecurityOpt": ["no-new-privileges"],
        # In place of the engine's own lists: with the latter, what is hidden would depend on its version.
        "MaskedPaths": [*masked_paths.MASKED, *edits.masked],
        "ReadonlyPaths": [*masked_paths.READ_ONLY],
        "ReadonlyRootfs": spec.read_only_root,
        **({"Tmpfs": tmpfs} if tmpfs else {}),
        **({"GroupAdd": [str(group) for group in groups]} if groups else {}),
        **({"UsernsMode": options.userns} if options.userns else {}),
    }


def tmpfs_mounts(spec: KernelSpec, edits: ContainerEdits) -> dict[str, str]:
    """Folder → the mount options of a file system in memory."""
    return {**(_scratch_tmpfs(spec) if spec.read_only_root else {}), **edits.tmpfs}


def _scratch_tmpfs(spec: KernelSpec) -> dict[str, str]:
    """What may be written where nothing else may: /tmp, and where an SSH server looks for a folder."""
    server = {"/run/sshd": "rw,nosuid,nodev,noexec,mode=755,size=64k"} if spec.login else {}
    return {"/tmp": "rw,nosuid,nodev,exec,mode=1777", **server}


def _mounts_devices_network(spec: KernelSpec, options: Docker, edits: ContainerEdits) -> dict[str, Any]:
    nodes = (*(device for device in spec.devices if device.startswith("/dev/")), *edits.devices)
    runtime = edits.runtime or options.runtime
    return {
        "Mounts": [*(_mount(spec.id, mount, edits) for mount in spec.mounts), *map(_bind, edits.binds)],
        "Devices": [
            {"PathOnHost": node, "PathInContainer": node, "CgroupPermissions": "rwm"} for node in nodes
        ],
        "DeviceRequests": [dict(request) for request in edits.requests],
        "RestartPolicy": restart_policy(spec.restart),
        **({"CgroupParent": options.cgroup_parent} if options.cgroup_parent else {}),
        **({"Runtime": runtime} if runtime else {}),
        **({"IpcMode": edits.ipc} if edits.ipc else {}),
        **({"Init": True} if options.init else {}),
        "ExtraHosts": [f"{name}:{address}" for name, address in spec.network.hosts.items()],
        **_ports(spec),
        **_network_mode(spec),
        "LogConfig": {
            "Type": "json-file",
            "Config": {
                "max-size": str(options.log_size or LOG_SIZE),
                "max-file": str(options.log_files or LOG_FILES),
            },
        },
    }


def _mount(kernel: str, mount: Mount, edits: ContainerEdits) -> dict[str, Any]:
    if mount.sub_path and mount.source not in edits.held:
        return subpaths.mount_payload(kernel, mount)
    return _bind(BindMount(edits.held.get(mount.source, mount.source), mount.target, mount.read_only))


def _bind(bind: BindMount) -> dict[str, Any]:
    """A source that is not there is refused, never made by the engine; what is mounted in the container later
    does not reach the node."""
    return {
        "Type": "bind",
        "Source": bind.source,
        "Target": bind.target,
        "ReadOnly": bind.read_only,
        "BindOptions": {"Propagation": "rprivate"},
    }


def _network_mode(spec: KernelSpec) -> dict[str, Any]:
    """Which network; none is said where the engine's own default is meant."""
    mode = {"default": "", "host": "host"}.get(spec.network.mode, spec.network.name)
    return {"NetworkMode": mode} if mode else {}


def _network_endpoints(spec: KernelSpec) -> dict[str, Any]:
    if spec.network.mode not in ("bridge", "overlay"):
        return {}
    return {"EndpointsConfig": {spec.network.name: {"Aliases": list(spec.network.aliases)}}}


def _ports(spec: KernelSpec) -> dict[str, Any]:
    published = spec.network.published
    if not published or spec.network.mode == "host":
        return {}
    return {"PortBindings": {_port_key(p.port, p.udp): [{"HostPort": str(p.on)}] for p in published}}


def _port_key(number: int, udp: bool) -> str:
    return f"{number}/{'udp' if udp else 'tcp'}"


def restart_policy(rule: RestartRule) -> dict[str, Any]:
    """What the engine itself does when the main process ends, without anybody asking bai.

    `always` begins again after a restart of the engine too, but not what was stopped; the engine cannot count
    the restarts of `always`, so with a most it restarts failures only.
    """
    if rule.policy == "never":
        return {"Name": "no", "MaximumRetryCount": 0}
    if rule.policy == "always" and not rule.max:
        return {"Name": "unless-stopped", "MaximumRetryCount": 0}
    return {"Name": "on-failure", "MaximumRetryCount": rule.max}


def update_payload(spec: KernelSpec, shared: tuple[int, ...]) -> dict[str, Any]:
    """The body of `POST /containers/{id}/update`: what may change while it runs. The engine takes zero and
    empty for "as it is", so that a limit is lifted by its widest value."""
    return {
        "CpusetCpus": format_cpus(spec.cpus or shared),
        **({"CpusetMems": format_cpus(spec.memory_nodes)} if spec.memory_nodes else {}),
        "CpuShares": _cpu_shares(spec) or NO_SHARES,
        **({"CpuPeriod": PERIOD, "CpuQuota": _cpu_quota(spec)} if spec.cpu_milli else {"CpuQuota": -1}),
        "Memory": spec.memory,
        "MemorySwap": spec.memory or -1,
        "PidsLimit": spec.pids or -1,
        "RestartPolicy": restart_policy(spec.restart),
    }


def _cpu_shares(spec: KernelSpec) -> int:
    """A kernel with cores of its own needs no weight."""
    return max(LEAST_SHARES, spec.cpu_milli * 1024 // 1000) if spec.cpu_milli and not spec.cpus else 0


def _cpu_quota(spec: KernelSpec) -> int:
    return max(LEAST_QUOTA, spec.cpu_milli * PERIOD // 1000)


def update_differences(
    spec: KernelSpec, host: Mapping[str, Any], *, shared: tuple[int, ...], everybody: tuple[int, ...]
) -> dict[str, Any]:
    """Of `update_payload`, what is not so yet, by the HostConfig of a container. `everybody`: the node's
    CPUs."""
    widest = {
        "CpusetCpus": format_cpus(everybody),
        "CpuShares": NO_SHARES,
        "CpuQuota": -1,
        "MemorySwap": -1,
        "PidsLimit": -1,
    }
    now = {**widest, **{name: value for name, value in host.items() if value}}
    wanted = update_payload(spec, shared or everybody)
    found = {name: value for name, value in wanted.items() if now.get(name, 0) != value}
    if "Memory" in found or "MemorySwap" in found:
        found |= {"Memory": wanted["Memory"], "MemorySwap": wanted["MemorySwap"]}
    return found
