"""Errors that GPUs have had: ECC, remapped rows, retired pages, Xid events.

Thresholds are those of NVIDIA's GPU debug guidelines (docs.nvidia.com/deploy/gpu-debug-guidelines), the same
as in `schemas.hardware.gpu_health`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from providers.health.codes import CODES, Finding
from providers.health.facts import GpuState, MachineFacts, XidCount
from providers.health.rules.matching import MatchedGpu, normalise_slot
from providers.health.xid import XIDS

_MOST_RETIRED = 60
_FELL_OFF_BUS = 79


def error_findings(facts: MachineFacts, here: Sequence[MatchedGpu]) -> Iterator[Finding]:
    for gpu in here:
        if gpu.state is not None and not gpu.state.problem:
            yield from _memory(gpu, gpu.state)
            yield from _recovery(gpu, gpu.state)
    for xid in facts.log.xids:
        yield from _xid_finding(xid, here)
    if facts.log.problem and here:
        yield CODES["log-unreadable"].found(why=facts.log.problem)


def _memory(gpu: MatchedGpu, state: GpuState) -> Iterator[Finding]:
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


def _recovery(gpu: MatchedGpu, state: GpuState) -> Iterator[Finding]:
    if state.recovery not in ("", "none"):
        yield CODES["gpu-recovery"].found(gpu.id, action=state.recovery, index=gpu.index)


def _xid_finding(seen: XidCount, here: Sequence[MatchedGpu]) -> Iterator[Finding]:
    gpu = next((one for one in here if one.pci.startswith(f"{normalise_slot(seen.pci)}.")), None)
    device = gpu.id if gpu is not None else normalise_slot(seen.pci)
    times = "once" if seen.count == 1 else f"{seen.count} times"
    known = XIDS.get(seen.xid)
    said = {"xid": seen.xid, "times": times, "ago": _describe_span(seen.ago)}
    if known is None:
        yield CODES["gpu-xid-unknown"].found(device, said=seen.words or "no words", **said)
    elif known.kind == "application":
        yield CODES["gpu-xid-application"].found(device, words=known.words, **said)
    else:
        code = "gpu-xid-recovered" if _recovered(seen, gpu) else "gpu-xid-fatal"
        yield CODES[code].found(device, words=known.words, advice=known.advice, **said)


def _recovered(seen: XidCount, gpu: MatchedGpu | None) -> bool:
    """Drivers from R565 on say whether a GPU needs anything; one that fell off the bus is not asked."""
    return (
        gpu is not None
        and gpu.state is not None
        and gpu.state.recovery == "none"
        and seen.xid != _FELL_OFF_BUS
    )


def _describe_span(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(max(0.0, seconds))} s"
