"""What nodes can enforce parts of GPUs with: asked only where somebody is to have such parts."""

from __future__ import annotations

from dataclasses import replace

from providers.abilities import ReportsFractions
from providers.base import Provider
from reconciler.values.documents.fraction_groups import group_nodes, groups_to_enforce
from reconciler.values.state import Actual, Desired
from schemas.problems.errors.provider import ProviderError


def add_gpu_fractions(actual: Actual, desired: Desired, provider: Provider) -> Actual:
    """What was found out stands in `capabilities.node_fractions`; a node that could not be asked can enforce
    nothing."""
    groups = groups_to_enforce(desired)
    if actual.capabilities is None or not groups or not isinstance(provider, ReportsFractions):
        return actual
    names = sorted({name for group in groups for name in group_nodes(desired, group)})
    try:
        found = provider.fractions(names)
    except ProviderError as error:
        found = {name: dict.fromkeys(("mps", "hami", "mig"), str(error)) for name in names}
    able = {name: frozenset(means for means, why in each.items() if not why) for name, each in found.items()}
    away = dict.fromkeys(("mps", "hami", "mig"), "it was not reached")
    lost = {name: away for name in names if name not in found}
    capabilities = replace(
        actual.capabilities,
        node_fractions={name: able.get(name, frozenset()) for name in names},
        no_fractions={**found, **lost},
    )
    return replace(actual, capabilities=capabilities)
