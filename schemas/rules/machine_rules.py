"""What a description of hardware must fulfil, inline or captured."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from schemas.kinds.parts.docker import CONNECTION_FIELDS, Docker
from schemas.problems.issues import Issue, Loc
from schemas.problems.text import did_you_mean
from schemas.values.quantities import format_memory

if TYPE_CHECKING:
    from schemas.hardware.model import Hardware
    from schemas.kinds.node import MachineSpec


def reserved_rules(spec: MachineSpec, hardware: Hardware) -> Iterator[Issue]:
    """What is kept for the system must exist, and leave something."""
    cpus = {cpu for node in hardware.numa_nodes for cpu in node.cpus}
    strange = sorted(set(spec.reserved.cpus) - cpus)
    if strange:
        yield Issue(
            ("spec", "reserved", "cpus"),
            f"CPU {strange[0]} is not one of the machine's online CPUs",
            code="BAI-V032",
        )
    memory = sum(node.memory for node in hardware.numa_nodes)
    if spec.reserved.memory and spec.reserved.memory >= memory:
        kept, there = format_memory(spec.reserved.memory), format_memory(memory)
        message = f"{kept} of the machine's {there} leave nothing for sessions"
        yield Issue(("spec", "reserved", "memory"), message, code="BAI-V032")
    for index, node in enumerate(hardware.numa_nodes):
        if sum(node.hugepages.values()) > node.memory:
            at = ("spec", "hardware", "numaNodes", index, "hugepages")
            yield Issue(at, "they are more than its memory, of which they are a part", code="BAI-V032")


_SYSTEM_FOLDERS = (
    "/bin", "/boot", "/etc", "/home", "/lib", "/lib64", "/opt", "/proc", "/root", "/sbin", "/sys", "/usr",
    "/var/lib", "/var/log",
)  # fmt: skip
"""Where the system, its programs and people's homes are: `docker.state` is made and emptied by root."""
_SHARED_FOLDERS = frozenset(
    {"/", "/dev", "/dev/shm", "/mnt", "/run", "/srv", "/tmp", "/var", "/var/run", "/var/tmp"}
)
"""Folders that have others' folders in them."""


def engine_rules(docker: Docker | None) -> Iterator[Issue]:
    """An engine is reached in one way, and what containers are given has a folder of its own."""
    state = docker.state if docker is not None else None
    if state is not None:
        yield from _state_folder_rules(state)
    ways = [name for name in CONNECTION_FIELDS if docker is not None and getattr(docker, name) is not None]
    for name in ways[1:]:
        message = f"{ways[0]} and {name} both say how the engine is reached"
        yield Issue(("spec", "docker", name), message, "leave one of them out", "BAI-V034", key=True)


def _state_folder_rules(state: str) -> Iterator[Issue]:
    at: Loc = ("spec", "docker", "state")
    hint = "name a folder in memory that is bai's alone, such as /run/bai/docker or /dev/shm/bai-docker"
    plain = "/" + posixpath.normpath(state).lstrip("/")
    if plain != state:
        yield Issue(at, f"'{state}' is no plain path", f"write {plain}", "BAI-V033")
    elif any(state == each or state.startswith(f"{each}/") for each in _SYSTEM_FOLDERS):
        yield Issue(at, f"'{state}' is in a folder of the system or of people", hint, "BAI-V050")
    elif state in _SHARED_FOLDERS:
        yield Issue(at, f"'{state}' is everybody's", hint, "BAI-V050")


def hardware_rules(hardware: Hardware, at: Loc) -> Iterator[Issue]:
    """Ids are unique and links join what exists."""
    yield from duplicate_rules(
        ((*at, "numaNodes", i, "id"), node.id) for i, node in enumerate(hardware.numa_nodes)
    )
    devices = [((*at, "gpus", i, "id"), gpu.id) for i, gpu in enumerate(hardware.gpus)]
    devices += [((*at, "nics", i, "id"), nic.id) for i, nic in enumerate(hardware.nics)]
    yield from duplicate_rules(devices)
    known = {name for _, name in devices}
    for index, link in enumerate(hardware.links):
        for end, name in (("a", link.a), ("b", link.b)):
            if name not in known:
                hint = did_you_mean(name, known)
                yield Issue(
                    (*at, "links", index, end), f"no GPU or NIC has the id '{name}'", hint, "BAI-V040"
                )
    yield from _numa_node_rules(hardware, at)


def _numa_node_rules(hardware: Hardware, at: Loc) -> Iterator[Issue]:
    nodes = {node.id for node in hardware.numa_nodes}
    places: tuple[tuple[str, list[int | None]], ...] = (
        ("gpus", [device.numa_node for device in hardware.gpus]),
        ("nics", [device.numa_node for device in hardware.nics]),
        ("disks", [device.numa_node for device in hardware.disks]),
    )
    for name, numbers in places:
        for index, number in enumerate(numbers):
            if number is not None and number not in nodes:
                yield Issue(
                    (*at, name, index, "numaNode"), f"there is no NUMA node {number}", code="BAI-V040"
                )
    owner: dict[int, int] = {}
    for index, node in enumerate(hardware.numa_nodes):
        shared = next((cpu for cpu in node.cpus if owner.setdefault(cpu, index) != index), None)
        if shared is not None:
            message = f"CPU {shared} belongs to NUMA node {hardware.numa_nodes[owner[shared]].id} already"
            yield Issue((*at, "numaNodes", index, "cpus"), message, code="BAI-V050")


def duplicate_rules(items: Iterable[tuple[Loc, Any]]) -> Iterator[Issue]:
    """An issue for every value that came before."""
    seen: set[Any] = set()
    for at, value in items:
        if value in seen:
            yield Issue(at, f"'{value}' stands twice", "remove one of the two", "BAI-V050")
        seen.add(value)
