"""What a node is, as far as the cluster's API tells: CPUs and memory by their sums, devices exactly. Pure.

How cores are spread over NUMA nodes is told by no API of Kubernetes itself; what is not known is in
`unknown`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from providers.kubernetes.discovery.features import open_questions, told_software
from providers.kubernetes.objects.amounts import PAGES
from providers.kubernetes.objects.device import STANDARD, Device
from providers.kubernetes.observe.devices import DeviceIndex
from providers.kubernetes.observe.nodes import ClusterNode
from providers.kubernetes.observe.plugins.offers import counted_gpus, counted_unknown, devices_given
from schemas.hardware.completion import UNKNOWN_LINKS, UNKNOWN_MEMORY, completed_software
from schemas.hardware.model import (
    UNKNOWN_CORES,
    Gpu,
    Hardware,
    Link,
    MigDevice,
    Nic,
    NumaNode,
    PageSize,
    Software,
)

_INDEX = re.compile(r"([0-9]{1,4})$")
VENDORS = {"gpu.nvidia.com": ("nvidia", "cuda"), "gpu.amd.com": ("amd", "rocm")}
"""Driver → vendor and slot prefix of its GPUs."""
_MOST_LINKED = 64
"""Devices of a node whose pairs are looked at: no machine has more, and any driver may publish."""


def hardware_of(node: ClusterNode, devices: DeviceIndex) -> Hardware:
    """Of one node and its devices."""
    here = sorted(devices.of(node.name), key=lambda each: _natural(each.name))
    numa, siblings = _numa_nodes(node, [each for each in here if each.cpu is not None])
    known = frozenset(each.id for each in numa) if siblings is not None else frozenset()
    gpus = _gpus(here, known)
    nics = tuple(nic for each in here if (nic := _nic(each, known)) is not None)
    links = () if known else tuple(_links((*gpus, *nics), {each.rdma or each.id: each for each in here}))
    counted = devices_given(node, here)
    drivers = {str(each.attributes["driverVersion"]) for each in here if each.attributes.get("driverVersion")}
    return Hardware(
        architecture=node.architecture or "x86_64",
        hostname=node.name,
        numa_nodes=numa,
        siblings=siblings or (),
        gpus=(*gpus, *counted_gpus(node.name, counted, len(gpus))),
        nics=nics,
        links=links,
        software=completed_software(
            Software(
                kernel=node.kernel or None,
                os=node.system or None,
                nvidia_driver=drivers.pop() if len(drivers) == 1 else None,
                cuda=_cuda(here),
            ),
            told_software(node.labels),
        ),
        unknown=(
            *_unknown(len(numa), siblings is not None, bool(gpus), bool(here), bool(counted)),
            *counted_unknown(node, counted),
            *open_questions(node.labels, cores=siblings is not None, nics=bool(nics)),
        ),
    )


def _cuda(devices: Sequence[Device]) -> str | None:
    """The version that the driver has, as far as it is one for all of them: major and minor."""
    found = {str(version) for each in devices if (version := each.attributes.get("cudaDriverVersion"))}
    return ".".join(found.pop().split(".")[:2]) if len(found) == 1 else None


def _unknown(numa_nodes: int, cores: bool, gpus: bool, devices: bool, counted: bool) -> Iterator[str]:
    if not cores:
        yield UNKNOWN_CORES
    elif numa_nodes > 1:
        yield UNKNOWN_MEMORY
    if not devices:
        yield f"{'NICs' if counted else 'GPUs and NICs'}: no DRA driver publishes devices of this node"
    elif gpus:
        yield UNKNOWN_LINKS


def _numa_nodes(
    node: ClusterNode, cpus: list[Device]
) -> tuple[tuple[NumaNode, ...], tuple[tuple[int, ...], ...] | None]:
    """NUMA nodes and the threads of each core with several; None where no driver publishes the CPUs."""
    cpus_of_all = tuple(range(node.cpus))
    whole = (NumaNode(id=0, cpus=cpus_of_all, memory=node.memory, hugepages=_pages(node, 0, 1)),)
    if not exact_cores(cpus):
        return whole, None
    places = {each.cpu: each.numa_node for each in cpus if each.cpu is not None}
    numbers = sorted({number for number in places.values() if number is not None})
    cores: dict[tuple[Any, Any], list[int]] = {}
    for each in cpus:
        if each.cpu is not None:
            key = (each.attributes.get("socketID"), each.attributes.get("coreID"))
            cores.setdefault(key, []).append(each.cpu)
    numa = tuple(
        NumaNode(
            id=number,
            cpus=tuple(sorted(cpu for cpu, place in places.items() if place == number)),
            memory=node.memory // len(numbers),
            hugepages=_pages(node, at, len(numbers)),
        )
        for at, number in enumerate(numbers)
    )
    return numa, tuple(tuple(sorted(core)) for core in sorted(cores.values()) if len(core) > 1)


def exact_cores(cpus: Sequence[Device]) -> bool:
    """Whether these CPUs, all that a node publishes, can be given one by one."""
    return bool(cpus) and all(each.numa_node is not None for each in cpus)


def gpu_devices(devices: Sequence[Device]) -> tuple[list[Device], list[Device]]:
    """Of a node's devices, the GPUs and their MIG devices."""
    gpus = [each for each in devices if each.driver in VENDORS]
    whole = [each for each in gpus if each.attributes.get("type", "gpu") == "gpu"]
    ids = {each.id for each in whole}
    parts = [
        each
        for each in gpus
        if each.attributes.get("type") == "mig"
        and each.attributes.get("profile")
        and each.attributes.get("parentUUID") in ids
    ]
    return whole, parts


def _pages(node: ClusterNode, at: int, of: int) -> dict[PageSize, int]:
    """Huge pages of the `at`-th of so many NUMA nodes, taken for equal parts."""
    found: dict[PageSize, int] = {}
    for slot, amount in node.hugepages.items():
        size, name = PAGES[slot]
        count, rest = divmod(amount // size, of)
        found[name] = (count + (at < rest)) * size
    return found


def _gpus(devices: Sequence[Device], numa: frozenset[int]) -> tuple[Gpu, ...]:
    whole, parts = gpu_devices(devices)
    found = []
    for number, device in enumerate(whole):
        vendor, slot = VENDORS[device.driver]
        instances = tuple(
            MigDevice(id=each.id, profile=str(each.attributes.get("profile") or ""))
            for each in parts
            if each.attributes.get("parentUUID") == device.id
        )
        found.append(
            Gpu(
                id=device.id,
                index=number,
                slot=slot,
                vendor=vendor,
                model=str(device.attributes.get("productName") or ""),
                pci=_pci(device.attributes),
                numa_node=_place(device, numa),
                memory=device.memory,
                mig="enabled" if instances else None,
                mig_devices=instances,
                pcie_path=_path(device.attributes),
            )
        )
    return tuple(found)


def _place(device: Device, numa: frozenset[int]) -> int | None:
    return device.numa_node if device.numa_node in numa else None


def _links(devices: Sequence[Gpu | Nic], published: Mapping[str, Device]) -> Iterator[Link]:
    """Pairs of one NUMA node, where nothing tells that node's CPUs, so that no device can be said to lie on
    it. Those of one PCIe root are nearer, by their path."""
    if len(devices) > _MOST_LINKED:
        return
    for a, b in combinations(devices, 2):
        numa = published[a.id].numa_node
        beside = not a.pcie_path or a.pcie_path != b.pcie_path
        if numa is not None and numa == published[b.id].numa_node and beside:
            yield Link(a=a.id, b=b.id, kind="NODE")


def _nic(device: Device, numa: frozenset[int]) -> Nic | None:
    if not device.rdma:
        return None
    interface = device.attributes.get("ifName") or device.attributes.get("dra.net/ifName")
    return Nic(
        id=device.rdma,
        interface=interface if isinstance(interface, str) else None,
        pci=_pci(device.attributes),
        numa_node=_place(device, numa),
        pcie_path=_path(device.attributes),
    )


def _pci(attributes: Mapping[str, Any]) -> str | None:
    found = attributes.get(f"{STANDARD}pciBusID") or attributes.get("pciBusID")
    return str(found).lower() if found else None


def _path(attributes: Mapping[str, Any]) -> tuple[str, ...]:
    """The root that devices of one switch share: bridges below it are not published."""
    found = attributes.get(f"{STANDARD}pcieRoot")
    return (str(found),) if found else ()


def _natural(name: str) -> tuple[str, int]:
    found = _INDEX.search(name)
    return (name[: found.start()], int(found[1])) if found else (name, -1)
