"""What is seen and planned in a life, by way of what is remembered; each time it is compared with what is
made anew of nothing."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, replace

from providers.base import Provider
from reconciler.observe.clock_skew import clock_doubts
from reconciler.observe.existing_memo import ExistingMemo
from reconciler.observe.observe import ProviderReading, actual_state, add_recorded, read_provider
from reconciler.plan.pipeline import make_plan, make_timed_plan
from reconciler.plan.plan_cache import PlanCache
from reconciler.plan.plan_request import PlanRequest
from reconciler.review import DocumentVersion, Review, build_review
from reconciler.review.memory import ReviewMemory
from reconciler.review.review_json import review_value
from reconciler.store.database.address import StoreAddress
from reconciler.store.database.asked_questions import AskedQuestion
from reconciler.store.reader import FileReader, open_file_reader
from reconciler.store.store import Store
from reconciler.values.encoding.plan_json import (
    dump_plan,
    dump_plan_compactly,
    idle_plan_from_values,
    idle_plan_values,
)
from reconciler.values.plan import Plan
from reconciler.values.state import Actual, Desired, Existing
from tests.simulation.documents import CLUSTER, REPO, Documents
from tests.simulation.invariants import Violation

_FROM_STORE = ("missed", "contacts", "samples", "balances", "provision_records")
"""What a look takes from the store beside records."""


@dataclass(frozen=True, slots=True)
class _Remembered:
    """A plan for which nobody was asked, as another process finds it again."""

    documents: str
    asked: tuple[AskedQuestion, ...]
    until: float
    plan: Plan


class OfflinePlans:
    """Plans of the store's file alone. One that is remembered is the one that is made anew for as long as its
    documents, its time and all that the store answered are the same. `found` counts how often that was so."""

    def __init__(self) -> None:
        self.found = 0
        self._known: list[_Remembered] = []

    def check(self, documents: Documents, address: StoreAddress, now: float) -> None:
        """Those of before, now, and now's a while later."""
        reader = open_file_reader(address)
        if reader is None:  # A server's.
            return
        with contextlib.closing(reader):
            reader.asked = []
            actual = add_recorded(reader, ProviderReading(), CLUSTER, repo=REPO)
            asked, reader.asked = tuple(reader.asked), None
            made = make_timed_plan(PlanRequest(documents.made_anew(), actual, now, sealed=False))
            plan = made.plan
            if _as_told(plan) != _as_told(make_plan(PlanRequest(documents.made_anew(), actual, now))):
                raise Violation(f"not the plan that is carried out:\n{plan}")
            self._compare(documents, actual, reader, now, plan)
            self._known = [*self._known[-1:], _Remembered(documents.text, asked, made.valid_until, plan)]
            for later in (now + 100.0, now + 5000.0):
                self._compare(documents, actual, reader, later)
        values = json.loads(json.dumps(idle_plan_values(plan)))
        if idle_plan_from_values(values) != replace(plan, actions=()):
            raise Violation(f"not the plan that was written down:\n{values}\n{plan}")

    def _compare(
        self, documents: Documents, actual: Actual, reader: FileReader, now: float, plan: Plan | None = None
    ) -> None:
        for known in self._known:
            same = known.documents == documents.text and known.plan.made_at <= now < known.until
            if not same or clock_doubts(actual, now) or not reader.answers_as_before(known.asked):
                continue
            plan = plan or make_plan(PlanRequest(documents.made_anew(), actual, now, sealed=False))
            self.found += 1
            if _as_told(plan) != _as_told(known.plan):
                raise Violation(f"not the plan of what is recorded:\n{known.plan}\n{plan}")


class CheckedReviews:
    """What changes would do, with what the reviews before have left."""

    def __init__(self) -> None:
        self._memory = ReviewMemory()
        self._before: tuple[Desired, Desired] | None = None

    def check(self, documents: Documents, actual: Actual, now: float) -> None:
        """From the documents of before to those of now, and what has become of that a little later."""
        desired, before = documents.desired(), self._before
        if before is not None and before[0] is desired:
            return
        self._before = desired, documents.made_anew()
        if before is None:
            return
        for at in (now, now + 20.0):
            bare = _all_made_anew(actual)
            head, anew_head = DocumentVersion(desired), DocumentVersion(self._before[1])
            found = build_review(DocumentVersion(before[0]), head, actual, at, self._memory)
            anew = build_review(DocumentVersion(before[1]), anew_head, bare, at)
            said, wanted = _as_text(found), _as_text(anew)
            if said != wanted:
                raise Violation(f"not the review that is made anew:\n{said}\n{wanted}")


class CheckedPlans:
    """`reused` counts the plans that were not made anew."""

    def __init__(self) -> None:
        self.reused = 0
        self._cache = PlanCache()
        self._memo = ExistingMemo()
        self._last: Plan | None = None
        self._reviews = CheckedReviews()

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
        anew = make_plan(PlanRequest(documents.made_anew(), _all_made_anew(actual), now))
        if dump_plan_compactly(plan) != dump_plan_compactly(anew):
            raise Violation(f"not the plan that is made anew:\n{dump_plan(plan)}\n{dump_plan(anew)}")
        self._reviews.check(documents, actual, now)
        return plan


def _as_told(plan: Plan) -> str:
    """Without what only one that is carried out has."""
    return dump_plan_compactly(replace(plan, made_at=0.0, basis="", digest=""))


def _as_text(review: Review) -> str:
    """In one line, which Python's fast encoder writes."""
    return json.dumps(review_value(review), sort_keys=True)


def _all_made_anew(actual: Actual) -> Actual:
    return replace(actual, existing={name: _made_anew(each) for name, each in actual.existing.items()})


def _made_anew(each: Existing) -> Existing:
    """The same, without anything that was worked out for it, or for what its kernels hold."""
    record = each.recorded
    if record.placement is not None:
        kernels = tuple(replace(kernel) for kernel in record.placement.kernels)
        record = replace(record, placement=replace(record.placement, kernels=kernels))
    return replace(each, recorded=replace(record))
