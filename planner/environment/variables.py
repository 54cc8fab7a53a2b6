"""The environment of one kernel, derived from where it was placed.

Words that Backend.AI's users rely on (`BACKENDAI_*`), what frameworks read to find their peers
(`MASTER_ADDR`, `RANK`, ...), which devices are visible, how many threads make sense, and limits for a part
of a device. Nothing is set that the topology does not support, and a user's own variables always win.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from planner.environment.network_variables import NetworkFacts, network_variables, port_variables
from planner.model.links import nic_costs
from planner.model.types import DeviceGrant, Fractional, KernelPlacement, Placement
from schemas.hardware.anonymous import is_anonymous
from schemas.hardware.model import Gpu, Hardware

_FIRST_PORT, _PORTS = 20_000, 10_000
_OBEYED = "NVIDIA_VISIBLE_DEVICES"
_FARTHEST_GDR = 1
"""Farthest PCI distance (PXB, see `links.nic_costs`) at which every GPU must have one of the assigned NICs
before NCCL is told that GPUDirect RDMA is worth while; farther ones would go through the host bridge."""


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """One container of a session, by name: `main1` is role `main`, index 1."""

    name: str
    role: str
    index: int
    id: str = ""
    """The provider's id of the kernel."""


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What the environment says about a session. `kernels` stand in cluster order: main first; `addresses`:
    kernel name → name or address at which the other kernels reach it (left out: its own name)."""

    scope: str
    """What makes the identity unique between repositories and clusters; goes into the session's id only."""
    identity: str
    name: str
    generation: int
    type: str
    mode: str
    kernels: tuple[KernelFacts, ...]
    project: str = ""
    owner: str = ""
    image: str = ""
    ports: Mapping[str, int] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)
    fractional: Fractional = field(default_factory=Fractional)
    gpudirect_storage: bool = False
    """Its group's storage reads into GPUs."""
    bind_threads: bool = False
    """Threads of OpenMP stay on a core each."""
    network: NetworkFacts = field(default_factory=NetworkFacts)

    def address(self, kernel: str) -> str:
        return self.addresses.get(kernel, kernel)


def session_id(facts: SessionFacts) -> str:
    """A UUID that stays the same for a session's generation."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"bai:{facts.scope}/{facts.identity}#{facts.generation}"))


def kernel_environment(
    facts: SessionFacts,
    kernel: KernelFacts,
    placement: Placement,
    hardware: Hardware,
    user: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """All variables of one kernel. Raises KeyError when the placement lacks the kernel."""
    kernel_placement = next((part for part in placement.kernels if part.kernel == kernel.name), None)
    if kernel_placement is None:
        raise KeyError(kernel.name)
    derived = {
        **_identity_variables(facts, kernel),
        **_cluster_variables(facts, kernel),
        **_thread_variables(kernel_placement, hardware, bind=facts.bind_threads),
        **_device_variables(kernel_placement, hardware),
        **(_storage_variables(kernel_placement, hardware) if facts.gpudirect_storage else {}),
    }
    if len(facts.kernels) > 1:
        gpus = bool(_grants_of(kernel_placement, "cuda"))
        derived |= network_variables(facts.network, gpus=gpus)
        derived |= _rendezvous_variables(facts, kernel) | _fabric_variables(
            kernel_placement, placement, hardware, facts.network
        )
    # Limits are no preferences: what a session says about them does not count. Engines' runtimes give a
    # container the GPUs that NVIDIA_VISIBLE_DEVICES names, whosever they are.
    obeyed = {name: derived[name] for name in (_OBEYED,) if name in derived}
    limits = obeyed | fraction_variables(kernel_placement, hardware, facts.fractional)
    wished = {name: value for name, value in (user or {}).items() if name != _OBEYED}
    return dict(sorted((derived | wished | limits).items()))


def _identity_variables(facts: SessionFacts, kernel: KernelFacts) -> dict[str, str]:
    ports = {n: facts.network.listening(kernel.name, n, port) for n, port in facts.ports.items()}
    values = {
        "BACKENDAI_SESSION_ID": session_id(facts),
        "BACKENDAI_SESSION_NAME": facts.name,
        "BACKENDAI_KERNEL_ID": kernel.id,
        "BACKENDAI_KERNEL_IMAGE": facts.image,
        "BACKENDAI_PREOPEN_PORTS": ",".join(str(port) for port in ports.values()),
        "BACKENDAI_SERVICE_PORTS": ",".join(f"{name}:{port}" for name, port in ports.items()),
        "BACKENDAI_USER_EMAIL": facts.owner if "@" in facts.owner else "",
        "BACKENDAI_USER_NAME": facts.owner,
        "BAI_SESSION": facts.identity,
        **port_variables(facts.network, kernel.name, facts.ports),
    }
    return {name: value for name, value in values.items() if value}


def _cluster_variables(facts: SessionFacts, kernel: KernelFacts) -> dict[str, str]:
    """`BACKENDAI_CLUSTER_IDX` counts from 1 within a role, `BACKENDAI_CLUSTER_LOCAL_RANK` from 0 over the
    session."""
    names = [part.name for part in facts.kernels]
    roles: dict[str, int] = {}
    for part in facts.kernels:
        roles[part.role] = roles.get(part.role, 0) + 1
    return {
        "BACKENDAI_CLUSTER_MODE": facts.mode,
        "BACKENDAI_CLUSTER_SIZE": str(len(names)),
        "BACKENDAI_CLUSTER_HOST": kernel.name,
        "BACKENDAI_CLUSTER_HOSTS": ",".join(names),
        "BACKENDAI_CLUSTER_REPLICAS": ",".join(f"{role}:{count}" for role, count in roles.items()),
        "BACKENDAI_CLUSTER_ROLE": kernel.role,
        "BACKENDAI_CLUSTER_IDX": str(kernel.index),
        "BACKENDAI_CLUSTER_LOCAL_RANK": str(names.index(kernel.name)),
        "BAI_CLUSTER_ADDRESSES": ",".join(f"{name}={facts.address(name)}" for name in names),
    }


def _rendezvous_variables(facts: SessionFacts, kernel: KernelFacts) -> dict[str, str]:
    """One process per container is assumed; a launcher such as torchrun overrides RANK and WORLD_SIZE with
    its own."""
    names = [part.name for part in facts.kernels]
    rank = str(names.index(kernel.name))
    # Several sessions may share one machine's network: the port follows from the session's id.
    port = _FIRST_PORT + zlib.crc32(session_id(facts).encode()) % _PORTS
    port = facts.network.listening(names[0], "master", port)
    return {
        "MASTER_ADDR": facts.address(names[0]),
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(len(names)),
        "RANK": rank,
        "NNODES": str(len(names)),
        "NODE_RANK": rank,
    }


def _thread_variables(kernel_placement: KernelPlacement, hardware: Hardware, *, bind: bool) -> dict[str, str]:
    """One thread per physical core; shared CPU is rounded up. Bound to the first logical CPU of each core
    only where asked for: OpenMP binds the first thread as soon as its library is loaded, and processes that
    it starts inherit its one CPU (PyTorch's loaders of data, for example)."""
    if not kernel_placement.cpus:
        return _thread_counts(max(1, -(-kernel_placement.cpu_milli // 1000)))
    first = {cpu: min(group) for group in hardware.siblings for cpu in group}
    cores: dict[int, int] = {}
    for cpu in sorted(kernel_placement.cpus):
        cores.setdefault(first.get(cpu, cpu), cpu)
    counts = _thread_counts(len(cores))
    if not bind:
        return counts
    places = ",".join(f"{{{cpu}}}" for cpu in sorted(cores.values()))
    return counts | {"OMP_PLACES": places, "OMP_PROC_BIND": "close"}


def _thread_counts(count: int) -> dict[str, str]:
    return {name: str(count) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}


def _device_variables(kernel_placement: KernelPlacement, hardware: Hardware) -> dict[str, str]:
    """Devices by UUID where known, else by index in PCI order; a kernel without devices sees none. Which ones
    are its own of those that are known by number alone, whoever counts them tells it."""
    cuda = _grants_of(kernel_placement, "cuda")
    rocm = _grants_of(kernel_placement, "rocm")
    gpus = {gpu.id: gpu for gpu in hardware.gpus}
    values = {
        "GPU_COUNT": str(len(cuda) + len(rocm)),
        "N_GPUS": str(len(cuda) + len(rocm)),
    }
    if not _are_anonymous(cuda):
        values["CUDA_VISIBLE_DEVICES"] = ",".join(_visible_id(grant, gpus) for grant in cuda)
        values[_OBEYED] = values["CUDA_VISIBLE_DEVICES"] or "void"
        if any(_visible_id(grant, gpus).isdigit() for grant in cuda):
            values["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    if not _are_anonymous(rocm) and (rocm or any(gpu.slot == "rocm" for gpu in hardware.gpus)):
        values["ROCR_VISIBLE_DEVICES"] = ",".join(_visible_id(grant, gpus) for grant in rocm)
    models = sorted(
        {gpus[grant.id].model for grant in cuda + rocm if grant.id in gpus and gpus[grant.id].model}
    )
    if cuda or rocm:
        values["GPU_TYPE"] = "cuda" if cuda else "rocm"
    if models:
        values["GPU_MODEL_NAME"] = ",".join(models)
    return values


def _grants_of(kernel_placement: KernelPlacement, prefix: str) -> list[DeviceGrant]:
    return [grant for grant in kernel_placement.devices if grant.slot.split(".")[0] == prefix]


def _are_anonymous(grants: Sequence[DeviceGrant]) -> bool:
    return any(is_anonymous(grant.id) for grant in grants)


def _visible_id(grant: DeviceGrant, gpus: Mapping[str, Gpu]) -> str:
    if grant.id.startswith(("GPU-", "MIG-")):
        return grant.id
    return str(gpus[grant.id].index) if grant.id in gpus else grant.id


def fraction_variables(
    kernel_placement: KernelPlacement, hardware: Hardware, rule: Fractional
) -> dict[str, str]:
    """Limits by the device's position among the visible ones: MPS ignores memory limits that are given by
    UUID."""
    cuda = [grant for grant in _grants_of(kernel_placement, "cuda") if not grant.slot.startswith("cuda.mig")]
    if rule.enforcement not in ("mps", "hami") or all(grant.milli >= 1000 for grant in cuda):
        return {}
    memory = {gpu.id: gpu.memory for gpu in hardware.gpus}
    percent = str(max(1, min(grant.milli for grant in cuda) // 10))
    limits = [(at, memory.get(grant.id, 0) * grant.milli // 1000 // 2**20) for at, grant in enumerate(cuda)]
    known = [(at, mebibytes) for at, mebibytes in limits if mebibytes]
    if rule.enforcement == "hami":
        return {"CUDA_DEVICE_SM_LIMIT": percent} | {
            f"CUDA_DEVICE_MEMORY_LIMIT_{at}": f"{mebibytes}m" for at, mebibytes in known
        }
    values = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": percent}
    if known:
        values["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = ",".join(f"{at}={mebibytes}M" for at, mebibytes in known)
    return values


def _storage_variables(kernel_placement: KernelPlacement, hardware: Hardware) -> dict[str, str]:
    """cuFile reads directly where a drive or an RDMA NIC can reach the GPUs, with its fallback for files that
    cannot; on other nodes it goes through host memory at once."""
    if not _grants_of(kernel_placement, "cuda"):
        return {}
    if hardware.disks or any(nic.rdma for nic in hardware.nics):
        return {"CUFILE_ALLOW_COMPAT_MODE": "true", "CUFILE_FORCE_COMPAT_MODE": "false"}
    return {"CUFILE_FORCE_COMPAT_MODE": "true"}


def _fabric_variables(
    kernel_placement: KernelPlacement, placement: Placement, hardware: Hardware, network: NetworkFacts
) -> dict[str, str]:
    """NCCL is told about NICs only when kernels with GPUs talk across nodes through RDMA-capable ones that
    were assigned; of the node's interfaces, only where the kernel has them."""
    if (
        len({part.node for part in placement.kernels}) < 2
        or not kernel_placement.nics
        or not kernel_placement.devices
    ):
        return {}
    nics = [nic for nic in hardware.nics if nic.id in kernel_placement.nics and nic.rdma]
    values = {"NCCL_IB_HCA": "=" + ",".join(nic.id for nic in nics)} if nics else {}
    interfaces = sorted({nic.interface for nic in nics if nic.interface})
    if interfaces and not network.has_own_interfaces:
        values["NCCL_SOCKET_IFNAME"] = "=" + ",".join(interfaces)
    held = {grant.id for grant in kernel_placement.devices}
    gpus = [gpu for gpu in hardware.gpus if gpu.id in held or held & {one.id for one in gpu.mig_devices}]
    if gpus and all(
        distance <= _FARTHEST_GDR for distance in nic_costs(hardware, gpus, frozenset(kernel_placement.nics))
    ):
        values["NCCL_NET_GDR_LEVEL"] = "PXB"
    return values
