"""Services become sessions: what is desired then holds each replica that is to be, as a session like any
other. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner.model.plan_time import PlanTime
from reconciler.plan.services.goal import Goal, rollout_goal
from reconciler.plan.services.replicas import Replica, judge_replica
from reconciler.plan.services.rollout import RolloutStep, next_step
from reconciler.plan.services.scale import wanted_replicas
from reconciler.plan.services.service_rollouts import NO_ROLLOUTS, Headroom, ServiceRollouts
from reconciler.values.changes.cause import Cause, CauseCode
from reconciler.values.documents.recorded_documents import recorded_session
from reconciler.values.documents.service_replicas import replica_of
from reconciler.values.services.pattern import (
    ReplicaRef,
    ServicePattern,
    replica_name,
    replica_notes,
    replica_session,
)
from reconciler.values.services.state import NO_STATE, ServiceGeneration, ServiceState
from reconciler.values.services.status import ReplicaPhase, ReplicaStatus, ServicePhase, ServiceStatus
from reconciler.values.state import Actual, Desired, Existing
from schemas.kinds.session import Session
from schemas.values.canonical import canonical_document, digest
from schemas.values.resource_ref import identity_of


@dataclass(frozen=True, slots=True)
class _WantedReplica:
    """A replica's session, with its canonical document and digest."""

    session: Session
    document: Mapping[str, object]
    digest: str


@dataclass(slots=True)
class ExpansionMemory:
    """What the expansion of one plan leaves for the next."""

    wanted: dict[str, tuple[tuple[object, ...], _WantedReplica]] = field(default_factory=dict)
    whole: tuple[tuple[object, ...], Desired] | None = None


_Found = Mapping[str, list[tuple[ReplicaRef, Existing]]]


def expand_services(
    desired: Desired, actual: Actual, leaving: Mapping[str, str], time: PlanTime, memory: ExpansionMemory
) -> tuple[Desired, ServiceRollouts]:
    """What is desired, with the replicas that are to be. `leaving`: nodes that replicas have to leave, and
    why. Where not everything could be seen, all stays as it is."""
    found = _replicas(desired, actual)
    if not found and not desired.services:
        return desired, NO_ROLLOUTS
    wanted: dict[str, _WantedReplica] = {}
    statuses: list[ServiceStatus] = []
    restarts: dict[str, Cause] = {}
    removals: dict[str, Cause] = {}
    states: dict[str, ServiceState] = {}
    headroom: dict[str, Headroom] = {}
    for identity, pattern in sorted(desired.services.items()):
        service = _Service(desired, actual, pattern, found.get(identity, []), leaving, time)
        wanted |= service.wanted(memory)
        statuses.append(service.status())
        restarts |= service.restarts()
        removals |= service.removals()
        states[identity] = service.next_state()
        headroom |= service.headroom()
    for identity in found.keys() - desired.services.keys():
        if _stays(identity, actual):
            wanted |= dict(_as_recorded(found[identity]))
    memory.wanted = {name: each for name, each in memory.wanted.items() if name in wanted}
    return _with_replicas(desired, wanted, memory), ServiceRollouts(
        tuple(statuses), restarts, removals, states, headroom
    )


def _replicas(desired: Desired, actual: Actual) -> _Found:
    """By service; a session that has a document is nobody's replica."""
    found: dict[str, list[tuple[ReplicaRef, Existing]]] = {}
    for identity in actual.existing.keys() - desired.sessions().keys():
        existing = actual.existing[identity]
        if (ref := replica_of(existing)) is not None:
            found.setdefault(ref.service, []).append((ref, existing))
    return found


def _stays(service: str, actual: Actual) -> bool:
    """Whether a service whose document is gone keeps its replicas: it is protected, or not all was seen."""
    existing = actual.existing.get(service)
    return not actual.complete or (existing is not None and existing.protected)


def _as_recorded(replicas: Sequence[tuple[ReplicaRef, Existing]]) -> Iterator[tuple[str, _WantedReplica]]:
    for _, existing in replicas:
        if (made := _recorded(existing)) is not None:
            yield existing.id, made


def _recorded(existing: Existing) -> _WantedReplica | None:
    """What its record says; None when it can no longer be read."""
    record = existing.recorded
    session = recorded_session(record.document)
    return _WantedReplica(session, record.document, record.digest) if session is not None else None


class _Service:
    """One service in one plan."""

    def __init__(
        self, desired: Desired, actual: Actual, pattern: ServicePattern,
        found: Sequence[tuple[ReplicaRef, Existing]], leaving: Mapping[str, str], time: PlanTime,
    ) -> None:  # fmt: skip
        self._desired, self._actual, self._pattern, self._time = desired, actual, pattern, time
        self._identity = pattern.service.identity
        self._spec = pattern.service.spec
        self._existing = {each.id: each for _, each in found}
        record = actual.existing.get(self._identity)
        self._recorded = record.recorded.service if record is not None else NO_STATE
        written = desired.digests.get(self._identity)
        self._rewritten = record is not None and written not in (None, record.recorded.digest)
        self.replicas: list[Replica] = [
            judge_replica(ref, each, actual.readiness.get(each.id), leaving, self._spec.update, time)
            for ref, each in sorted(found, key=lambda pair: (pair[0].generation, pair[0].number))
        ]
        self._state = self._judged()
        self._wanted, self._scale = wanted_replicas(self._spec, self._state.scale, time)
        order = actual.rollout_orders.get(self._identity)
        self._goal: Goal = rollout_goal(
            self._spec, self._wanted, pattern.generation, self._state, order, self.replicas
        )
        step = next_step(self._goal, self._spec.update, self.replicas) if actual.complete else RolloutStep()
        self._step = step
        self._created = tuple(self._new_names())

    def _judged(self) -> ServiceState:
        """What is remembered, with the document's generation, and with what has turned out of it."""
        state, latest = self._recorded, self._pattern.generation
        if self._spec.autoscaling is None:
            state = replace(state, scale=None)
        elif (scale := self._actual.scales.get(self._identity)) is not None:
            state = replace(state, scale=scale)
        if state.find(latest) is None:
            document = canonical_document(self._pattern.session)
            made = ServiceGeneration(latest, document, self._desired.commit, self._time.exactly())
            state = replace(state, generations=(*state.generations, made))
        if self._rewritten:
            # Also where its replicas are the same: a deadline may have been what was wrong.
            failed = {name: why for name, why in state.failed.items() if name != latest}
            return replace(state, failed=failed)
        stuck = next((each for each in self.replicas if each.generation == latest and each.stuck), None)
        if stuck is not None and latest != state.stable and latest not in state.failed:
            why = f"replica {stuck.number} {stuck.stuck}"
            state = replace(state, failed={**state.failed, latest: why})
        return state

    def next_state(self) -> ServiceState:
        """A generation that is complete is the stable one, and was not given up; of one without replicas
        nobody knows."""
        state, target = self._state, self._goal.target
        if self._complete() and self.replicas:
            failed = {name: why for name, why in state.failed.items() if name != target}
            earlier = tuple(name for name in state.completed if name != target)
            state = replace(state, stable=target, completed=(*earlier, target), failed=failed)
        used = {each.generation for each in self.replicas} | {state.stable, target, self._pattern.generation}
        surplus = max(0, len(state.generations) - self._spec.history)
        droppable = [each.name for each in state.generations if each.name not in used][:surplus]
        left = tuple(each for each in state.generations if each.name not in droppable)
        names = {each.name for each in left}
        return replace(
            state,
            generations=left,
            completed=tuple(name for name in state.completed if name in names),
            failed={name: why for name, why in state.failed.items() if name in names},
        )

    def _complete(self) -> bool:
        done = (
            not self._step.outdated
            and not self._step.create
            and set(self._goal.counts) == {self._goal.target}
        )
        ready = [each for each in self.replicas if each.phase == "ready"]
        return done and len(ready) == len(self.replicas) == sum(self._goal.counts.values())

    def _new_names(self) -> Iterator[tuple[str, int]]:
        """Generation and number of each that is created: the lowest numbers that are free."""
        taken = {(each.generation, each.number) for each in self.replicas}
        for generation in self._step.create:
            number = 1
            while (generation, number) in taken:
                number += 1
            taken.add((generation, number))
            yield generation, number

    def _name(self, generation: str, number: int) -> str:
        service = self._pattern.service
        return identity_of("Session", replica_name(service.name, generation, number), service.project)

    def wanted(self, memory: ExpansionMemory) -> dict[str, _WantedReplica]:
        """Those that stay, and those that are new."""
        going = {each.id for each in self._step.remove}
        found: dict[str, _WantedReplica] = {}
        for each in self.replicas:
            if each.id not in going and (made := self._staying(each, memory)) is not None:
                found[each.id] = made
        for generation, number in self._created:
            if (made := self._made(generation, number, memory)) is not None:
                found[made.session.identity] = made
        return found

    def _staying(self, each: Replica, memory: ExpansionMemory) -> _WantedReplica | None:
        """One of the document's generation is as that says, also in what restarts nothing."""
        if each.generation == self._pattern.generation and self._actual.complete:
            return self._made(each.generation, each.number, memory)
        return _recorded(self._existing[each.id])

    def _made(self, generation: str, number: int, memory: ExpansionMemory) -> _WantedReplica | None:
        pattern = self._pattern_of(generation)
        if pattern is None:
            return None
        key, notes = self._name(generation, number), replica_notes(self._pattern.service)
        known = memory.wanted.get(key)
        if known is not None and known[0] == (pattern, notes):
            return known[1]
        session = replica_session(pattern, generation, number, notes)
        document = canonical_document(session)
        made = _WantedReplica(session, document, digest(document))
        memory.wanted[key] = (pattern, notes), made
        return made

    def _pattern_of(self, generation: str) -> Session | None:
        if generation == self._pattern.generation:
            return self._pattern.session
        remembered = self._state.find(generation)
        return recorded_session(remembered.document) if remembered is not None else None

    def headroom(self) -> Mapping[str, Headroom]:
        """Places are held for the generation that the service goes to; nothing where it wants none."""
        count, target = self._spec.headroom.replicas, self._goal.target
        made = self._pattern_of(target)
        if not count or made is None:
            return {}
        named = {each.generation for each in self._state.held}
        older = {name: found for name in named if (found := self._pattern_of(name)) is not None}
        notes, since = replica_notes(self._pattern.service), self._state.find(target)
        patterns = {
            name: replica_session(each, name, 1, notes) for name, each in {**older, target: made}.items()
        }
        return {
            self._identity: Headroom(
                count,
                target,
                since.since if since is not None else self._time.exactly(),
                patterns,
                tuple(each for each in self._state.held if each.generation in patterns)[:count],
                self._state.last_held,
            )
        }

    def restarts(self) -> Mapping[str, Cause]:
        """Of those that stay."""
        going = {each.id for each in self._step.remove}
        return {
            each.id: Cause(CauseCode.REPLICA_FAILED, each.again)
            for each in self.replicas
            if each.again and each.id not in going and self._actual.complete
        }

    def removals(self) -> Mapping[str, Cause]:
        """Of those that go, and why."""
        return {
            each.id: Cause(CauseCode.REPLICA_REMOVED, self._why_removed(each)) for each in self._step.remove
        }

    def _why_removed(self, each: Replica) -> str:
        if each.leaving:
            return f"others took its place: {each.leaving}"
        if each.generation not in self._goal.counts:
            return f"generation {self._goal.target} takes its place"
        count = "1 replica" if self._wanted == 1 else f"{self._wanted} replicas"
        return f"its service is to have {count}"

    def status(self) -> ServiceStatus:
        latest, stable, goal = self._pattern.generation, self._state.stable, self._goal
        phase, why = self._phase()
        return ServiceStatus(
            self._identity, self._wanted, latest, goal.target, self.next_state().stable or stable,
            phase, why, tuple(self._replica_statuses()), self._scale, self._spec.headroom.replicas,
        )  # fmt: skip

    def _phase(self) -> tuple[ServicePhase, str]:
        latest, goal = self._pattern.generation, self._goal
        if goal.target == latest and self._complete():
            return "complete", goal.why
        if latest in self._state.failed and goal.target in (latest, self._state.stable):
            return "failed", goal.why or self._state.failed[latest]
        if goal.held:
            return "paused", goal.why
        if len(goal.counts) > 1:
            return "split", goal.why
        if self._complete():
            return "complete", goal.why
        return "progressing", goal.why or self._hindrance()

    def _hindrance(self) -> str:
        """What the next replica to go or come waits for, of what is known before anybody is placed."""
        if not self._actual.complete:
            return "not everything could be seen"
        unready = [each for each in self.replicas if each.phase in ("unready", "ended", "away")]
        leaving = [each for each in self._step.outdated if each.leaving]
        found = [f"{each.id.rpartition('/')[2]}: {each.why}" for each in unready[:1]]
        found += [f"{each.id.rpartition('/')[2]}: {each.leaving}" for each in leaving[:1]]
        return "; ".join(found)

    def _replica_statuses(self) -> Iterator[ReplicaStatus]:
        going = {each.id for each in self._step.remove}
        for each in self.replicas:
            phase: ReplicaPhase = "leaving" if each.id in going else each.phase
            weight = 0.0 if each.id in going or each.phase != "ready" else self._weight(each.generation)
            why = each.why or each.leaving or each.again
            yield ReplicaStatus(each.id, each.generation, phase, weight, why)
        for generation, number in self._created:
            yield ReplicaStatus(self._name(generation, number), generation, "new")

    def _weight(self, generation: str) -> float:
        """Its generation's part, shared by those that are ready."""
        if not self._goal.weights:
            return 1.0
        ready = sum(each.generation == generation and each.phase == "ready" for each in self.replicas)
        return self._goal.weights.get(generation, 0) / max(1, ready)


def _with_replicas(
    desired: Desired, wanted: Mapping[str, _WantedReplica], memory: ExpansionMemory
) -> Desired:
    """The same object for as long as the same is wanted of the same."""
    made_of = (desired, tuple(wanted.items()))
    if memory.whole is not None and memory.whole[0][0] is desired and memory.whole[0][1] == made_of[1]:
        return memory.whole[1]
    made = replace(
        desired,
        resources=dict(sorted({**desired.resources, **{i: w.session for i, w in wanted.items()}}.items())),
        documents={**desired.documents, **{i: w.document for i, w in wanted.items()}},
        digests={**desired.digests, **{i: w.digest for i, w in wanted.items()}},
    )
    memory.whole = made_of, made
    return made
