"""Asking registries what a plan has to know: what tags mean, and who has signed images.

Only of images that the plan starts, only what nobody knows yet, and never for long: who runs a registry may
be slow on purpose, and the loop has other things to do.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from reconciler.observe.images import Resolve, access_to
from schemas.images.facts import ImageFacts
from schemas.problems.errors import BaiError, StoreError
from schemas.repository.repository import Repository
from schemas.values.image_reference import ImageReference
from schemas.values.public_keys import PublicKey, read_key

if TYPE_CHECKING:
    from providers.registry_client.access import Access
    from providers.registry_client.client import RegistryClient
    from reconciler.plan.image_lookups import Question
    from reconciler.values.plan import Plan
    from reconciler.values.state import Actual
    from reconciler.workspace.workspace import Workspace

LONGEST = 30.0
"""Seconds that all registries together may take."""
AGAIN = 60.0
"""Seconds for which an answer counts, also a bad one: a session that is refused is planned in every pass."""
_TIMEOUT = 5.0


def answered(
    workspace: Workspace, make: Callable[[Actual], Plan], plan: Plan, actual: Actual, *, destroy: bool
) -> Plan:
    """The plan, made again with what registries say of the images that it starts, where its policies or
    documents have to know it; the same where nothing has to be asked. The store remembers what they say."""
    from reconciler.plan.image_lookups import questions
    from reconciler.plan.pipeline import policies_of

    desired = workspace.desired()
    _, policies = policies_of(desired, actual, destroy=destroy)
    todo = questions(plan.changes, policies, desired, actual)
    if not todo:
        return plan
    told = workspace.inquiry.ask(todo, workspace.repository, workspace.secrets.infrastructure)
    if told.facts:
        with contextlib.suppress(StoreError):  # What is not remembered is asked again.
            workspace.store.save_images(told.facts, workspace.clock.now())
    images = {**actual.images, **{facts.reference: facts for facts in told.facts}}
    return make(replace(actual, images=images, asked=told.asked, unanswered=told.why))


@dataclass(frozen=True, slots=True)
class Answer:
    """To one question. `asked`: full references that were looked up; `why`: reference → what was not to be
    had."""

    facts: tuple[ImageFacts, ...] = ()
    asked: frozenset[str] = frozenset()
    why: Mapping[str, str] = field(default_factory=dict)


class Inquiry:
    """Asks, and remembers for a minute. `now` gives seconds since the epoch."""

    def __init__(self, now: Callable[[], float], *, longest: float = LONGEST) -> None:
        self._now = now
        self._longest = longest
        self._kept: dict[Question, tuple[float, Answer]] = {}
        self._asking: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()

    def ask(self, questions: Sequence[Question], repository: Repository, secret: Resolve) -> Answer:
        """Every registry in a thread of its own; what is not answered in time has a reason. Nothing is
        raised but what is a mistake in here."""
        now = self._now()
        with self._lock:
            self._kept = {q: kept for q, kept in self._kept.items() if 0 <= now - kept[0] < AGAIN}
            todo = [question for question in questions if question not in self._kept]
        for domain in sorted({question.reference.domain for question in todo}):
            mine = [question for question in todo if question.reference.domain == domain]
            self._begin(domain, mine, repository, secret)
        self._wait({question.reference.domain for question in todo})
        with self._lock:
            answers = [self._kept[q][1] if q in self._kept else _late(q, self._longest) for q in questions]
        return Answer(
            tuple(one for each in answers for one in each.facts),
            frozenset().union(*(each.asked for each in answers)),
            {name: why for each in answers for name, why in each.why.items()},
        )

    def _begin(
        self, domain: str, questions: Sequence[Question], repository: Repository, secret: Resolve
    ) -> None:
        """One that is still being asked from an earlier time is not asked twice."""
        running = self._asking.get(domain)
        if running is not None and running.is_alive():
            return
        accesses: dict[Question, Access] = {}
        for question in questions:
            try:  # Secrets are read here: their reader is not for threads.
                accesses[question] = access_to(repository, question.reference, secret)
            except BaiError as error:
                self._keep(question, Answer(why={str(question.reference): str(error)}))
        thread = threading.Thread(target=self._one, args=(accesses,), name=f"ask {domain}", daemon=True)
        self._asking[domain] = thread
        thread.start()

    def _wait(self, domains: Iterable[str]) -> None:
        until = time.monotonic() + self._longest
        for domain in domains:
            self._asking[domain].join(max(0.0, until - time.monotonic()))

    def _one(self, accesses: Mapping[Question, Access]) -> None:
        from providers.registry_client.client import RegistryClient
        from schemas.problems.errors import RegistryUnreachable

        gone = ""
        for question, access in accesses.items():
            name = str(question.reference)
            if gone:
                self._keep(question, Answer(why={name: gone}))
                continue
            try:
                with RegistryClient(replace(access, timeout=_TIMEOUT)) as client:
                    self._keep(question, answer(client, question))
            except BaiError as error:
                gone = str(error) if isinstance(error, RegistryUnreachable) else ""
                self._keep(question, Answer(why={name: str(error)}))

    def _keep(self, question: Question, found: Answer) -> None:
        with self._lock:
            self._kept[question] = self._now(), found


def answer(client: RegistryClient, question: Question) -> Answer:
    """What one registry says. Raises RegistryError and its kinds."""
    reference = question.reference
    facts = client.facts(reference)
    keys = tuple(read_key(text) for text in question.keys)
    if not keys:
        return Answer((facts,), frozenset({str(reference)}))
    exact = reference.at(facts.digest)
    signers, why = signatures(client, exact, keys)
    found = facts.model_copy(update={"reference": str(exact), "signers": signers})
    told = (facts, found) if str(exact) != facts.reference else (found,)
    return Answer(told, frozenset({str(reference)}), {str(exact): why} if why else {})


def signatures(
    client: RegistryClient, reference: ImageReference, keys: Sequence[PublicKey]
) -> tuple[tuple[str, ...], str]:
    """Fingerprints of those keys that have signed the image with this digest; where that is none, why."""
    signed, refused = client.signatures(reference, keys)
    if signed:
        return tuple(sorted(one.key.fingerprint for one in signed)), ""
    return (), "; ".join(refused) or "its registry has no signature of it"


def _late(question: Question, longest: float) -> Answer:
    domain = question.reference.domain
    return Answer(why={str(question.reference): f"{domain} did not answer within {longest:g} seconds"})
