"""One simulated life: people edit, machines fail, applies die anywhere; in the end all is as it should be."""

from __future__ import annotations

import contextlib
import copy
import math
import random
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from providers.fake import FakeProvider, Fault, Operation, ScheduledExit, SimulatedLoad, VirtualClock, World
from reconciler.apply.apply import apply
from reconciler.apply.targets import ApplyTargets
from reconciler.observe.store_changes import store_changes
from reconciler.observe.usage_samples import measure_usage
from reconciler.values.changes.cause import CauseCode
from reconciler.values.documents.idle_rules import watched_kernels
from reconciler.values.plan import Plan
from reconciler.values.records import PutRecord, Recorded
from reconciler.values.results import ApplyResult
from reconciler.values.services.readiness import Readiness
from reconciler.values.state import Actual
from reconciler.workspace.rebuild import rebuild_changes
from schemas.problems.errors.plan import GuardRefused, IncompleteObservation, StalePlan
from schemas.problems.errors.provider import ProviderError
from schemas.problems.errors.store import LeaseHeld, LeaseLost
from tests.simulation.checked_plans import CheckedPlans, OfflinePlans
from tests.simulation.disk import Disk, FileDisk
from tests.simulation.documents import CLUSTER, REPO, Documents
from tests.simulation.engine import Fate, Killed, MortalStore, SeededRunner, SetClock
from tests.simulation.invariants import (
    Violation,
    live,
    nothing_counted_twice,
    nothing_doubled,
    nothing_given_twice,
)
from tests.simulation.services import (
    ServiceDocuments,
    answers,
    bounds_hold,
    held_alone,
    is_settled,
    owner_of,
    replicas_recorded,
    services_are_as_wanted,
)

EXPECTED = (GuardRefused, IncompleteObservation, LeaseHeld, LeaseLost, StalePlan)
EFFECTS: tuple[Operation, ...] = ("create", "update", "stop", "remove")
CALM_RUNS = 12
CALM_RUNS_OF_SERVICES = 60
"""Replica by replica, and generations that never get ready are given up in the meantime."""
START = 1_800_000_000.0
YEAR = 365.25 * 86_400


class Life:
    """The world of one seed. `template` is an empty store; `log` says what happened, for a person to read.
    `services`: whether there are services in it."""

    def __init__(
        self,
        seed: int,
        directory: Path,
        template: Path,
        disk: Disk | None = None,
        *,
        services: bool = False,
    ) -> None:
        self.rng = random.Random(seed)
        own = ServiceDocuments(random.Random(f"services {seed}")) if services else None
        self.documents = Documents(self.rng, own)
        self.world = World(VirtualClock(START))
        self.clock = SetClock(self.world.clock)
        self.world.at = self._at
        self.provider = FakeProvider(self.world)
        self.plans = CheckedPlans()
        self.offline = OfflinePlans()
        self.fate = Fate()
        self.disk = disk or FileDisk(directory / f"{seed}.db")
        self.backup = directory / f"{seed}.backup.db"
        self.template = template
        self.log: list[str] = []
        self.ended: set[str] = set()
        """Sessions whose end was the world's doing, not the reconciler's."""
        self.guarded: dict[str, dict[str, Any]] = {}
        """Protected sessions that were deleted from the repository: identity → document."""
        self.refused: frozenset[str] = frozenset()
        """Of these, those that were deleted when the plan was made that is carried out."""
        self.patient = self.rng.random() < 0.4
        """Little happens but what time brings: nodes stay away for long, sessions do nothing for long."""
        self.clock_was_wrong = False
        self.ghosts: set[str] = set()
        """Kernels that were out of reach, and that may have been given up meanwhile."""
        self.over: set[str] = set()
        """Sessions that were stopped because they had their time."""
        self.busy: dict[str, float] = {}
        """When a kernel was last known to do something."""
        self.blind = False
        """The plan being applied rests on an incomplete observation."""
        self.paused = 0.02
        self.disk.replace(template)

    def live(self) -> None:
        """Some rounds of everything, then calm; raises Violation."""
        for _ in range(self.rng.randint(7, 12) if self.patient else self.rng.randint(3, 7)):
            if not self.patient or self.rng.random() < 0.5:
                self._edit()
            self._misfortune()
            self._run()
        self._calm()

    # People

    def _edit(self) -> None:
        before = copy.deepcopy(self.documents.sessions)
        if self.rng.random() < 0.8:
            self.documents.change()
        for name in before.keys() - self.documents.sessions.keys():
            self.guarded[f"Session/p/{name}"] = before[name]
        for name in self.documents.sessions:
            self.guarded.pop(f"Session/p/{name}", None)

    # The world

    def _misfortune(self) -> None:
        rng = self.rng
        self.world.clock.sleep(rng.choice([70.0, 100.0, 150.0] if self.patient else [0.0, 1.0, 30.0, 400.0]))
        self.world.slow_create = rng.choice([0.0, 0.0, 2.0])
        self.world.slow_stop = rng.choice([0.0, 0.0, 5.0])
        self.world.hidden = set()
        chance = rng.random()
        if self.patient:
            if not self.world.down and chance < 0.4:
                self._lose_a_node()
            elif self.world.down and chance < 0.2:
                self._bring_back_a_node()
            elif chance > 0.9:
                self._fault()
        elif chance < 0.35:
            self._fault()
        elif chance < 0.5:
            self._accident()
        elif chance < 0.58:
            self._hide_a_node()
        elif chance < 0.7:
            self._lose_store()
        elif chance < 0.9:
            self._lose_a_node()
        self._work()
        if rng.random() < 0.15:
            self._set_clock()
        if rng.random() < 0.15:
            with contextlib.suppress(FileNotFoundError):
                self.disk.copy(self.backup)

    def _fault(self) -> None:
        for _ in range(self.rng.randint(1, 3)):
            operation: Operation = self.rng.choice((*EFFECTS, "create", "observe"))
            fault = Fault(
                operation,
                moment=self.rng.choice(["before", "after"]),
                failure=self.rng.choice(["error", "unavailable", "refused"]),
                times=self.rng.choice([1, 1, 2, 5]),
            )
            self._say(f"fault {fault.operation} {fault.moment} {fault.failure} x{fault.times}")
            self.world.inject(fault)

    def _accident(self) -> None:
        kernels = sorted(live(self.world))
        if not kernels:
            return
        victim = self.rng.choice(kernels)
        self.ended.add(self.world.kernels[victim].spec.labels.resource)
        what = self.rng.choice(["die", "finish", "lose", "vanish", "end later"])
        self._say(f"{what} {victim}")
        if what == "end later":
            self.world.ends_after[victim] = ScheduledExit(
                self.world.clock.now() - self.world.kernels[victim].ready + 20
            )
        elif what == "finish":
            self.world.die(victim, exit_code=0)
        else:
            getattr(self.world, what)(victim)

    def _hide_a_node(self) -> None:
        node = self.rng.choice(sorted(self.documents.nodes))
        self.world.hidden = {
            key for key, kernel in self.world.kernels.items() if kernel.spec.labels.node == node
        }
        self._say(f"hide {node}: {sorted(self.world.hidden)}")

    def _lose_a_node(self) -> None:
        """A cable, or the machine itself; others come back."""
        if self.rng.random() < 0.5:
            self._bring_back_a_node()
        used = {one.spec.labels.node for one in live(self.world).values()} - self.world.down.keys()
        node = self.rng.choice(sorted(used or self.documents.nodes))
        self.world.down[node] = "no answer"
        there = {key for key, one in self.world.kernels.items() if one.spec.labels.node == node}
        if self.documents.loss == "reschedule":
            self.ghosts |= there
        self._say(f"{node} is lost: {sorted(there)}")
        if self.rng.random() < 0.3:
            self._say(f"{node} has crashed")
            self.ended |= {self.world.kernels[key].spec.labels.resource for key in there}
            self.world.crash(node)

    def _bring_back_a_node(self) -> None:
        if self.world.down:
            node = self.rng.choice(sorted(self.world.down))
            del self.world.down[node]
            self._say(f"{node} is back")

    def _work(self) -> None:
        """Kernels do something, or nothing."""
        now = self.world.clock.now()
        for kernel in sorted(live(self.world)):
            before = self.world.loads.get(kernel)
            if before is not None and before.cores:
                self.busy[kernel] = now
            if before is None or self.rng.random() < 0.2:
                self.world.use(kernel, SimulatedLoad(cores=self.rng.choice([0.0, 0.0, 0.5])))

    def _set_clock(self) -> None:
        """Of the machine that bai runs on; who held the lease by another time is known to be gone."""
        right = self.world.clock.now()
        self.clock.ahead = self.rng.choice([-right, -3600.0, 0.0, 0.0, 3600.0, 20 * YEAR])
        self.clock_was_wrong |= self.clock.ahead != 0
        self._say(f"the clock is {self.clock.ahead:+.0f} s ahead")
        with MortalStore.reopen(self.disk.address, self.disk.engine, self.fate) as store:
            store.unlock(CLUSTER)

    def _lose_store(self) -> None:
        if self.backup.exists() and self.rng.random() < 0.5:
            self._say("the store is replaced by an old copy")
            self.disk.replace(self.backup)
        else:
            self._say("the store is lost")
            self.disk.replace(self.template)
        if self.rng.random() < 0.4:
            with contextlib.suppress(IncompleteObservation, ProviderError, LeaseHeld):
                self._rebuild()

    # One run of the tool

    def _run(self, *, mortal: bool = True) -> Plan | None:
        doomed = mortal and self.rng.random() < (0.3 if self.patient else 0.7)
        self.fate.left = self.rng.randint(1, self.rng.choice([4, 10, 30])) if doomed else None
        self.fate.intents.clear()
        store = MortalStore.reopen(self.disk.address, self.disk.engine, self.fate)
        try:
            return self._plan_and_apply(store, mortal=mortal)
        except Killed:
            self._say("killed")
            self.world.clock.sleep(self.rng.choice([1.0, 61.0]))
        except EXPECTED as error:
            self._say(f"{type(error).__name__}: {error}")
        finally:
            self.fate.left = None
            store.close()
        return None

    def _plan_and_apply(self, store: MortalStore, *, mortal: bool) -> Plan:
        if self.patient:
            self._refresh(store)
        actual = self._see(store)
        plan = self.plans.plan(self.documents, actual, self.clock.now())
        bounds_hold(plan, actual, self.documents.desired())
        held_alone(plan)
        if self.patient:
            self.offline.check(self.documents, self.disk.address, self.clock.now())
        self.blind, self.refused = not plan.complete, frozenset(self.guarded)
        self._say("plan " + ", ".join(f"{a.verb} {a.id} ({a.why})" for a in plan.changes))
        self._only_what_is_over_stops(plan)
        meanwhile = self.rng.random() if mortal else 1.0
        if meanwhile < 0.1:
            self._accident()
        elif meanwhile < 0.2:
            self._somebody_else(store)
        if plan.changes:
            begun = self.world.clock.now()
            result = self._apply(plan, store)
            self._say("applied " + ", ".join(f"{r.action} {r.outcome} {r.error}" for r in result.results))
            if self.world.clock.now() == begun:
                self._as_said(plan, result)
        if not mortal or self.patient or self.rng.random() < 0.5:
            self._refresh(store)
        return plan

    def _see(self, store: MortalStore) -> Actual:
        actual = self.plans.observe(store, self.provider)
        if self.documents.services is None:
            return actual
        return replace(actual, readiness=answers(self.world, actual, self.clock.ahead))

    def _answers(self, actual: Actual, relied: Collection[str]) -> Mapping[str, Readiness]:
        found = answers(self.world, actual, self.clock.ahead)
        return {name: found[name] for name in relied if name in found}

    def _apply(self, plan: Plan, store: MortalStore) -> ApplyResult:
        return apply(
            plan,
            ApplyTargets(store, self.provider, self.clock, readiness=self._answers),
            holder=f"run {len(self.log)}",
            parallel=self.rng.choice([1, 3, 8]),
            runner=SeededRunner(self.rng),
        )

    def _somebody_else(self, store: MortalStore) -> None:
        """Another plan is made and carried out between this plan and its apply."""
        self._say("somebody else:")
        self._edit()
        actual = self._see(store)
        plan = self.plans.plan(self.documents, actual, self.clock.now())
        bounds_hold(plan, actual, self.documents.desired())
        held_alone(plan)
        before = self.blind, self.refused
        self.blind, self.refused = not plan.complete, frozenset(self.guarded)
        self._only_what_is_over_stops(plan)
        try:
            if plan.changes:
                self._apply(plan, store)
        finally:
            self.blind, self.refused = before

    def _stand_still(self) -> None:
        """This process is held up between two instructions, perhaps for longer than its lease lasts, and
        another loop runs meanwhile."""
        before = self.paused, self.fate
        self.paused, self.fate = 1.0, Fate()
        self.world.clock.sleep(self.rng.choice([0.0, 30.0, 70.0, 200.0]))
        self._say("another loop:")
        with MortalStore.reopen(self.disk.address, self.disk.engine, self.fate) as store:
            try:
                self._somebody_else(store)
            except EXPECTED as error:
                self._say(f"{type(error).__name__}: {error}")
        self._say("and this one goes on")
        self.paused, self.fate = before

    def _as_said(self, plan: Plan, result: ApplyResult) -> None:
        """What an apply says is done is so; asked where no time passed, for kernels end by themselves."""
        done = {each.action for each in result.results if each.outcome == "done"}
        for action in plan.changes:
            if action.id not in done:
                continue
            before, after = action.session_before, action.session_after
            wanted = set(after.kernels) if after and after.phase == "RUNNING" else set()
            if wanted - self.world.kernels.keys():
                raise Violation(
                    f"{action.id} is said to run, and {wanted - self.world.kernels.keys()} do not"
                )
            if action.after is None and before and set(before.kernels) & self.world.kernels.keys():
                raise Violation(f"{action.id} is said to be deleted, and is not")

    def _only_what_is_over_stops(self, plan: Plan) -> None:
        """Nobody who works is stopped for doing nothing, nobody before its time."""
        now = self.clock.now()
        for action in plan.changes:
            code = action.cause.code if action.cause else None
            if code in (CauseCode.IDLE, CauseCode.TIMEOUT):
                self.over.add(action.id)
            before = action.session_before.kernels if action.session_before else ()
            kernels = [self.world.kernels[key] for key in before if key in self.world.kernels]
            if code is CauseCode.IDLE:
                here = [one for one in kernels if one.spec.id not in self.ghosts]
                if any(now - self.busy.get(one.spec.id, 0.0) < 200 for one in here):
                    raise Violation(f"{action.id} is stopped as idle, and is not")
            elif code is CauseCode.TIMEOUT and all(now - one.created < 300 for one in kernels):
                raise Violation(f"{action.id} is stopped before its time")

    def _refresh(self, store: MortalStore) -> None:
        now = self.clock.now()
        lease = store.acquire(CLUSTER, "refresh", 60, now)
        actual = self.plans.observe(store, self.provider)
        desired = self.documents.desired()
        used = measure_usage(self.provider, watched_kernels(desired, actual), actual.samples)
        store.write(lease, store_changes(actual, desired, used, now, "refresh"))
        if not self.clock_was_wrong:
            nothing_counted_twice(store.holdings(CLUSTER, 0.0, now), now)
        store.release(lease)

    def _rebuild(self) -> None:
        """As `bai state rebuild` does, on an empty or restored store."""
        seen = FakeProvider(self.world).observe()
        store = MortalStore.reopen(self.disk.address, self.disk.engine, self.fate)
        now = self.clock.now()
        lease = store.acquire(CLUSTER, "rebuild", 60, now)
        known = store.recorded(CLUSTER)
        changes = rebuild_changes(seen, repo=REPO, cluster=CLUSTER, known=known, now=now, actor="rebuild")
        store.write(lease, changes)
        store.release(lease)
        self._say(
            f"rebuilt {[change.record.resource for change in changes if isinstance(change, PutRecord)]}"
        )

    def _at(self, operation: Operation, kernel: str, moment: str) -> None:
        """At every boundary of an effect: check what must never happen, and die when it is time."""
        if operation in EFFECTS:
            if moment == "before" and self.paused < 1.0 and self.rng.random() < self.paused:
                self._stand_still()
            if (operation, kernel) not in self.fate.intents:
                raise Violation(f"{operation} {kernel} was not announced in the journal")
            if operation in ("stop", "remove") and moment == "before":
                self._may_go(kernel)
            if operation in ("create", "update") and moment == "after":
                nothing_given_twice(self.world)
                nothing_doubled(self.world, self.ghosts)
            self._die_if_due(operation, kernel, moment)

    def _die_if_due(self, operation: Operation, kernel: str, moment: str) -> None:
        """Who dies while creating may leave a kernel that starts only when it is created again."""
        made = self.world.kernels.get(kernel)
        if operation == "create" and moment == "before" and made is not None and made.ready == math.inf:
            made.ready = self.world.clock.now()
        try:
            self.fate.boundary()
        except Killed:
            if operation == "create" and moment == "after" and made is not None and self.rng.random() < 0.5:
                made.ready = math.inf
            raise

    def _may_go(self, kernel_id: str) -> None:
        kernel = self.world.kernels.get(kernel_id)
        if kernel is None:
            return
        labels = kernel.spec.labels
        if self.blind:
            raise Violation(f"{kernel_id} is taken away on an incomplete observation")
        if labels.protected and labels.resource in self.refused and kernel.ended is None:
            raise Violation(f"{kernel_id} is protected, and no document says it may go")

    # Calm

    def _calm(self) -> None:
        """No more faults: soon there is nothing left to do, and what runs is what is wanted."""
        self._say("calm")
        self.world._faults.clear()
        self.world.hidden = set()
        self.world.down = {}
        self.world.slow_create = self.world.slow_stop = 0.0
        self.documents.activate()
        self.clock.ahead = 0.0
        with MortalStore.reopen(self.disk.address, self.disk.engine, self.fate) as store:
            store.unlock(CLUSTER)
        for _ in range(CALM_RUNS if self.documents.services is None else CALM_RUNS_OF_SERVICES):
            self.world.clock.sleep(100)
            plan = self._run(mortal=False)
            if plan is None:
                self._bring_back_guarded()
            elif not plan.changes and all(map(is_settled, plan.services)):
                self._as_wanted(plan)
                return
        raise Violation("it does not come to rest")

    def _bring_back_guarded(self) -> None:
        for identity, document in self.guarded.items():
            self.documents.restore(identity, document)
        self.guarded.clear()

    def _as_wanted(self, plan: Plan) -> None:
        """Compares the world with the documents, without the reconciler's help."""
        nothing_given_twice(self.world)
        nothing_doubled(self.world)
        desired = self.documents.desired()
        services_are_as_wanted(self.world, plan, desired)
        with MortalStore.reopen(self.disk.address, self.disk.engine, self.fate) as store:
            recorded = store.recorded(CLUSTER)
            if store.open_intents(CLUSTER) and plan.changes:
                raise Violation(f"left open: {store.open_intents(CLUSTER)}")
        staying = {wait.session for wait in plan.waits if any(why.code == "runs-on" for why in wait.reasons)}
        waiting = {wait.session for wait in plan.waits if wait.reasons} - staying
        running: dict[str, set[str]] = {}
        for kernel in live(self.world).values():
            labels = kernel.spec.labels
            if kernel.ready > self.world.clock.now():
                raise Violation(f"{kernel.spec.id} was never started")
            if owner_of(labels.resource, desired) in desired.services:
                continue
            running.setdefault(labels.resource, set()).add(labels.kernel)
            if labels.digest != desired.digests.get(labels.resource) and labels.resource not in staying:
                raise Violation(f"orphan or outdated: {kernel.spec.id}")
        for identity, session in desired.sessions().items():
            wanted = {container.name for container in session.spec.containers}
            if identity in staying:
                wanted = {kernel.split("-")[1] for kernel in recorded[identity].kernels}
            self._is_right(
                identity, wanted, running.get(identity, set()), recorded.get(identity), identity in waiting
            )
        known = recorded.keys() - set(replicas_recorded(recorded, desired))
        if known != desired.resources.keys():
            raise Violation(f"recorded: {known ^ desired.resources.keys()}")

    def _is_right(
        self, identity: str, wanted: set[str], found: set[str], record: Recorded | None, waits: bool
    ) -> None:
        if record is None:
            raise Violation(f"{identity} is not recorded")
        if waits and not found and record.phase == "PENDING":
            return
        if identity in self.ended:
            return
        if record.phase == "TERMINATED" and identity in self.over and not found:
            return
        if found != wanted:
            raise Violation(
                f"{identity} is {record.phase} ({record.reason}) and runs {found} instead of {wanted}"
            )

    def _say(self, what: str) -> None:
        self.log.append(f"{self.world.clock.now() - START:7.1f} {what}")


assert set(EFFECTS) <= set(get_args(Operation))
