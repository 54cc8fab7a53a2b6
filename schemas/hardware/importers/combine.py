"""Several captures of one machine → one `Hardware`, with what none of them could know.

Captures are given best first for each fact: the first that knows one is believed, and contradictions are
named. Devices are the same when their PCI addresses are; else when their ids are; else, for GPUs, when their
numbers are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pydantic import ValidationError

from schemas.hardware.cpulist import format_cpus
from schemas.hardware.importers.facts import Facts, LinkFacts, NodeFacts, UnreadableCapture
from schemas.hardware.model import Hardware

Fields = dict[str, Any]
_DIRECT = ("NV", "XGMI")
_INSIDE = ("PIX", "PXB", "PHB", "NODE")


def combine(captures: Sequence[Facts]) -> Hardware:
    """One machine from at least one capture of it; raises UnreadableCapture when they are of different
    machines."""
    _require_same_machine(captures)
    notes: list[str] = []
    for capture in captures:
        notes += [note for note in capture.notes if note not in notes]
    nodes = _merge_nodes(captures, notes)
    gpus, gpu_ids = _merge_devices(captures, lambda capture: capture.gpus, by_index=True)
    nics, nic_ids = _merge_devices(captures, lambda capture: capture.nics)
    disks, _ = _merge_devices(captures, lambda capture: capture.disks)
    links = _merge_links(captures, [{**a, **b} for a, b in zip(gpu_ids, nic_ids, strict=True)])
    _place_nics(nics or [], gpus or [], links)
    software: dict[str, str | None] = {}
    for capture in reversed(captures):
        software.update({name: value for name, value in capture.software.items() if value is not None})
    whole = Facts(
        source="",
        nodes=nodes,
        all_nodes=any(capture.all_nodes for capture in captures),
        architecture=_first_known(capture.architecture for capture in captures),
        hostname=_first_known(capture.hostname for capture in captures),
        siblings=_first_known(capture.siblings for capture in captures),
        offline=_first_known(capture.offline for capture in captures),
        isolated=_first_known(capture.isolated for capture in captures),
        gpus=gpus,
        nics=nics,
        disks=disks,
        links=links,
        nv_switches=_first_known(capture.nv_switches for capture in captures),
        software=software,
        notes=notes,
    )
    _require_disjoint_nodes(nodes)
    return _build_hardware(whole)


def _require_disjoint_nodes(nodes: dict[int, NodeFacts]) -> None:
    owners: dict[int, int] = {}
    for number, node in sorted(nodes.items()):
        for cpu in node.cpus or ():
            if owners.setdefault(cpu, number) != number:
                raise UnreadableCapture(
                    f"CPU {cpu} is said to be of NUMA nodes {owners[cpu]} and {number}",
                    hint="capture the machine anew, outside of any job",
                )


def _first_known(values: Iterable[Any]) -> Any:
    return next((value for value in values if value is not None), None)


def _require_same_machine(captures: Sequence[Facts]) -> None:
    for name in ("hostname", "architecture"):
        known = {getattr(capture, name): capture.source for capture in captures if getattr(capture, name)}
        if len(known) > 1:
            said = ", ".join(f"{value} by {source}" for value, source in known.items())
            raise UnreadableCapture(f"these are captures of different machines: {name} is {said}")


def _merge_nodes(captures: Sequence[Facts], notes: list[str]) -> dict[int, NodeFacts]:
    found: dict[int, NodeFacts] = {}
    told: dict[int, str] = {}
    for capture in captures:
        for number, node in sorted(capture.nodes.items()):
            known = found.setdefault(number, NodeFacts())
            if node.cpus is not None and known.cpus is None:
                known.cpus, told[number] = node.cpus, capture.source
            elif node.cpus is not None and known.cpus is not None and set(node.cpus) != set(known.cpus):
                notes.append(
                    f"CPUs of NUMA node {number}: {format_cpus(known.cpus) or 'none'} by {told[number]}, "
                    f"but {format_cpus(node.cpus) or 'none'} by {capture.source}"
                )
            known.memory = known.memory if known.memory is not None else node.memory
            known.kind = known.kind or node.kind
            known.distances = known.distances or dict(node.distances)
    return found


def _merge_devices(
    captures: Sequence[Facts], of: Callable[[Facts], list[Fields] | None], *, by_index: bool = False
) -> tuple[list[Fields] | None, list[dict[str, str]]]:
    """The devices of all captures, and for each capture what its ids became."""
    found: list[Fields] | None = None
    renamed: list[dict[str, str]] = []
    merged: list[tuple[Fields, list[tuple[int, str]]]] = []
    for at, capture in enumerate(captures):
        renamed.append({})
        devices = of(capture)
        if devices is None:
            continue
        found = found if found is not None else []
        for device in devices:
            same = next((entry for entry in merged if _is_same_device(entry[0], device, by_index)), None)
            if same is None:
                same = ({}, [])
                merged.append(same)
            _merge_fields(same[0], device)
            same[1].append((at, str(device["id"])))
    for fields, names in merged:
        for at, name in names:
            renamed[at][name] = str(fields["id"])
    if found is not None:
        found = [fields for fields, _ in merged]
        if by_index:
            _number_gpus(found)
    return found, renamed


def _is_same_device(known: Fields, device: Fields, by_index: bool) -> bool:
    if known.get("pci") and device.get("pci"):
        return bool(known["pci"] == device["pci"]) and (by_index or _may_be_same(known, device))
    if known["id"] == device["id"]:
        return True
    return by_index and known.get("index") is not None and known.get("index") == device.get("index")


def _may_be_same(known: Fields, device: Fields) -> bool:
    """Two ports of one card share an address and are still two interfaces, unless one capture has no name
    for it."""
    unnamed = [fields["id"] == fields.get("pci") for fields in (known, device)]
    return bool(known["id"] == device["id"]) or any(unnamed)


def _merge_fields(known: Fields, device: Fields) -> None:
    better_id = not known or (str(known["id"]) in (known.get("pci"), f"gpu{known.get('index')}"))
    for name, value in device.items():
        if known.get(name) in (None, "", 0, (), []) and value is not None:
            known[name] = value
    if better_id:
        known["id"] = device["id"]


def _number_gpus(gpus: list[Fields]) -> None:
    """GPUs without a number of their own get one in the order of their addresses, as the driver counts."""
    if any(gpu.get("index") is None for gpu in gpus) or len({gpu["index"] for gpu in gpus}) < len(gpus):
        gpus.sort(key=lambda gpu: (str(gpu.get("pci") or "~"), str(gpu["id"])))
        for index, gpu in enumerate(gpus):
            gpu["index"] = index
    gpus.sort(key=lambda gpu: int(gpu["index"]))


def _merge_links(captures: Sequence[Facts], renamed: list[dict[str, str]]) -> list[LinkFacts]:
    """One link for a pair: a direct one if anybody saw it, else the first that was told."""
    found: dict[frozenset[str], LinkFacts] = {}
    for capture, names in zip(captures, renamed, strict=True):
        for link in capture.links:
            a, b = names.get(link.a), names.get(link.b)
            if a is None or b is None or a == b:
                continue
            known = found.get(frozenset((a, b)))
            if known is None or (link.kind in _DIRECT and known.kind not in _DIRECT):
                found[frozenset((a, b))] = LinkFacts(a, b, link.kind, link.count)
    return list(found.values())


def _place_nics(nics: list[Fields], gpus: list[Fields], links: list[LinkFacts]) -> None:
    """A link that stays inside a NUMA node tells a NIC's node from the GPU's."""
    nodes = {str(gpu["id"]): gpu.get("numa_node") for gpu in gpus}
    near: dict[str, set[int]] = defaultdict(set)
    for link in links:
        for device, end in ((link.a, link.b), (link.b, link.a)):
            node = nodes.get(end)
            if link.kind in _INSIDE and node is not None:
                near[device].add(node)
    for nic in nics:
        found = near.get(str(nic["id"]), ())
        if nic.get("numa_node") is None and len(found) == 1:
            nic["numa_node"] = next(iter(found))


def _build_hardware(facts: Facts) -> Hardware:
    try:
        return Hardware.model_validate(_hardware_document(facts))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UnreadableCapture(f"what was captured cannot be: {where}: {first['msg']}") from None


def _hardware_document(facts: Facts) -> Fields:
    unknown = [*_unknown_facts(facts), *facts.notes]
    nodes = facts.nodes or {0: NodeFacts()}
    return {
        "architecture": facts.architecture or "x86_64",
        "hostname": facts.hostname,
        "numa_nodes": [
            {
                "id": number,
                "cpus": node.cpus or (),
                "memory": node.memory or 0,
                "kind": node.kind or "dram",
                "distances": {
                    other: d
                    for other, d in sorted(node.distances.items())
                    if other != number and other in nodes
                },
            }
            for number, node in sorted(nodes.items())
        ],
        "siblings": tuple(core for core in facts.siblings or () if len(core) > 1),
        "offline_cpus": facts.offline or (),
        "isolated_cpus": facts.isolated or (),
        "gpus": [_without_unknown(gpu) for gpu in facts.gpus or ()],
        "nics": [_without_unknown(nic) for nic in facts.nics or ()],
        "disks": [_without_unknown(disk) for disk in facts.disks or ()],
        "links": [{"a": link.a, "b": link.b, "kind": link.kind, "count": link.count} for link in facts.links],
        "nv_switches": facts.nv_switches or 0,
        "software": facts.software,
        "unknown": tuple(dict.fromkeys(unknown)),
    }


def _without_unknown(fields: Fields) -> Fields:
    left_out = ("mig_devices_unknown",)
    return {name: value for name, value in fields.items() if value is not None and name not in left_out}


def _unknown_facts(facts: Facts) -> list[str]:
    """What no capture told, in words."""
    gpus, nics, nodes = facts.gpus or [], facts.nics or [], facts.nodes
    ids = {str(gpu["id"]) for gpu in gpus}
    among = [link for link in facts.links if link.a in ids and link.b in ids]
    to_nics = [link for link in facts.links if (link.a in ids) != (link.b in ids)]
    missing = {
        "architecture": facts.architecture is None,
        "NUMA nodes and CPUs": not nodes,
        "NUMA nodes that no GPU is near": bool(nodes) and not facts.all_nodes,
        f"CPUs of NUMA nodes {_format_nodes_without(nodes, 'cpus')}": bool(
            _format_nodes_without(nodes, "cpus")
        ),
        f"memory of NUMA nodes {_format_nodes_without(nodes, 'memory')}": bool(
            _format_nodes_without(nodes, "memory")
        ),
        "NUMA distances": len(nodes) > 1 and not any(node.distances for node in nodes.values()),
        "SMT siblings": facts.siblings is None,
        "GPUs": facts.gpus is None,
        "models of GPUs": any(not gpu.get("model") for gpu in gpus),
        "memory of GPUs": any(not gpu.get("memory") for gpu in gpus),
        "MIG instances of GPUs "
        + format_cpus(int(gpu["index"]) for gpu in gpus if _has_unknown_instances(gpu)): any(
            _has_unknown_instances(gpu) for gpu in gpus
        ),
        "PCI addresses of GPUs": any(not gpu.get("pci") for gpu in gpus),
        "NUMA nodes of GPUs": any(gpu.get("numa_node") is None for gpu in gpus),
        "links between GPUs": len(gpus) > 1 and not among,
        "NICs": facts.nics is None,
        "NUMA nodes of NICs": any(nic.get("numa_node") is None for nic in nics),
        "links between GPUs and NICs": bool(gpus) and bool(nics) and not to_nics,
        "drives": facts.disks is None,
    }
    return [words for words, is_missing in missing.items() if is_missing]


def _has_unknown_instances(gpu: Fields) -> bool:
    return bool(gpu.get("mig_devices_unknown")) and not gpu.get("mig_devices")


def _format_nodes_without(nodes: dict[int, NodeFacts], name: str) -> str:
    return format_cpus(number for number, node in nodes.items() if getattr(node, name) is None)
