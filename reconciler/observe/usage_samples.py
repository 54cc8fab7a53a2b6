"""Measuring what kernels use, and which of the samples are kept: dense for the last minutes, thinner the
older they are, so that a kernel has a few hundred however long it runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import replace

from providers.abilities import MeasuresUsage, Usage
from providers.base import Provider
from reconciler.values.records import Consumption, Sample, SampleChange
from reconciler.values.usage.consumption import Measurement, consumed
from schemas.problems.errors.provider import ProviderError

SAMPLE_INTERVAL = 5.0
"""Seconds between two samples at least."""
THINNING = 32
"""A sample is dropped when its neighbours are not further apart than this part of its age."""
HORIZON = 14 * 86_400.0
MAX_SAMPLES = 500
Samples = Mapping[str, tuple[Sample, ...]]
"""By kernel, oldest first."""


def measure_usage(provider: Provider, wanted: Set[str], known: Samples) -> dict[str, Sample]:
    """What the `wanted` kernels have used by now, on top of what is `known`; those that cannot be measured
    are left out."""
    if not wanted or not isinstance(provider, MeasuresUsage):
        return {}
    found = {}
    try:
        for usage in provider.usage():
            if usage.kernel in wanted:
                found[usage.kernel] = _sample_of(usage, next(reversed(known.get(usage.kernel, ())), None))
    except ProviderError:
        return found
    return found


def _sample_of(usage: Usage, last: Sample | None) -> Sample:
    flows = [flow for flow in (usage.network_in, usage.network_out) if flow is not None]
    busy = [gpu.busy for gpu in usage.gpus.values()]
    known = [each for each in busy if each is not None]
    return Sample(
        at=usage.at.timestamp(),
        cpu=usage.cpu_seconds,
        network=sum(flows) if len(flows) == 2 else None,
        # A device that says nothing may be busy.
        gpu=float(max(known)) if known and len(known) == len(busy) else None,
        total=consumed(
            last.total if last is not None else Consumption(),
            last.cpu if last is not None else None,
            Measurement(usage.at.timestamp(), usage.cpu_seconds, usage.memory, tuple(busy)),
        ),
    )


def sample_changes(
    known: Samples,
    new: Mapping[str, Sample],
    wanted: Set[str],
    now: float,
    *,
    accounted: Set[str] = frozenset(),
) -> tuple[SampleChange, ...]:
    """The changes to the store: new samples, what is thinned out, and kernels that are no more `wanted`. Of
    those that are only `accounted` for, the last two are kept: what is used now is what lies between them."""
    wanted |= accounted
    changes = [SampleChange(kernel, drop=None) for kernel in sorted(known.keys() - wanted)]
    for kernel, sample in sorted(new.items()):
        stored = known.get(kernel, ())
        # Samples of the future are from before the clock was set back.
        before = tuple(each for each in stored if each.at <= max(now, sample.at))
        if not math.isfinite(sample.at) or (before and sample.at - before[-1].at < SAMPLE_INTERVAL):
            continue
        kept = (*before[-1:], sample) if kernel in accounted else thin_out((*before, sample), now)
        changes.append(_sample_difference(kernel, stored, kept))
    return tuple(changes)


def _sample_difference(kernel: str, before: tuple[Sample, ...], after: tuple[Sample, ...]) -> SampleChange:
    old, new = set(before), set(after)
    drop = tuple(sample.at for sample in before if sample not in new)
    return SampleChange(kernel, drop, tuple(sample for sample in after if sample not in old))


def thin_out(samples: tuple[Sample, ...], now: float) -> tuple[Sample, ...]:
    """Fewer of the older ones; what a GPU did in the time of a dropped sample counts for the next one."""
    kept: list[Sample] = []
    for sample in samples:
        if now - sample.at > HORIZON:
            continue
        while len(kept) >= 2 and sample.at - kept[-2].at <= (now - sample.at) / THINNING:
            sample = _merge_into_next(kept.pop(), sample)
        kept.append(sample)
    return tuple(kept[-MAX_SAMPLES:])


def _merge_into_next(dropped: Sample, kept: Sample) -> Sample:
    gpu = None if dropped.gpu is None or kept.gpu is None else max(dropped.gpu, kept.gpu)
    return replace(kept, gpu=gpu)
