"""What nodes can enforce parts of GPUs with: asked only where somebody is to have such parts, and believed
once a part was seen to hold there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from providers.abilities import ReportsFractions, TriesFractions
from reconciler.observe.enforcement import EnforcementMemory, Trial, find_enforcement, obstacle
from reconciler.values.documents.fraction_groups import group_nodes, groups_to_enforce
from schemas.problems.errors.provider import ProviderError

if TYPE_CHECKING:
    from providers.base import Provider
    from reconciler.values.state import Actual, Desired

_MEANS = ("mps", "hami", "mig")


def add_gpu_fractions(
    actual: Actual, desired: Desired, provider: Provider, memory: EnforcementMemory, now: float
) -> Actual:
    """What was found out stands in `capabilities.node_fractions`; a node that could not be asked can enforce
    nothing."""
    groups = groups_to_enforce(desired)
    if actual.capabilities is None or not groups or not isinstance(provider, ReportsFractions):
        return actual
    demanded = {
        name: desired.groups[group].spec.fractional.enforcement
        for group in groups
        for name in group_nodes(desired, group)
    }
    names = sorted(demanded)
    try:
        if isinstance(provider, TriesFractions):
            found = _seen_to_hold(demanded, actual, desired, provider, memory, now)
        else:  # what others bring is theirs to know
            found = provider.fractions(names)
    except ProviderError as error:
        found = {name: dict.fromkeys(_MEANS, str(error)) for name in names}
    able = {name: frozenset(means for means, why in each.items() if not why) for name, each in found.items()}
    lost = {name: dict.fromkeys(_MEANS, "it was not reached") for name in names if name not in found}
    capabilities = replace(
        actual.capabilities,
        node_fractions={name: able.get(name, frozenset()) for name in names},
        no_fractions={**found, **lost},
    )
    return replace(actual, capabilities=capabilities)


def _seen_to_hold(
    demanded: Mapping[str, str], actual: Actual, desired: Desired, provider: TriesFractions,
    memory: EnforcementMemory, now: float,
) -> Mapping[str, Mapping[str, str]]:  # fmt: skip
    """Node → means → why it does not count; of the means that are demanded there. Raises ProviderError."""
    means = provider.fraction_means(demanded)
    trials = [
        Trial(name, wanted, means[name].versions.get(wanted, ""))
        for name, wanted in sorted(demanded.items())
        if wanted != "mig" and name in means and not means[name].missing.get(wanted, "it did not say")
    ]
    records = find_enforcement(trials, actual, desired, provider, memory, now)
    loose = {(each.node, each.means): obstacle(record) for each, record in records.items()}
    return {
        name: {one: _why(one, each.missing, loose.get((name, one))) for one in _MEANS}
        for name, each in means.items()
    }


def _why(means: str, missing: Mapping[str, str], loose: str | None) -> str:
    return missing.get(means, "it did not say") or loose or ""
