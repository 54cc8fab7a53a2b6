"""Asking registries what a plan has to know: what tags mean, and who has signed images.

Only of images that the plan starts, only what nobody knows yet, and never for long: who runs a registry may
be slow on purpose, and the loop has other things to do.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from reconciler.observe.images import ResolveSecret, access_to
from schemas.problems.errors.base import BaiError
from schemas.values.public_keys import PublicKey, parse_public_key

if TYPE_CHECKING:
    from providers.registry_client.access import RegistryAccess
    from providers.registry_client.client import RegistryClient
    from reconciler.plan.image_lookups import ImageLookup
    from reconciler.plan.plan_request import PlanRequest
    from reconciler.values.plan import Plan
    from schemas.images.facts import ImageFacts
    from schemas.repository.repository import Repository
    from schemas.values.image_reference import ImageReference

LOOKUP_TIMEOUT = 30.0
"""Seconds that all registries together may take."""
ANSWER_TTL = 60.0
"""Seconds for which an answer counts, also a bad one: a session that is refused is planned in every pass."""
_TIMEOUT = 5.0


def replan_with_lookups(
    plan: Plan,
    request: PlanRequest,
    *,
    look_up: Callable[[Sequence[ImageLookup]], LookupResult],
    remember: Callable[[Sequence[ImageFacts]], None],
) -> Plan:
    """The plan of this request, made again with what registries say of the images that it starts, where its
    policies or documents have to know it; the same where nothing has to be asked. `remember` is given what
    they say."""
    from reconciler.plan.image_lookups import needed_lookups
    from reconciler.plan.pipeline import make_plan
    from reconciler.plan.verdict import policies_in_force

    desired, actual = request.desired, request.actual
    _, policies = policies_in_force(desired, actual, destroy=request.options.destroy)
    unknown = needed_lookups(plan.changes, policies, desired, actual)
    if not unknown:
        return plan
    found = look_up(unknown)
    if found.facts:
        remember(found.facts)
    images = {**actual.images, **{facts.reference: facts for facts in found.facts}}
    actual = replace(actual, images=images, asked=found.asked, unanswered=found.why)
    return make_plan(replace(request, actual=actual))


@dataclass(frozen=True, slots=True)
class LookupResult:
    """To one question. `asked`: full references that were looked up; `why`: reference → what was not to be
    had."""

    facts: tuple[ImageFacts, ...] = ()
    asked: frozenset[str] = frozenset()
    why: Mapping[str, str] = field(default_factory=dict)


class RegistryLookups:
    """Asks, and remembers for a minute. `now` gives seconds since the epoch."""

    def __init__(self, now: Callable[[], float], *, timeout: float = LOOKUP_TIMEOUT) -> None:
        self._now = now
        self._timeout = timeout
        self._answers: dict[ImageLookup, tuple[float, LookupResult]] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()

    def look_up(
        self, lookups: Sequence[ImageLookup], repository: Repository, secret: ResolveSecret
    ) -> LookupResult:
        """Every registry in a thread of its own; what is not answered in time has a reason. Nothing is
        raised but what is a mistake in here."""
        now = self._now()
        with self._lock:
            known = self._answers.items()
            self._answers = {lookup: answer for lookup, answer in known if 0 <= now - answer[0] < ANSWER_TTL}
            unasked = [lookup for lookup in lookups if lookup not in self._answers]
        for domain in sorted({lookup.reference.domain for lookup in unasked}):
            mine = [lookup for lookup in unasked if lookup.reference.domain == domain]
            self._start(domain, mine, repository, secret)
        self._wait({lookup.reference.domain for lookup in unasked})
        with self._lock:
            answers = [self._answer(lookup) for lookup in lookups]
        return LookupResult(
            tuple(one for each in answers for one in each.facts),
            frozenset().union(*(each.asked for each in answers)),
            {name: why for each in answers for name, why in each.why.items()},
        )

    def _start(
        self, domain: str, lookups: Sequence[ImageLookup], repository: Repository, secret: ResolveSecret
    ) -> None:
        """One that is still being asked from an earlier time is not asked twice."""
        running = self._threads.get(domain)
        if running is not None and running.is_alive():
            return
        accesses: dict[ImageLookup, RegistryAccess] = {}
        for lookup in lookups:
            try:  # Secrets are read here: their reader is not for threads.
                accesses[lookup] = access_to(repository, lookup.reference, secret)
            except BaiError as error:
                self._remember(lookup, LookupResult(why={str(lookup.reference): str(error)}))
        thread = threading.Thread(
            target=self._look_up_all, args=(accesses,), name=f"ask {domain}", daemon=True
        )
        self._threads[domain] = thread
        thread.start()

    def _wait(self, domains: Iterable[str]) -> None:
        until = time.monotonic() + self._timeout
        for domain in domains:
            self._threads[domain].join(max(0.0, until - time.monotonic()))

    def _look_up_all(self, accesses: Mapping[ImageLookup, RegistryAccess]) -> None:
        from providers.registry_client.client import RegistryClient
        from schemas.problems.errors.registry import RegistryUnreachable

        gone = ""
        for lookup, access in accesses.items():
            name = str(lookup.reference)
            if gone:
                self._remember(lookup, LookupResult(why={name: gone}))
                continue
            try:
                with RegistryClient(replace(access, timeout=_TIMEOUT)) as client:
                    self._remember(lookup, answer_from_registry(client, lookup))
            except BaiError as error:
                gone = str(error) if isinstance(error, RegistryUnreachable) else ""
                self._remember(lookup, LookupResult(why={name: str(error)}))

    def _answer(self, lookup: ImageLookup) -> LookupResult:
        known = self._answers.get(lookup)
        return known[1] if known is not None else _timed_out(lookup, self._timeout)

    def _remember(self, lookup: ImageLookup, result: LookupResult) -> None:
        with self._lock:
            self._answers[lookup] = self._now(), result


def answer_from_registry(client: RegistryClient, lookup: ImageLookup) -> LookupResult:
    """What one registry says. Raises RegistryError and its kinds."""
    reference = lookup.reference
    facts = client.facts(reference)
    keys = tuple(parse_public_key(text) for text in lookup.keys)
    if not keys:
        return LookupResult((facts,), frozenset({str(reference)}))
    exact = reference.at(facts.digest)
    signers, why = valid_signatures(client, exact, keys)
    found = facts.model_copy(update={"reference": str(exact), "signers": signers})
    results = (facts, found) if str(exact) != facts.reference else (found,)
    return LookupResult(results, frozenset({str(reference)}), {str(exact): why} if why else {})


def valid_signatures(
    client: RegistryClient, reference: ImageReference, keys: Sequence[PublicKey]
) -> tuple[tuple[str, ...], str]:
    """Fingerprints of those keys that have signed the image with this digest; where that is none, why."""
    signed, refused = client.signatures(reference, keys)
    if signed:
        return tuple(sorted(one.key.fingerprint for one in signed)), ""
    return (), "; ".join(refused) or "its registry has no signature of it"


def _timed_out(lookup: ImageLookup, timeout: float) -> LookupResult:
    domain = lookup.reference.domain
    return LookupResult(why={str(lookup.reference): f"{domain} did not answer within {timeout:g} seconds"})
