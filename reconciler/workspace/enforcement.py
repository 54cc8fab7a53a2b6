"""Trying anew whether parts of GPUs hold on a cluster's nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from reconciler.values.documents.fraction_groups import demanded_means
from schemas.problems.errors.provider import ProviderError

if TYPE_CHECKING:
    from providers.gpu.enforcement import NodeMeans
    from reconciler.observe.enforcement import Trial
    from reconciler.values.records import EnforcementRecord
    from reconciler.workspace.workspace import Workspace


@dataclasses.dataclass(frozen=True, slots=True)
class CheckedMeans:
    """What came of one means on one node. `missing`: it cannot be used there, and `why`."""

    node: str
    means: str
    demanded: bool
    outcome: Literal["held", "failed", "untested", "missing"]
    why: str
    version: str = ""
    at: float | None = None
    """When it was tried, in seconds since the epoch."""

    @property
    def good(self) -> bool:
        """Whether what its group demands can be given there."""
        return self.outcome == "held" or not self.demanded


def check_enforcement(workspace: Workspace, nodes: Collection[str]) -> tuple[CheckedMeans, ...]:
    """Try every means that these nodes have, whatever is remembered of it, and remember what came of it.
    Raises ProviderError where the provider cannot."""
    from providers.abilities import TriesFractions
    from providers.gpu.enforcement import MEANS
    from reconciler.observe.enforcement import Trial, trial_choices, try_enforcement

    provider, desired, actual = workspace.provider, workspace.desired(), workspace.observe_sessions()
    if not isinstance(provider, TriesFractions):
        why = "it does not try whether parts of GPUs hold"
        raise ProviderError(provider=workspace.cluster.spec.provider, why=why)
    means, memory, now = provider.fraction_means(nodes), workspace.enforcement, workspace.clock.now()
    trials = [
        Trial(node, one, means[node].versions.get(one, ""))
        for node in sorted(means)
        for one in MEANS
        if not means[node].missing.get(one, "it did not say")
    ]
    known = memory.recorded()
    choices, busy = trial_choices(trials, actual, desired, now)
    tried = try_enforcement(choices, provider, now)
    memory.record([record for record in tried.values() if record.outcome != "untested"])
    best = {
        trial: _latest(record, known.get((trial.node, trial.means)))
        for trial, record in (busy | tried).items()
    }
    return tuple(_rows(nodes, means, best, demanded_means(desired)))


def _latest(tried: EnforcementRecord, known: EnforcementRecord | None) -> EnforcementRecord:
    """What could not be tried now is as it was seen before with the same version."""
    if tried.outcome != "untested" or known is None or known.version != tried.version:
        return tried
    return dataclasses.replace(known, why=f"{known.why} (not tried now: {tried.why})")


def _rows(
    nodes: Collection[str],
    means: Mapping[str, NodeMeans],
    tried: Mapping[Trial, EnforcementRecord],
    demanded: Mapping[str, frozenset[str]],
) -> Iterator[CheckedMeans]:
    from providers.gpu.enforcement import MEANS

    records = {(trial.node, trial.means): record for trial, record in tried.items()}
    for node in sorted(nodes):
        missing = means[node].missing if node in means else {}
        for one in MEANS:
            record, wanted = records.get((node, one)), one in demanded.get(node, frozenset())
            if record is not None:
                at = record.at if record.outcome != "untested" else None
                yield CheckedMeans(node, one, wanted, record.outcome, record.why, record.version, at)
            else:
                why = missing.get(one, "it did not say") if node in means else "it was not reached"
                yield CheckedMeans(node, one, wanted, "missing", why)


def known_obstacles(workspace: Workspace, nodes: Collection[str]) -> Mapping[str, Mapping[str, str]]:
    """Node → means → why it gives no parts so, by looking and by what is remembered of trials; empty where
    nothing is known to speak against it. Nodes that cannot be reached are left out. Raises ProviderError."""
    from providers.abilities import ReportsFractions, TriesFractions
    from reconciler.observe.enforcement import obstacle

    provider, known = workspace.provider, workspace.enforcement.recorded()
    if not isinstance(provider, TriesFractions):
        return provider.fractions(nodes) if isinstance(provider, ReportsFractions) else {}
    found = {}
    for node, means in provider.fraction_means(nodes).items():
        found[node] = dict(means.missing)
        for one, version in means.versions.items():
            record = known.get((node, one))
            if record is not None and record.version == version and not found[node].get(one):
                found[node][one] = obstacle(record)
    return found
