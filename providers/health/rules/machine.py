"""The machine around the GPUs: kernel, memory, disks, mounts, clock, network, what runs sessions."""

from __future__ import annotations

from collections.abc import Iterator

from providers.health.codes import CODES, Finding
from providers.health.facts import DiskSpace, MachineFacts
from providers.health.rules.driver import newer_kernel
from providers.health.values import ExpectedNode

_FULL, _FILLING = 98, 90
_ROOM = 50 << 30
"""Bytes with which no disk counts as filling, however large it is."""
_WITHOUT_CABLE = 10_000
"""Mbit/s that a port is said to run at which has never seen another one."""
_CORRECTED = 1000
"""Corrected memory errors since boot from which one hears of them."""


def machine_findings(facts: MachineFacts, expected: ExpectedNode) -> Iterator[Finding]:
    yield from _kernel(facts)
    yield from _memory(facts)
    for disk in facts.disks:
        yield from _disk(disk)
    yield from _mounts(facts, expected)
    if facts.synchronised is False:
        yield CODES["clock-unsynchronised"].found()
    yield from _rdma(facts, expected)
    state = facts.units.get(expected.engine)
    if state is not None and state != "active":
        yield CODES["engine-down"].found(unit=expected.engine, state=state)


def _kernel(facts: MachineFacts) -> Iterator[Finding]:
    newer = newer_kernel(facts.software)
    if newer is not None:
        running = facts.software.running
        yield CODES["kernel-newer-installed"].found(running=running, newest=newer.release)
    if facts.software.reboot_required:
        yield CODES["reboot-required"].found()


def _memory(facts: MachineFacts) -> Iterator[Finding]:
    for one in facts.memory:
        if one.uncorrected:
            yield CODES["memory-uncorrected"].found(one.controller, count=one.uncorrected)
        if one.corrected >= _CORRECTED:
            yield CODES["memory-corrected"].found(one.controller, count=one.corrected)
    if facts.log.machine_checks:
        yield CODES["machine-check"].found(count=facts.log.machine_checks)
    for said in facts.log.read_only:
        yield CODES["file-system-read-only"].found(said=said)


def _disk(disk: DiskSpace) -> Iterator[Finding]:
    bytes_used = 100 * (disk.size - disk.free) // disk.size if disk.size else 0
    files_used = 100 * (disk.files - disk.files_free) // disk.files if disk.files else 0
    for percent, of, roomy in ((bytes_used, "bytes", disk.free >= _ROOM), (files_used, "files", False)):
        code = "disk-full" if percent >= _FULL else "disk-filling" if percent >= _FILLING else ""
        if code and not roomy:
            yield CODES[code].found(disk.path, percent=percent, of=of)


def _mounts(facts: MachineFacts, expected: ExpectedNode) -> Iterator[Finding]:
    for path, why in sorted(facts.mounts.stale.items()):
        yield CODES["mount-stale"].found(path, why=why)
    wanted = {*facts.mounts.missing, *(path for path in expected.mounts if path not in facts.mounts.there)}
    for path in sorted(wanted):
        yield CODES["mount-missing"].found(path, path=path)


def _rdma(facts: MachineFacts, expected: ExpectedNode) -> Iterator[Finding]:
    """Only devices that ran when they were recorded: a port without a cable is nobody's fault."""
    for device, recorded in sorted(expected.ports.items()):
        ports = [port for port in facts.rdma if port.device == device]
        up = [port for port in ports if port.state == "ACTIVE"]
        if recorded <= _WITHOUT_CABLE or not ports:
            continue
        if not up:
            state, physical = ports[0].state.lower() or "unknown", ports[0].physical or "unknown"
            yield CODES["rdma-down"].found(device, state=state, physical=physical)
        elif (rate := max(port.rate or recorded for port in up)) < recorded:
            yield CODES["rdma-slow"].found(device, rate=rate // 1000, recorded=recorded // 1000)
