"""Errors that GPUs have had: ECC, remapped rows, retired pages, Xid events.

Thresholds are those of NVIDIA's GPU debug guidelines (docs.nvidia.com/deploy/gpu-debug-guidelines), the same
as in `schemas.hardware.health`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from providers.health.codes import CODES, Finding
from providers.health.facts import Facts, GpuState
from providers.health.facts import Xid as Seen
from providers.health.rules.matched import Matched, slot
from providers.health.xid import XIDS

_MOST_RETIRED = 60
_FALLEN = 79


def errors(facts: Facts, here: Sequence[Matched]) -> Iterator[Finding]:
    for gpu in here:
        if gpu.state is not None and not gpu.state.problem:
            yield from _memory(gpu, gpu.state)
            yield from _recovery(gpu, gpu.state)
    for xid in facts.log.xids:
        yield from _xid(xid, here)
    if facts.log.problem and here:
        yield CODES["log-unreadable"].found(why=facts.log.problem)


def _memory(gpu: Matched, state: GpuState) -> Iterator[Finding]:
    index = gpu.index
    if state.uncorrected:
        yield CODES["gpu-ecc-uncorrected"].found(gpu.id, count=state.uncorrected, index=index)
    elif state.uncorrected_ever:
        yield CODES["gpu-ecc-ever"].found(gpu.id, count=state.uncorrected_ever)
    if state.sram_threshold:
        yield CODES["gpu-sram-threshold"].found(gpu.id)
    if state.rows_failed:
        yield CODES["gpu-rows-failed"].found(gpu.id)
    if state.rows_pending:
        yield CODES["gpu-rows-pending"].found(gpu.id, index=index)
    if state.retirement_pending:
        yield CODES["gpu-pages-pending"].found(gpu.id, index=index)
    if state.retired is not None and state.retired >= _MOST_RETIRED:
        yield CODES["gpu-pages-retired"].found(gpu.id, count=state.retired)
    if state.ecc is not None and state.ecc_pending is not None and state.ecc != state.ecc_pending:
        become = "on" if state.ecc_pending else "off"
        yield CODES["gpu-ecc-pending"].found(gpu.id, become=become, index=index)


def _recovery(gpu: Matched, state: GpuState) -> Iterator[Finding]:
    if state.recovery not in ("", "none"):
        yield CODES["gpu-recovery"].found(gpu.id, action=state.recovery, index=gpu.index)


def _xid(seen: Seen, here: Sequence[Matched]) -> Iterator[Finding]:
    gpu = next((one for one in here if one.pci.startswith(f"{slot(seen.pci)}.")), None)
    device = gpu.id if gpu is not None else slot(seen.pci)
    times = "once" if seen.count == 1 else f"{seen.count} times"
    known = XIDS.get(seen.xid)
    said = {"xid": seen.xid, "times": times, "ago": _span(seen.ago)}
    if known is None:
        yield CODES["gpu-xid-unknown"].found(device, said=seen.words or "no words", **said)
    elif known.kind == "application":
        yield CODES["gpu-xid-application"].found(device, words=known.words, **said)
    else:
        code = "gpu-xid-recovered" if _recovered(seen, gpu) else "gpu-xid-fatal"
        yield CODES[code].found(device, words=known.words, advice=known.advice, **said)


def _recovered(seen: Seen, gpu: Matched | None) -> bool:
    """Drivers from R565 on say whether a GPU needs anything; one that fell off the bus is not asked."""
    return gpu is not None and gpu.state is not None and gpu.state.recovery == "none" and seen.xid != _FALLEN


def _span(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(max(0.0, seconds))} s"
