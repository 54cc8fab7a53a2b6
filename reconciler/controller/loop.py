"""Observe, plan, apply; again and again, until somebody says stop.

A pass never raises for what the next one may find mended: it says what is wrong, once, and the loop goes on.
What keeps failing is left alone for a while (`backoff.py`), without holding up the rest.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from providers.abilities import Tells
from reconciler.controller.backoff import Backoff
from reconciler.controller.cycle import Pass, signs_of
from reconciler.controller.stages import Stage, Stages, Unheard
from reconciler.gitops.directives import Orders, orders, suspended
from reconciler.gitops.document_source import Documents, Folder
from reconciler.guards.judge import said
from reconciler.observe.health import HealthWatch
from reconciler.provisioning.loop_watch import RolloutWatch, digest_of, fingerprints, node_lines
from reconciler.values.plan import Action, Plan
from reconciler.values.records import Contact, Event, StoreChange
from reconciler.values.results import ApplyEvent, ApplyResult
from reconciler.values.times import span
from reconciler.values.violations import Violation
from reconciler.workspace.workspace import Workspace
from schemas.problems import room
from schemas.problems.errors import BaiError, InvalidRepository, StoreError

GATHER = 0.2
"""Seconds after the first event of a provider in which more are waited for."""
FOLLOW = 1.0
"""The same on a replica that stands by, which hears of every step of the leader's."""
_REFUSED = 100
_DID = {"create": "created", "update": "updated", "replace": "replaced", "delete": "deleted"}


class Loop:
    """`run` it in the thread that may write; `halt` it from any other, or from a signal handler.

    `tell` gets one line for each change, without time or colour. `jitter` gives numbers from 0 to 1: many
    loops do not ask one remote at the same moment. `on_pass` hears of every pass when it is over, in the
    loop's thread. `leads` says whether this loop is the one of several that acts now, `leader` who it is (see
    `leader.py`); `stand_by` is called in its place where another one does (see `standby.py`); `stages` is
    told what it is at. All of them may be set until it runs.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        holder: str,
        interval: float,
        tell: Callable[[str], None],
        documents: Documents | None = None,
        observe_only: bool = False,
        parallel: int = 32,
        jitter: Callable[[], float] = random.random,
        on_pass: Callable[[Pass], None] = lambda _: None,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        self.workspace = workspace
        self.documents = documents or Folder()
        self._jitter = jitter
        self._on_pass = on_pass
        self.leads = leads
        self.leader: Callable[[], str] = str
        self.stand_by: Callable[[], None] | None = None
        self.stages: Stages = Unheard()
        self._pass_now = Pass(workspace, 0.0)
        self._holder = holder
        self._interval = interval
        self._tell = tell
        self._observe_only = observe_only
        self._parallel = parallel
        self._backoff = Backoff(first=max(1.0, min(interval, 30.0)))
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._said: frozenset[str] = frozenset()
        self._saying: list[str] = []
        self._listens: object = None
        self._hears_store = False
        self._lost: set[str] | None = None
        self._rollout = RolloutWatch(tell)
        self._health = HealthWatch(tell)

    def halt(self) -> None:
        """What has begun is brought to its end, nothing more is started."""
        self._stop.set()
        self._hurry.set()
        self._wake.set()

    def also(self, hears: Callable[[Pass], None]) -> None:
        """One more who hears of every pass when it is over; before the loop runs."""
        before = self._on_pass

        def both(done: Pass) -> None:
            before(done)
            hears(done)

        self._on_pass = both

    def wake(self) -> None:
        """Somebody waits: the next pass begins at once."""
        self._hurry.set()
        self._wake.set()

    @property
    def halted(self) -> bool:
        return self._stop.is_set()

    def run(self) -> None:
        """Pass after pass, each about `interval` seconds after the one before, or as soon as something
        happens."""
        while not self.halted:
            if self.leads():
                self.once()
                self._listen()
            elif self.stand_by is not None:
                self._listen_to_store()
                self._follow(self.stand_by)
            self._wake.wait(self._interval * (0.9 + 0.2 * self._jitter()))
            if self._wake.is_set() and not self.halted:
                self._hurry.wait(GATHER if self.leads() else FOLLOW)
            self._hurry.clear()
            self._wake.clear()

    def once(self) -> bool:
        """One pass, and another one after each wave of nodes; True when nothing was wrong."""
        good = self._guarded()
        while good and self._rollout.goes_on and not self.halted:
            good = self._guarded()
        return good

    def _follow(self, look: Callable[[], None]) -> None:
        try:
            look()
        except BaiError as error:
            self._complain(_words(error))
        self._settle_complaints()

    def _guarded(self) -> bool:
        """One pass that never raises."""
        self._rollout.goes_on = False
        self._pass_now = Pass(self.workspace, self.workspace.clock.now())
        try:
            with self._stage("pass"):
                renewed = self.documents.renewed(self.workspace)
                self.workspace = renewed.workspace
                self._pass_now = replace(self._pass_now, signs=renewed.signs)
                for line in (*renewed.notes, *renewed.wrong):
                    self._complain(line)
                good = self._pass() and not renewed.wrong
        except BaiError as error:
            good = False
            self._complain(_words(error))
            signs = {**self._pass_now.signs, **signs_of(error, _words(error))}
            self._pass_now = replace(self._pass_now, signs=signs)
        except OSError as error:
            # A full disk, no more descriptors: that passes, or somebody reads of it.
            good = False
            self._complain(f"the machine refuses: {_refused(error)}; tried again")
            signs = {**self._pass_now.signs, "loop-failed": _refused(error)}
            self._pass_now = replace(self._pass_now, signs=signs)
        said = self._settle_complaints()
        ended = self.workspace.clock.now()
        now = replace(self._pass_now, workspace=self.workspace, ended=ended, good=good, notes=said)
        self._on_pass(now)
        return good

    # One pass

    def _pass(self) -> bool:
        workspace = self.workspace
        if self._lost is None:
            known = workspace.store.contacts(workspace.cluster.name).values()
            self._lost = {contact.node for contact in known if contact.lost is not None}
        workspace.forget_hardware()
        with self._stage("observe"):
            actual = workspace.refresh(holder=self._holder, tell=self._tell_seen)
        self._pass_now = replace(self._pass_now, actual=actual)
        if not actual.complete:
            self._complain("not everything could be observed: " + "; ".join(actual.errors))
        self._health.seen(actual.health)
        digests = {**workspace.desired().digests, **fingerprints(actual)}
        left = set(self._backoff.held(digests, workspace.clock.now()))
        with self._stage("plan"):
            plan = self._plan(left, lambda: workspace.plan(without=left, actual=actual))
        self._pass_now = replace(self._pass_now, plan=plan)
        self._tell_waits(plan)
        for line in node_lines(plan):
            self._complain(line)
        for warning in plan.warnings:
            self._complain(f"warning: {warning}")
        if self._only_observes():
            for action in plan.changes:
                self._complain(f"would {_does(action)} {action.id}: {action.why}")
            return actual.complete
        if not plan.changes or self.halted:
            return actual.complete and not left
        with self._stage("apply"):
            result = workspace.apply(
                plan, holder=self._holder, parallel=self._parallel, stop=self._stop, on_event=self._on_event
            )
        self._pass_now = replace(self._pass_now, result=result, actual=workspace.looked or actual)
        self._rollout.goes_on = result.ok and bool(plan.rollout and plan.rollout.wave)
        return self._tell_result(plan, result) and actual.complete and not left

    def _stage(self, stage: Stage) -> AbstractContextManager[None]:
        return self.stages.stage(stage, self.workspace.cluster.name)

    def _on_event(self, event: ApplyEvent) -> None:
        self.stages.event(event, self.workspace.cluster.name)
        self._rollout.on_event(event)

    def _only_observes(self) -> bool:
        # Read last of all: looking and planning take a while, in which somebody may say stop.
        told = suspended(self.workspace.store, self.workspace.cluster.name)
        if told is not None:
            why = f" ({told.why})" if told.why else ""
            self._complain(f"suspended by {told.actor}{why}: `bai resume` goes on")
        return self._observe_only or told is not None

    def _plan(self, left: set[str], make: Callable[[], Plan]) -> Plan:
        """The plan without what guards refuse, which is said and left as it is: the rest goes on."""
        held: dict[Violation, None] = {}
        for _ in range(_REFUSED):
            plan = make()
            if not plan.violations:
                break
            held |= dict.fromkeys(plan.violations)
            left |= {resource for one in plan.violations for resource in one.resources}
        for one in held:
            self._complain(f"refused: {said(one)}{f'; {one.hint}' if one.hint else ''}")
        self._pass_now = replace(self._pass_now, violations=tuple(held))
        return plan

    def _tell_result(self, plan: Plan, result: ApplyResult) -> bool:
        now = self.workspace.clock.now()
        actions = {action.id: action for action in plan.changes}
        for one in result.results:
            action = actions[one.action]
            digest = digest_of(action)
            if one.outcome == "done":
                if self._rollout.again(action, now):
                    # It does not stay as it was made: without a pause it would be emptied time and again.
                    self._backoff.failed(one.action, digest, now)
                else:
                    self._backoff.succeeded(one.action)
                self._tell(f"{_did(action)} {one.action}: {action.why}")
            elif one.outcome == "failed":
                delay = self._backoff.failed(one.action, digest, now)
                self._tell(f"failed {one.action}: {one.error}; tried again in {span(delay)}")
        return result.ok

    # Saying

    def _tell_seen(self, changes: Sequence[StoreChange]) -> None:
        for change in changes:
            if isinstance(change, Event):
                self._tell(f"{change.resource} {change.before or 'new'} -> {change.after}: {change.cause}")
            elif isinstance(change, Contact):
                self._tell_contact(change)

    def _tell_contact(self, change: Contact) -> None:
        assert self._lost is not None
        if change.lost is not None:
            self._lost.add(change.node)
            self._tell(f"no contact with {change.node}: {change.why}")
        elif change.node in self._lost:
            self._lost.discard(change.node)
            self._tell(f"{change.node} is back")

    def _tell_waits(self, plan: Plan) -> None:
        for wait in plan.waits:
            self._complain(f"{wait.session} waits: {', '.join(sorted({one.code for one in wait.reasons}))}")

    def _complain(self, line: str) -> None:
        """Said when it is new, not again while it lasts."""
        self._saying.append(line)

    def _settle_complaints(self) -> tuple[str, ...]:
        """Tell what is new of what lasts; gives all of it."""
        saying, self._saying = tuple(dict.fromkeys(self._saying)), []
        for line in saying:
            if line not in self._said:
                self._tell(line)
        self._said = frozenset(saying)
        return saying

    # Listening

    def _listen(self) -> None:
        """Have the store tell of orders, and the provider of what happens, if it can; a thread for each."""
        self._listen_to_store()
        provider = self.workspace.provider
        if provider is self._listens or not isinstance(provider, Tells):
            return
        self._listens = provider
        threading.Thread(target=self._hear, args=(provider,), name="bai-events", daemon=True).start()

    def _listen_to_store(self) -> None:
        if not self._hears_store:
            self._hears_store = True
            threading.Thread(target=self._hear_store, name="bai-orders", daemon=True).start()

    def _hear_store(self) -> None:
        """Wake up for orders; what else is written is this loop's own, or, while it stands by, the leader's
        news."""
        store, cluster = self.workspace.store, self.workspace.cluster.name
        before: Orders | None = None
        while not self.halted:
            try:
                # Of what is written from here on nothing is missed, nor of what was while the store was away.
                since, now = store.revisions(), orders(store, cluster)
                if before is not None and now != before:
                    self.wake()
                before = now
                for changed in store.changes(since, over=lambda: self.halted):
                    if cluster not in changed:
                        continue
                    if (now := orders(store, cluster)) != before:
                        before = now
                        self.wake()
                    elif not self.leads():
                        self._wake.set()
            except BaiError:
                self._stop.wait(self._interval)

    def _hear(self, provider: Tells) -> None:
        def over() -> bool:
            return self.halted or provider is not self._listens

        while not over():
            try:
                for _ in provider.events(over):
                    self._wake.set()
            except BaiError:
                pass
            self._stop.wait(self._interval)


def _does(action: Action) -> str:
    return "provision" if action.after is not None and action.after.provision is not None else action.verb


def _did(action: Action) -> str:
    before, after = action.before, action.after
    if after is not None and after.provision is not None:
        return "provisioned"
    if after is not None and after.phase == "PENDING":
        return "queued"
    if after is not None and after.phase == "TERMINATED" and before is not None and before.phase == "RUNNING":
        return "stopped"
    return _DID.get(action.verb, action.verb)


def _refused(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    full = f": {room.told(error.filename)}" if error.filename and room.is_full(error) else ""
    return f"{where}{(error.strerror or str(error)).lower()}{full}"


def _words(error: BaiError) -> str:
    if isinstance(error, InvalidRepository):
        shown = "; ".join(map(str, error.problems[:3]))
        return f"the documents cannot be used, nothing is changed until they can: {shown}"
    if isinstance(error, StoreError) and error.retryable:
        return f"{error.message}; tried again"
    return str(error)
