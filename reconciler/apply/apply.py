"""Acting: carry out a plan, and nothing else. Nothing is decided here.

The thread that calls `apply` owns the store: it writes what is about to happen, hands the effect to a worker,
and writes down how it went. Killed anywhere, what is left is a journal that names everything that may have
happened.

Read `action_graph` (a plan as parts that wait for each other), `graph_walk` (what may start), `executor` (the
engine), `journal_writer` (what is written).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

from providers.abilities import SweepsLeftovers
from providers.base import Observation, Provider
from reconciler.apply.action_graph import ActionPart, build_action_graph
from reconciler.apply.effect_runner import Runner, ThreadRunner
from reconciler.apply.effect_slots import MOST_DRAINS
from reconciler.apply.executor import Executor, ExecutorControl
from reconciler.apply.journal_writer import JournalWriter
from reconciler.apply.targets import ApplyTargets
from reconciler.guards.judge import enforced_policies, judge_actions, raise_if_violated
from reconciler.guards.signers import ImageSigners, require_signatures
from reconciler.observe.observe import observe
from reconciler.observe.store_changes import record_changes
from reconciler.store.store import Store
from reconciler.values.documents.service_replicas import relied_replicas
from reconciler.values.encoding.fingerprint import state_fingerprint
from reconciler.values.plan import Plan
from reconciler.values.records import JournalEntry, JournalState, PutRecord, Recorded
from reconciler.values.results import ApplyEvent, ApplyResult
from reconciler.values.session_phase import ENDED
from reconciler.values.state import Actual
from schemas.problems.errors.plan import IncompleteObservation, StalePlan
from schemas.problems.errors.provider import ProviderError
from schemas.problems.errors.store import LeaseLost, StoreError
from schemas.values.resource_ref import ref_of


def apply(
    plan: Plan,
    targets: ApplyTargets,
    *,
    holder: str,
    parallel: int = 32,
    on_event: Callable[[ApplyEvent], None] | None = None,
    stop: threading.Event | None = None,
    runner: Runner | None = None,
) -> ApplyResult:
    """Carry out `plan` on `targets`.

    Setting `stop` lets what has begun come to its end and starts nothing more. Raises LeaseHeld, StalePlan,
    GuardRefused and IncompleteObservation before anything happens; LeaseLost and StoreError when nothing more
    can be written. What a provider cannot do is not raised: the action's result says it.
    """
    parts = build_action_graph(plan)
    stop = stop or threading.Event()
    on_event = on_event or _ignore_event
    store, provider, clock = targets.store, targets.provider, targets.clock
    runner = runner or ThreadRunner(_most_threads(plan, parts, parallel))
    started = clock.now()
    journal = JournalWriter(store, clock, plan.cluster, holder, plan.commit, plan.digest)
    try:
        seen = _verify_plan(plan, journal, targets, started)
        _record_ends(plan, journal, seen, started, holder)
        _close_intents(journal, store, provider)
        targets.traffic.follow(plan, seen)
        journal.begin(len(plan.changes), plan.overridden)
        on_event(ApplyEvent("begin", started, total=len(plan.changes)))
        control = ExecutorControl(runner, parallel, on_event, stop)
        results = Executor(plan, parts, targets, journal, control).run()
    except (Exception, KeyboardInterrupt) as error:
        runner.close()
        _release_lease(journal, error)
        raise
    runner.close()
    # All that counts is written. A lease that cannot be given back is not in our own way, and is over soon.
    with contextlib.suppress(StoreError):
        journal.prune()
    with contextlib.suppress(StoreError):
        journal.release()
    finished = clock.now()
    on_event(ApplyEvent("end", finished, state="done", done=len(results), total=len(results)))
    return ApplyResult(journal.apply, plan.digest, results, started, finished, interrupted=stop.is_set())


def _most_threads(plan: Plan, parts: Mapping[str, ActionPart], parallel: int) -> int:
    """Of effects that may run at a time, with those that have a room of their own."""
    nodes = sum(1 for action in plan.changes if action.provision)
    waves = (wave for part in parts.values() for wave in part.waves)
    drains = sum(len(wave) for wave in waves if wave[0].kind == "drain")
    return 2 * max(1, parallel) + min(nodes, parallel) + min(drains, MOST_DRAINS)


def _verify_plan(plan: Plan, journal: JournalWriter, targets: ApplyTargets, now: float) -> Actual:
    """The plan may be carried out on what is there now, which it gives, and nothing stands against it."""
    journal.load()
    _check_guards(plan, journal.known, targets.store, now)
    memo = targets.existing_memo
    seen = observe(targets.store, targets.provider, plan.cluster, repo=plan.repo, memo=memo)
    relied = relied_replicas(seen.existing, (action.id for action in plan.changes))
    if relied and targets.readiness is not None:
        seen = replace(seen, readiness=targets.readiness(seen, relied))
    if state_fingerprint(seen, relied) != plan.basis:
        if not seen.complete:
            why = f"not everything can be observed any more: {'; '.join(seen.errors)}"
            raise StalePlan(why=why, hint="plan again when it can be asked")
        hint = "plan again, and not with --offline: that does not see what runs"
        raise StalePlan(why="what is recorded or runs is not what it was made from", hint=hint)
    return seen


def _record_ends(plan: Plan, journal: JournalWriter, seen: Actual, now: float, holder: str) -> None:
    """Sessions that ended before anybody looked have held nothing since: that is written down before they are
    taken away or started anew."""
    ended = {
        action.id: seen.existing[action.id]
        for action in plan.changes
        if action.id in seen.existing and seen.existing[action.id].phase in ENDED
    }
    changes = record_changes(replace(seen, existing=ended), now, holder)
    journal.add(*changes)
    journal.flush()
    journal.known |= {each.record.resource: each.record for each in changes if isinstance(each, PutRecord)}


def _check_guards(plan: Plan, recorded: dict[str, Recorded], store: Store, now: float) -> None:
    """What is recorded by now counts, too: a Policy, or that something is protected; of signatures what the
    store remembers, never what a plan says."""
    policies = enforced_policies(recorded, *_policies_after(plan, recorded))
    signers = ImageSigners()
    if require_signatures(each.policy for each in policies):
        signers = ImageSigners.of({name: facts for name, (facts, _) in store.images().items()})
    raise_if_violated(
        plan, judge_actions(plan.actions, policies, recorded, plan.quotas, now, signers).violations
    )
    for action in plan.changes:
        if action.verb == "delete" and not plan.complete:
            raise IncompleteObservation(why=f"{action.id} would be deleted on a guess")


def _policies_after(
    plan: Plan, recorded: dict[str, Recorded]
) -> tuple[dict[str, str], dict[str, Mapping[str, object]]]:
    """Digests and documents of the policies that there will be."""
    found = {
        name: (one.digest, one.document) for name, one in recorded.items() if ref_of(name).kind == "Policy"
    }
    for action in plan.changes:
        if ref_of(action.id).kind == "Policy":
            found.pop(action.id, None)
            if action.after is not None:
                found[action.id] = (action.after.digest, action.after.document)
    digests = {name: digest for name, (digest, _) in found.items()}
    return digests, {name: document for name, (_, document) in found.items()}


def _close_intents(journal: JournalWriter, store: Store, provider: Provider) -> None:
    """Write down how the open steps of applies that died turned out, as far as what runs can tell."""
    opened = store.open_intents(journal.lease.cluster)
    if not opened:
        return
    try:
        seen = provider.observe()
    except ProviderError:
        return
    for entry in opened:
        outcome = _intent_outcome(entry, seen)
        if outcome is None:
            continue
        if entry.kind == "create" and outcome[0] == "failed" and isinstance(provider, SweepsLeftovers):
            with contextlib.suppress(ProviderError):
                provider.sweep(entry.kernel)
        journal.close_intent(entry, *outcome)
    journal.flush()


def _intent_outcome(entry: JournalEntry, seen: Observation) -> tuple[JournalState, str] | None:
    """None while an incomplete observation leaves it open."""
    state = next((kernel.state for kernel in seen.kernels if kernel.id == entry.kernel), None)
    if state is None and not seen.complete:
        return None
    done = {
        "create": state is not None,
        "remove": state is None,
        "stop": state in (None, "exited", "lost"),
    }.get(entry.kind, False)
    return ("done", "interrupted, found done") if done else ("failed", "interrupted")


def _release_lease(journal: JournalWriter, error: BaseException) -> None:
    if not isinstance(error, LeaseLost):
        with contextlib.suppress(StoreError):
            journal.release()


def _ignore_event(event: ApplyEvent) -> None:
    return None
