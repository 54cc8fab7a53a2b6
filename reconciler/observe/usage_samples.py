"""Measuring what kernels use, and which of the samples are kept: dense for the last minutes, thinner the
older they are, so that a kernel has a few hundred however long it runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set

from providers.abilities import MeasuresUsage, Usage
from providers.base import Provider
from reconciler.values.records import Sample, SampleChange
from schemas.problems.errors.provider import ProviderError

SAMPLE_INTERVAL = 5.0
"""Seconds between two samples at least."""
THINNING = 32
"""A sample is dropped when its neighbours are not further apart than this part of its age."""
HORIZON = 14 * 86_400.0
MAX_SAMPLES = 500


def measure_usage(provider: Provider, wanted: Set[str]) -> dict[str, Sample]:
    """What the `wanted` kernels have used by now; those that cannot be measured are left out."""
    if not wanted or not isinstance(provider, MeasuresUsage):
        return {}
    found = {}
    try:
        for usage in provider.usage():
            if usage.kernel in wanted:
                found[usage.kernel] = _sample_of(usage)
    except ProviderError:
        return found
    return found


def _sample_of(usage: Usage) -> Sample:
    flows = [flow for flow in (usage.network_in, usage.network_out) if flow is not None]
    busy = [gpu.busy for gpu in usage.gpus.values()]
    known = [each for each in busy if each is not None]
    return Sample(
        at=usage.at.timestamp(),
        cpu=usage.cpu_seconds,
        network=sum(flows) if len(flows) == 2 else None,
        # A device that says nothing may be busy.
        gpu=float(max(known)) if known and len(known) == len(busy) else None,
    )


def sample_changes(
    known: Mapping[str, tuple[Sample, ...]], new: Mapping[str, Sample], wanted: Set[str], now: float
) -> tuple[SampleChange, ...]:
    """The changes to the store: new samples, what is thinned out, and kernels that are not watched any
    more."""
    changes = [SampleChange(kernel, drop=None) for kernel in sorted(known.keys() - wanted)]
    for kernel, sample in sorted(new.items()):
        stored = known.get(kernel, ())
        # Samples of the future are from before the clock was set back.
        before = tuple(each for each in stored if each.at <= max(now, sample.at))
        if not math.isfinite(sample.at) or (before and sample.at - before[-1].at < SAMPLE_INTERVAL):
            continue
        changes.append(_sample_difference(kernel, stored, thin_out((*before, sample), now)))
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
    return Sample(kept.at, kept.cpu, kept.network, gpu)
