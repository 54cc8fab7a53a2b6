"""Whether NVIDIA's driver and what belongs to it are of one version, loaded, and know the GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from providers.health.codes import CODES, Finding
from providers.health.facts import CdiSpecification, DriverSoftware, GpuState, KernelInstalled, MachineFacts
from providers.health.values import ExpectedNode

_LATE = 2.0
"""Seconds that a CDI specification may be older than the library it lists."""


def driver_findings(facts: MachineFacts, expected: ExpectedNode) -> Iterator[Finding]:
    wanted = expected.driver or expected.gpus or any(one.what == "gpu" for one in facts.pci)
    if wanted:
        yield from _loaded(facts)
    if facts.software.loaded:
        yield from _installed(facts.software)
    if facts.gpus.devices or facts.software.loaded:
        yield from _fabric_manager(facts)
        yield from _cdi(facts, expected)
        if facts.unlinked and expected.engine:
            yield CODES["device-links-missing"].found(path=facts.unlinked[0])


def _loaded(facts: MachineFacts) -> Iterator[Finding]:
    software, gpus = facts.software, facts.gpus
    loaded = software.loaded
    if gpus.hangs:
        yield CODES["driver-hangs"].found(why=gpus.problem)
    elif loaded and software.library and loaded != software.library:
        yield CODES["driver-mismatch"].found(loaded=loaded, library=software.library)
    elif not loaded and not gpus.devices:
        yield CODES["driver-not-loaded"].found()
    elif gpus.problem or not (gpus.source or gpus.devices):
        why = gpus.problem or "neither its library nor nvidia-smi is there"
        yield CODES["driver-problem"].found(why=why)


def _installed(software: DriverSoftware) -> Iterator[Finding]:
    if software.on_disk and software.on_disk != software.loaded:
        yield CODES["driver-newer-on-disk"].found(loaded=software.loaded, on_disk=software.on_disk)
    newer = newer_kernel(software)
    if newer is not None and not newer.nvidia:
        yield CODES["driver-missing-for-kernel"].found(release=newer.release)


def newer_kernel(software: DriverSoftware) -> KernelInstalled | None:
    """The installed kernel that a reboot would start instead of the one that runs; None when it would not."""
    newest = max(software.kernels, key=lambda one: _release_key(one.release), default=None)
    if (
        newest is None
        or not software.running
        or _release_key(newest.release) <= _release_key(software.running)
    ):
        return None
    return newest


def _release_key(release: str) -> tuple[int, ...]:
    """`6.1.0-21` after `6.1.0-9`; whatever follows the numbers is the flavour."""
    found = re.match(r"\d+([.-]\d+)*", release)
    return tuple(map(int, re.split(r"[.-]", found.group()))) if found else ()


def _fabric_manager(facts: MachineFacts) -> Iterator[Finding]:
    if not any(one.what == "switch" for one in facts.pci):
        return
    packages = (v for name, v in facts.software.packages.items() if name.startswith("nvidia-fabricmanager"))
    version, state = next(packages, ""), facts.units.get("nvidia-fabricmanager")
    loaded = facts.software.loaded or facts.gpus.driver
    if not version and state is None:
        yield CODES["fabricmanager-missing"].found()
    elif version and loaded and _upstream(version) != loaded:
        yield CODES["fabricmanager-version"].found(version=_upstream(version), driver=loaded)
    elif state is not None and state != "active":
        yield CODES["fabricmanager-down"].found(state=state)


def _upstream(version: str) -> str:
    """NVIDIA's own version of a package: `550.90.07` of `1:550.90.07-0ubuntu1`."""
    found = re.search(r"\d+\.\d+(\.\d+)?", version.partition(":")[2] or version)
    return found.group() if found else version


def _cdi(facts: MachineFacts, expected: ExpectedNode) -> Iterator[Finding]:
    if expected.cdi and not facts.cdi and facts.gpus.devices:
        yield CODES["cdi-missing"].found()
    for one in facts.cdi:
        why = _stale_specification(one, facts)
        if why:
            yield CODES["cdi-stale"].found(one.path, why=why)


def _stale_specification(one: CdiSpecification, facts: MachineFacts) -> str:
    if one.missing:
        more = f" and {len(one.missing) - 1} more" if len(one.missing) > 1 else ""
        return f"it lists {one.missing[0]}{more}, which is not there"
    if facts.software.library_since and one.written + _LATE < facts.software.library_since:
        return "it is older than the driver's libraries"
    return _other_devices(one, facts)


def _other_devices(one: CdiSpecification, facts: MachineFacts) -> str:
    """Devices of a specification by index (`0`, `0:1`) or by UUID, whichever nvidia-ctk was told to name
    them by, against those that there are."""
    known = facts.gpus.devices
    if any(state.problem for state in known):
        return ""
    indexes = {name for state in known for name in _indexes(state)}
    uuids = {state.uuid for state in known if state.uuid and not state.mig}
    for there, pattern in ((indexes, r"\d+(:\d+)?"), (uuids, r"GPU-.+")):
        listed = {name for name in one.devices if re.fullmatch(pattern, name)}
        if not listed or not there:
            continue
        if gone := sorted(listed - there):
            return f"it lists GPU {gone[0]}, which is not there"
        if new := sorted(there - listed):
            return f"it does not list GPU {new[0]}"
    return ""


def _indexes(state: GpuState) -> list[str]:
    if not state.mig:
        return [str(state.index)]
    return [f"{state.index}:{at}" for at in range(state.instances or 0)]
