"""One machine, as it is seen now and as it was told: by its document, or by somebody who looked closer. Pure.

One rule: what is seen counts. What it leaves open is filled from what was told, where both speak of the same
thing; where they contradict each other, what was told is left out, and said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple, TypeVar

from schemas.hardware.anonymous import is_anonymous
from schemas.hardware.model import Disk, Gpu, Hardware, Link, LinkKind, Nic, NumaNode, PageSize, Software

UNKNOWN_MEMORY = "memory and huge pages of each NUMA node (taken for equal parts), and NUMA distances"
UNKNOWN_LINKS = "direct links between GPUs"
DIRECT = frozenset({"NV", "XGMI"})
MOST_LINKED = 64
"""Devices of a node whose pairs are looked at: no machine has more, and anybody may tell of them."""
_NAMED = 3

_Device = TypeVar("_Device", Gpu, Nic)


class _Pairs(NamedTuple):
    """Id of a device as it is seen → the same device as it was told."""

    gpus: Mapping[str, Gpu]
    nics: Mapping[str, Nic]


def complete(seen: Hardware, told: Hardware, source: str, *, declared: bool = False) -> Hardware:
    """What is seen, completed. `source`: who told, in words. `declared`: GPUs that only the document has stay
    there, as long as there are no more than it has, for whoever knows whether they can be given away now."""
    doubts = contradictions(seen, told)
    said = tuple(f"{source} says {doubt}" for doubt in doubts)
    if seen.architecture != told.architecture:
        return seen.model_copy(update={"unknown": (*seen.unknown, *said)})
    pairs = _same_devices(seen, told)
    numa, spread = _spread(seen, told)
    known = frozenset(each.id for each in numa) if seen.knows_cores else frozenset()
    gpus, nics = _completed_devices(seen, pairs, known)
    if declared:
        # Those that the document names are among those that are counted without a name, or came in their
        # place.
        counted = {gpu.slot for gpu in gpus if is_anonymous(gpu.id)}
        others = _only_told(gpus, told.gpus, pairs.gpus)
        more = [gpu for gpu in others if gpu.slot not in counted][: max(0, len(told.gpus) - len(gpus))]
        gpus = (*gpus, *(_placed(gpu, known) for gpu in more))
        gpus = tuple(gpu.model_copy(update={"index": at}) for at, gpu in enumerate(gpus))
    links = _links(seen, told, pairs, gpus, nics)
    left = set()
    if spread:
        left.add(UNKNOWN_MEMORY)
    if UNKNOWN_LINKS not in told.unknown and len(pairs.gpus) == len(seen.gpus):
        left.add(UNKNOWN_LINKS)
    return seen.model_copy(
        update={
            "numa_nodes": numa,
            "offline_cpus": told.offline_cpus if seen.knows_cores else (),
            "isolated_cpus": told.isolated_cpus if seen.knows_cores and spread else (),
            "gpus": gpus,
            "nics": nics,
            "disks": tuple(_placed(each, known) for each in told.disks) or seen.disks,
            "links": links,
            "nv_switches": seen.nv_switches or told.nv_switches,
            "software": completed_software(seen.software, told.software),
            "unknown": (*(what for what in seen.unknown if what not in left), *said),
        }
    )


def describe(seen: Hardware, looked: Hardware) -> Hardware:
    """What somebody saw who looked closer, whole, for a document: GPUs by the ids and with what drivers
    publish of them, and where that look found them."""
    pairs = _same_devices(seen, looked)
    gpus, nics = _completed_devices(seen, pairs, frozenset(each.id for each in looked.numa_nodes))
    others = _only_told(nics, looked.nics, pairs.nics)
    unpublished = [gpu.pci or gpu.id for gpu in _only_told(gpus, looked.gpus, pairs.gpus)]
    left = [f"GPUs at {_join(unpublished)}: no driver publishes which ones"] if unpublished else []
    left += [what for what in seen.unknown if what == UNKNOWN_LINKS and what not in looked.unknown]
    return looked.model_copy(
        update={
            "hostname": seen.hostname,
            "gpus": gpus,
            "nics": (*nics, *others),
            "links": _links(seen, looked, pairs, gpus, (*nics, *others)),
            "software": completed_software(seen.software, looked.software),
            "unknown": (*looked.unknown, *left),
        }
    )


def contradictions(seen: Hardware, told: Hardware) -> tuple[str, ...]:
    """What was told and cannot be so, in words that follow 'it says'."""
    if seen.architecture != told.architecture:
        return (f"that it is {told.architecture}, and it is {seen.architecture}: nothing of it counts",)
    return tuple([*_cpu_doubts(seen, told), *_device_doubts(seen.gpus, told.gpus)])


def completed_software(seen: Software, told: Software) -> Software:
    """Versions that are seen, and of the rest those that were told."""
    fields = type(seen).model_fields
    return Software(**{name: getattr(seen, name) or getattr(told, name) for name in fields})


def filled_numa_nodes(nodes: Sequence[NumaNode], told: Mapping[int, NumaNode]) -> tuple[NumaNode, ...]:
    """Memory, huge pages and distances of each as they were told, of the amounts that the machine has
    together. `told` has all of `nodes`, by their ids."""
    total, of = sum(each.memory for each in nodes), sum(each.memory for each in told.values())
    pages = _told_pages(nodes, told.values())
    return tuple(
        node.model_copy(
            update={
                "memory": total * told[node.id].memory // of if of else node.memory,
                "hugepages": {
                    **{size: amount for size, amount in node.hugepages.items() if size not in pages},
                    **{size: amounts[node.id] for size, amounts in pages.items() if node.id in amounts},
                },
                "kind": told[node.id].kind,
                "distances": {other: far for other, far in told[node.id].distances.items() if other in told},
            }
        )
        for node in nodes
    )


def _told_pages(nodes: Iterable[NumaNode], told: Iterable[NumaNode]) -> dict[PageSize, dict[int, int]]:
    """Size → node → bytes, of those sizes of which as many were told as there are."""
    found: dict[PageSize, dict[int, int]] = {}
    there: dict[PageSize, int] = {}
    for node in nodes:
        for size, amount in node.hugepages.items():
            there[size] = there.get(size, 0) + amount
    for each in told:
        for size, amount in each.hugepages.items():
            found.setdefault(size, {})[each.id] = amount
    return {size: each for size, each in found.items() if sum(each.values()) == there.get(size, 0)}


def _spread(seen: Hardware, told: Hardware) -> tuple[tuple[NumaNode, ...], bool]:
    """The NUMA nodes, and whether what was told of them counts. Where nobody gives cores one by one, no more
    than their number is planned with, whatever is told of their places."""
    if not seen.knows_cores or not told.knows_cores or any(_cpu_doubts(seen, told)):
        return seen.numa_nodes, False
    alone = tuple(each for each in told.numa_nodes if not each.cpus)
    every = {each.id: each for each in told.numa_nodes}
    filled = filled_numa_nodes((*seen.numa_nodes, *(_emptied(each) for each in alone)), every)
    return filled, True


def _emptied(node: NumaNode) -> NumaNode:
    return NumaNode(id=node.id, kind=node.kind)


def _cpu_doubts(seen: Hardware, told: Hardware) -> Iterator[str]:
    have, says = _count_cpus(seen), _count_cpus(told)
    if have != says:
        yield f"that it has {says} CPUs, and it has {have}"
    elif seen.knows_cores and told.knows_cores and _places(seen) != _places(told):
        yield "that other CPUs are of its NUMA nodes than those that are published"


def _count_cpus(hardware: Hardware) -> int:
    return sum(len(each.cpus) for each in hardware.numa_nodes)


def _places(hardware: Hardware) -> dict[int, tuple[int, ...]]:
    return {each.id: each.cpus for each in hardware.numa_nodes if each.cpus}


def _device_doubts(seen: Sequence[Gpu], told: Sequence[Gpu]) -> Iterator[str]:
    """GPUs that are not where they were told to be."""
    here = {gpu.id: gpu.pci for gpu in seen}
    wrong = [
        f"{gpu.id} at {gpu.pci}, which is at {at}"
        for gpu in told
        if gpu.pci and (at := here.get(gpu.id)) and at != gpu.pci.lower()
    ]
    if wrong:
        yield _join(wrong)


def _same_devices(seen: Hardware, told: Hardware) -> _Pairs:
    return _Pairs(_paired(seen.gpus, told.gpus), _paired(seen.nics, told.nics))


def _paired(seen: Sequence[_Device], told: Sequence[_Device]) -> dict[str, _Device]:
    """By id, else by PCI address: how a place is connected does not depend on the very GPU that sits there,
    which another machine of the same make has, too."""
    by_id = {each.id: each for each in told}
    here = {each.id for each in seen}
    by_place = {each.pci.lower(): each for each in told if each.pci and each.id not in here}
    found: dict[str, _Device] = {}
    for device in seen:
        place = device.pci
        other = by_id.get(device.id) or (by_place.get(place) if place else None)
        if other is not None and not (place and other.pci and other.pci.lower() != place):
            found[device.id] = other
    return found


def _only_told(
    seen: Iterable[_Device], told: Iterable[_Device], pairs: Mapping[str, _Device]
) -> tuple[_Device, ...]:
    """Those that are nobody's who is seen."""
    used, here = {each.id for each in pairs.values()}, tuple(seen)
    taken = {each.id for each in here} | {each.pci for each in here if each.pci}
    return tuple(
        each
        for each in told
        if each.id not in used and each.id not in taken and not (each.pci and each.pci.lower() in taken)
    )


def _completed_devices(
    seen: Hardware, pairs: _Pairs, known: frozenset[int]
) -> tuple[tuple[Gpu, ...], tuple[Nic, ...]]:
    # Ways from different sources cannot be compared: one that is published begins above the root port.
    told: Mapping[str, Gpu | Nic] = {**pairs.gpus, **pairs.nics}
    every: list[Gpu | Nic] = [*seen.gpus, *seen.nics]
    mixed = any(each.pcie_path and not (each.id in told and told[each.id].pcie_path) for each in every)
    gpus = tuple(
        _completed_gpu(gpu, pairs.gpus[gpu.id], known, mixed) if gpu.id in pairs.gpus else gpu
        for gpu in seen.gpus
    )
    nics = tuple(
        _completed_nic(nic, pairs.nics[nic.id], known, mixed) if nic.id in pairs.nics else nic
        for nic in seen.nics
    )
    return gpus, nics


def _completed_gpu(gpu: Gpu, told: Gpu, known: frozenset[int], mixed: bool) -> Gpu:
    return gpu.model_copy(
        update={
            "model": gpu.model or told.model,
            "memory": gpu.memory or told.memory,
            **_where(gpu, told, known, mixed),
        }
    )


def _completed_nic(nic: Nic, told: Nic, known: frozenset[int], mixed: bool) -> Nic:
    return nic.model_copy(
        update={
            "interface": nic.interface or told.interface,
            "link_layer": nic.link_layer or told.link_layer,
            "speed_mbps": nic.speed_mbps or told.speed_mbps,
            "addresses": nic.addresses or told.addresses,
            "rail": nic.rail if nic.rail is not None else told.rail,
            **_where(nic, told, known, mixed),
        }
    )


def _where(seen: Gpu | Nic, told: Gpu | Nic, known: frozenset[int], mixed: bool) -> dict[str, object]:
    told_place = told.numa_node if told.numa_node in known else None
    return {
        "pci": seen.pci or told.pci,
        "numa_node": seen.numa_node if seen.numa_node is not None else told_place,
        "pcie_path": seen.pcie_path if mixed else told.pcie_path or seen.pcie_path,
    }


_Placed = TypeVar("_Placed", Gpu, Disk)


def _placed(device: _Placed, known: frozenset[int]) -> _Placed:
    return device if device.numa_node in known else device.model_copy(update={"numa_node": None})


def _links(
    seen: Hardware, told: Hardware, pairs: _Pairs, gpus: Sequence[Gpu], nics: Sequence[Nic]
) -> tuple[Link, ...]:
    """Those that are seen, and those that were told of devices that are there. Two that are seen on one NUMA
    node are not far apart, whatever was told; direct links are beside what the PCI tree says."""
    found = {(frozenset((link.a, link.b)), link.kind in DIRECT): link for link in seen.links}
    every: list[Gpu | Nic] = [*gpus, *nics]
    ids = {gpu.id: own for own, gpu in pairs.gpus.items()} | {nic.id: own for own, nic in pairs.nics.items()}
    ids |= {each.id: each.id for each in every}
    for link in told.links:
        a, b = ids.get(link.a), ids.get(link.b)
        if a is None or b is None or a == b:
            continue
        key = frozenset((a, b)), link.kind in DIRECT
        if not (key in found and (link.kind == "SYS" or link.kind in DIRECT)):
            found[key] = _link(a, b, link.kind, link.count)
    if not seen.knows_cores:
        for a, b in _near(told, ids, every):
            key = frozenset((a, b)), False
            if key not in found:
                found[key] = _link(a, b, "NODE")
    return tuple(found.values())


def _link(a: str, b: str, kind: LinkKind, count: int = 1) -> Link:
    """Of values that a link has had already: there are hundreds for a machine, and many machines."""
    return Link.model_construct(a=a, b=b, kind=kind, count=count)


def _near(told: Hardware, ids: Mapping[str, str], devices: Sequence[Gpu | Nic]) -> Iterator[tuple[str, str]]:
    """Pairs of one NUMA node, as told, where the place of a device itself is not kept."""
    every: list[Gpu | Nic] = [*told.gpus, *told.nics]
    homes = {ids[each.id]: each.numa_node for each in every if each.id in ids}
    if len(devices) > MOST_LINKED:
        return
    for a, b in combinations(devices, 2):
        beside = not (a.pcie_path and b.pcie_path and a.pcie_path[0] == b.pcie_path[0])
        if homes.get(a.id) is not None and homes.get(a.id) == homes.get(b.id) and beside:
            yield a.id, b.id


def _join(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
