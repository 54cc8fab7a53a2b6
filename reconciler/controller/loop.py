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

from providers.abilities import StreamsEvents
from reconciler.apply.targets import Traffic
from reconciler.controller.backoff import Backoff
from reconciler.controller.cycle import ReconcileCycle, error_signs, wait_line
from reconciler.controller.error_text import error_text, os_error_text
from reconciler.controller.loop_options import LoopOptions
from reconciler.controller.stages import NoStageListener, Stage, StageListener
from reconciler.gitops.directives import Directives, read_directives, read_suspension
from reconciler.gitops.document_source import DocumentSource, FolderDocuments
from reconciler.guards.judge import violation_text
from reconciler.observe.health import HealthWatch
from reconciler.provisioning.loop_watch import RolloutWatch, provisioning_lines, retry_digest, retry_digests
from reconciler.values.plan import Action, Plan
from reconciler.values.plan_options import PlanOptions
from reconciler.values.records import Contact, Event, StoreChange
from reconciler.values.results import ApplyEvent, ApplyResult
from reconciler.values.times import format_duration
from reconciler.values.violations import Violation
from reconciler.workspace.workspace import Workspace
from schemas.problems.errors.base import BaiError

EVENT_DEBOUNCE = 0.2
"""Seconds after the first event of a provider in which more are waited for."""
STANDBY_DEBOUNCE = 1.0
"""The same on a replica that stands by, which hears of every step of the leader's."""
_MAX_REPLANS = 100
_PAST_VERBS = {"create": "created", "update": "updated", "replace": "replaced", "delete": "deleted"}


class Loop:
    """`run` it in the thread that may write; `halt` it from any other, or from a signal handler.

    `log` gets one line for each change, without time or colour. `leads` says whether this loop is the one of
    several that acts now, `leader` who it is (see `leader.py`); `stand_by` is called in its place where
    another one does (see `standby.py`); `stages` is told what it is at, `traffic` of services' replicas. All
    of these may be set until it runs.
    """

    def __init__(
        self,
        workspace: Workspace,
        options: LoopOptions,
        *,
        log: Callable[[str], None],
        documents: DocumentSource | None = None,
    ) -> None:
        self.workspace = workspace
        self.documents = documents or FolderDocuments()
        self.leads: Callable[[], bool] = lambda: True
        self.leader: Callable[[], str] = str
        self.stand_by: Callable[[], None] | None = None
        self.stages: StageListener = NoStageListener()
        self.traffic: Traffic | None = None
        self._cycle = self._new_cycle(0.0)
        self._options = options
        self._log = log
        self._listeners: list[Callable[[ReconcileCycle], None]] = []
        self._backoff = Backoff(first=max(1.0, min(options.interval, 30.0)))
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._reported: frozenset[str] = frozenset()
        self._reports: list[str] = []
        self._listened_provider: object = None
        self._listens_to_store = False
        self._lost: set[str] | None = None
        self._rollout = RolloutWatch(log)
        self._health = HealthWatch(log)
        workspace.replicas.keep_asking(self.wake)
        workspace.scaling.keep_scaling(self.wake)

    def halt(self) -> None:
        """What has begun is brought to its end, nothing more is started."""
        self._stop.set()
        self._hurry.set()
        self._wake.set()
        self.workspace.replicas.halt()
        self.workspace.scaling.halt()

    def add_listener(self, listener: Callable[[ReconcileCycle], None]) -> None:
        """One more who hears of every cycle when it is over, in the loop's thread; before the loop runs."""
        self._listeners.append(listener)

    def wake(self) -> None:
        """Somebody waits: the next pass begins at once."""
        self._hurry.set()
        self._wake.set()

    @property
    def options(self) -> LoopOptions:
        return self._options

    @property
    def halted(self) -> bool:
        return self._stop.is_set()

    def run(self) -> None:
        """Pass after pass, each about `interval` seconds after the one before, or as soon as something
        happens."""
        while not self.halted:
            if self.leads():
                self.once()
                self._start_listeners()
            elif self.stand_by is not None:
                self._start_store_listener()
                self._run_standby(self.stand_by)
            # Many loops do not ask one remote at the same moment.
            self._wake.wait(self._options.interval * (0.9 + 0.2 * random.random()))
            if self._wake.is_set() and not self.halted:
                self._hurry.wait(EVENT_DEBOUNCE if self.leads() else STANDBY_DEBOUNCE)
            self._hurry.clear()
            self._wake.clear()

    def once(self) -> bool:
        """One pass, and another one after each wave of nodes; True when nothing was wrong."""
        good = self._run_cycle()
        while good and self._rollout.goes_on and not self.halted:
            good = self._run_cycle()
        return good

    def _run_standby(self, look: Callable[[], None]) -> None:
        self.workspace.replicas.rest()
        self.workspace.scaling.rest()
        try:
            look()
        except BaiError as error:
            self._report(error_text(error))
        self._log_new_reports()

    def _run_cycle(self) -> bool:
        """One pass that never raises."""
        self._rollout.goes_on = False
        self._cycle = self._new_cycle(self.workspace.clock.now())
        try:
            with self._stage("pass"):
                directives = read_directives(self.workspace.store, self.workspace.cluster.name)
                renewed = self.documents.renew(self.workspace, directives)
                self.workspace = renewed.opened
                self._cycle = replace(self._cycle, signs=renewed.signs)
                for line in (*renewed.notes, *renewed.wrong):
                    self._report(line)
                good = self._reconcile() and not renewed.wrong
        except BaiError as error:
            good = False
            self._report(error_text(error))
            signs = {**self._cycle.signs, **error_signs(error, error_text(error))}
            self._cycle = replace(self._cycle, signs=signs)
        except OSError as error:
            # A full disk, no more descriptors: that passes, or somebody reads of it.
            good = False
            self._report(f"the machine refuses: {os_error_text(error)}; tried again")
            signs = {**self._cycle.signs, "loop-failed": os_error_text(error)}
            self._cycle = replace(self._cycle, signs=signs)
        reports = self._log_new_reports()
        ended = self.workspace.clock.now()
        now = replace(
            self._cycle, commit=self.workspace.commit, repository=self.workspace.repository,
            ended=ended, good=good, notes=reports,
        )  # fmt: skip
        for listener in self._listeners:
            listener(now)
        return good

    def recorded_cycle(self, commit: str) -> ReconcileCycle:
        """What the store has, with the documents of a commit that another replica has judged; as they were,
        with a note, while they cannot be had here. Asks no node."""
        notes: tuple[str, ...] = ()
        try:
            self.workspace = self.documents.at_commit(commit, self.workspace)
        except BaiError as error:
            notes = (f"this replica has no documents of {commit[:12]}: {error}",)
        actual = self.workspace.actual(offline=True)
        return replace(self._new_cycle(0.0), actual=actual, desired=self.workspace.desired(), notes=notes)

    def _new_cycle(self, began: float) -> ReconcileCycle:
        workspace = self.workspace
        return ReconcileCycle(workspace.cluster.name, workspace.commit, workspace.repository, began)

    # One cycle

    def _reconcile(self) -> bool:
        workspace = self.workspace
        if self._lost is None:
            known = workspace.store.contacts(workspace.cluster.name).values()
            self._lost = {contact.node for contact in known if contact.lost is not None}
        workspace.forget_hardware()
        with self._stage("observe"):
            actual = workspace.refresh(holder=self._options.holder, on_written=self._log_changes)
        self._cycle = replace(self._cycle, actual=actual, desired=workspace.desired())
        if not actual.complete:
            self._report("not everything could be observed: " + "; ".join(actual.errors))
        self._health.update(actual.health)
        digests = {**workspace.desired().digests, **retry_digests(actual)}
        left = set(self._backoff.held_back(digests, workspace.clock.now()))
        with self._stage("plan"):
            plan = self._plan_around_violations(
                left, lambda: workspace.plan(PlanOptions(without=frozenset(left)), actual=actual)
            )
        self._cycle = replace(self._cycle, plan=plan, study=workspace.first_study(actual))
        self._report_waits(plan)
        for line in provisioning_lines(plan):
            self._report(line)
        for warning in plan.warnings:
            self._report(f"warning: {warning}")
        if self._changes_nothing():
            for action in plan.changes:
                self._report(f"would {_verb(action)} {action.id}: {action.why}")
            return actual.complete
        if actual.complete and not self.halted:
            for line in workspace.settle_node_requests(plan, actual, self._options.holder):
                self._report(line)
        if not plan.changes or self.halted:
            return actual.complete and not left
        with self._stage("apply"):
            result = workspace.apply(
                plan, holder=self._options.holder, parallel=self._options.parallel,
                stop=self._stop, on_event=self._on_event, traffic=self.traffic,
            )  # fmt: skip
        self._cycle = replace(self._cycle, result=result, actual=workspace.last_refresh or actual)
        self._rollout.goes_on = result.ok and bool(plan.rollout and plan.rollout.wave)
        return self._log_results(plan, result) and actual.complete and not left

    def _stage(self, stage: Stage) -> AbstractContextManager[None]:
        return self.stages.stage(stage, self.workspace.cluster.name)

    def _on_event(self, event: ApplyEvent) -> None:
        self.stages.event(event, self.workspace.cluster.name)
        self._rollout.on_event(event)

    def _changes_nothing(self) -> bool:
        # Read last of all: looking and planning take a while, in which somebody may say stop.
        suspension = read_suspension(self.workspace.store, self.workspace.cluster.name)
        if suspension is not None:
            why = f" ({suspension.why})" if suspension.why else ""
            self._report(f"suspended by {suspension.actor}{why}: `bai resume` goes on")
        return self._options.observe_only or suspension is not None

    def _plan_around_violations(self, left: set[str], make: Callable[[], Plan]) -> Plan:
        """The plan without what guards refuse, which is said and left as it is: the rest goes on."""
        held: dict[Violation, None] = {}
        for _ in range(_MAX_REPLANS):
            plan = make()
            if not plan.violations:
                break
            held |= dict.fromkeys(plan.violations)
            left |= {resource for one in plan.violations for resource in one.resources}
        for one in held:
            self._report(f"refused: {violation_text(one)}{f'; {one.hint}' if one.hint else ''}")
        self._cycle = replace(self._cycle, violations=tuple(held))
        return plan

    def _log_results(self, plan: Plan, result: ApplyResult) -> bool:
        now = self.workspace.clock.now()
        actions = {action.id: action for action in plan.changes}
        for one in result.results:
            action = actions[one.action]
            digest = retry_digest(action)
            if one.outcome == "done":
                if self._rollout.record_provisioned(action, now):
                    # It does not stay as it was made: without a pause it would be emptied time and again.
                    self._backoff.record_failure(one.action, digest, now)
                else:
                    self._backoff.record_success(one.action)
                self._log(f"{_past_verb(action)} {one.action}: {action.why}")
            elif one.outcome == "failed":
                delay = self._backoff.record_failure(one.action, digest, now)
                self._log(f"failed {one.action}: {one.error}; tried again in {format_duration(delay)}")
        return result.ok

    # Saying

    def _log_changes(self, changes: Sequence[StoreChange]) -> None:
        for change in changes:
            if isinstance(change, Event):
                self._log(f"{change.resource} {change.before or 'new'} -> {change.after}: {change.cause}")
            elif isinstance(change, Contact):
                self._log_contact(change)

    def _log_contact(self, change: Contact) -> None:
        assert self._lost is not None
        if change.lost is not None:
            self._lost.add(change.node)
            self._log(f"no contact with {change.node}: {change.why}")
        elif change.node in self._lost:
            self._lost.discard(change.node)
            self._log(f"{change.node} is back")

    def _report_waits(self, plan: Plan) -> None:
        for wait in plan.waits:
            self._report(wait_line(wait))

    def _report(self, line: str) -> None:
        """Said when it is new, not again while it lasts."""
        self._reports.append(line)

    def _log_new_reports(self) -> tuple[str, ...]:
        """Tell what is new of what lasts; gives all of it."""
        saying, self._reports = tuple(dict.fromkeys(self._reports)), []
        for line in saying:
            if line not in self._reported:
                self._log(line)
        self._reported = frozenset(saying)
        return saying

    # Listening

    def _start_listeners(self) -> None:
        """Have the store tell of orders, and the provider of what happens, if it can; a thread for each."""
        self._start_store_listener()
        provider = self.workspace.provider
        if provider is self._listened_provider or not isinstance(provider, StreamsEvents):
            return
        self._listened_provider = provider
        threading.Thread(
            target=self._wake_on_provider_events, args=(provider,), name="bai-events", daemon=True
        ).start()

    def _start_store_listener(self) -> None:
        if not self._listens_to_store:
            self._listens_to_store = True
            threading.Thread(target=self._wake_on_directives, name="bai-orders", daemon=True).start()

    def _wake_on_directives(self) -> None:
        """Wake up for orders; what else is written is this loop's own, or, while it stands by, the leader's
        news."""
        store, cluster = self.workspace.store, self.workspace.cluster.name
        before: Directives | None = None
        while not self.halted:
            try:
                # Of what is written from here on nothing is missed, nor of what was while the store was away.
                since, now = store.revisions(), read_directives(store, cluster)
                if before is not None and now != before:
                    self.wake()
                before = now
                for changed in store.watch_changes(since, stop=lambda: self.halted):
                    if cluster not in changed:
                        continue
                    if (now := read_directives(store, cluster)) != before:
                        before = now
                        self.wake()
                    elif not self.leads():
                        self._wake.set()
            except BaiError:
                self._stop.wait(self._options.interval)

    def _wake_on_provider_events(self, provider: StreamsEvents) -> None:
        def over() -> bool:
            return self.halted or provider is not self._listened_provider

        while not over():
            try:
                for _ in provider.events(over):
                    self._wake.set()
            except BaiError:
                pass
            self._stop.wait(self._options.interval)


def _verb(action: Action) -> str:
    return "provision" if action.provision else action.verb


def _past_verb(action: Action) -> str:
    before, after = action.session_before, action.session_after
    if action.provision:
        return "provisioned"
    if after is not None and after.phase == "PENDING":
        return "queued"
    if after is not None and after.phase == "TERMINATED" and before is not None and before.phase == "RUNNING":
        return "stopped"
    return _PAST_VERBS.get(action.verb, action.verb)
