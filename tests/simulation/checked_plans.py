"""What is seen and planned in a life, by way of what is remembered; each time it is compared with what is
made anew of nothing."""

from __future__ import annotations

from dataclasses import replace

from providers.base import Provider
from reconciler.observe.existing_memo import ExistingMemo
from reconciler.observe.observe import actual_state, add_recorded, read_provider
from reconciler.plan.pipeline import make_plan
from reconciler.plan.plan_cache import PlanCache
from reconciler.plan.plan_request import PlanRequest
from reconciler.store.store import Store
from reconciler.values.encoding.plan_json import dump_plan, dump_plan_compactly
from reconciler.values.plan import Plan
from reconciler.values.state import Actual, Existing
from tests.simulation.documents import CLUSTER, REPO, Documents
from tests.simulation.invariants import Violation

_FROM_STORE = ("missed", "contacts", "samples", "balances", "provision_records")
"""What a look takes from the store beside records."""


class CheckedPlans:
    """`reused` counts the plans that were not made anew."""

    def __init__(self) -> None:
        self.reused = 0
        self._cache = PlanCache()
        self._memo = ExistingMemo()
        self._last: Plan | None = None

    def observe(self, store: Store, provider: Provider) -> Actual:
        reading = read_provider(provider)
        found = add_recorded(store, reading, CLUSTER, repo=REPO, memo=self._memo)
        anew = actual_state(
            {identity: each.recorded for identity, each in found.existing.items() if not each.adopted},
            reading.observation,
            reading.capabilities,
            repo=REPO,
            cluster=CLUSTER,
            hardware={},
        )
        stored = {name: getattr(found, name) for name in _FROM_STORE}
        if replace(anew, **stored) != found:
            raise Violation("what was remembered of the world is not what is there")
        return found

    def plan(self, documents: Documents, actual: Actual, now: float) -> Plan:
        plan = self._cache.plan(PlanRequest(documents.desired(), actual, now))
        self.reused += self._last is not None and plan.actions is self._last.actions
        self._last = plan
        bare = replace(actual, existing={name: _made_anew(each) for name, each in actual.existing.items()})
        anew = make_plan(PlanRequest(documents.made_anew(), bare, now))
        if dump_plan_compactly(plan) != dump_plan_compactly(anew):
            raise Violation(f"not the plan that is made anew:\n{dump_plan(plan)}\n{dump_plan(anew)}")
        return plan


def _made_anew(each: Existing) -> Existing:
    """The same, without anything that was worked out for it, or for what its kernels hold."""
    record = each.recorded
    if record.placement is not None:
        kernels = tuple(replace(kernel) for kernel in record.placement.kernels)
        record = replace(record, placement=replace(record.placement, kernels=kernels))
    return replace(each, recorded=replace(record))
