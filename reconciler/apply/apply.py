"""Acting: carry out a plan, and nothing else. Nothing is decided here.

The thread that calls `apply` owns the store: it writes what is about to happen, hands the effect to a worker,
and writes down how it went. Killed anywhere, what is left is a journal that names everything that may have
happened.

Read `graph.py` (a plan as parts that wait for each other), `walk.py` (what may start), `execute.py` (the
engine), `ledger.py` (what is written).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping

from providers.abilities import Sweeps
from providers.base import Observation, Provider
from providers.storage.base import Storage
from reconciler.apply.action_graph import build
from reconciler.apply.effect_runner import Runner, ThreadRunner
from reconciler.apply.effects import Values
from reconciler.apply.executor import Engine
from reconciler.apply.journal_writer import Ledger
from reconciler.apply.node_effects import Site
from reconciler.guards.judge import enforced, judge, refuse
from reconciler.guards.signers import Signers, asks_for_signatures
from reconciler.observe.observe import current_basis
from reconciler.secrets.reader import NOTHING, SecretReader
from reconciler.store import Store
from reconciler.store.ownership import seeds_of
from reconciler.values.clock import Clock
from reconciler.values.plan import Plan
from reconciler.values.records import JournalEntry, JournalState, Recorded
from reconciler.values.results import ActionResult, ApplyEvent, ApplyResult
from schemas.problems.errors import (
    IncompleteObservation,
    LeaseLost,
    ProviderError,
    StalePlan,
    StoreError,
)

__all__ = ["ActionResult", "ApplyEvent", "ApplyResult", "apply"]


def apply(
    plan: Plan,
    *,
    store: Store,
    provider: Provider,
    storage: Storage | None = None,
    clock: Clock,
    holder: str,
    parallel: int = 32,
    on_event: Callable[[ApplyEvent], None] | None = None,
    stop: threading.Event | None = None,
    secrets: SecretReader = NOTHING,
    runner: Runner | None = None,
    site: Site | None = None,
) -> ApplyResult:
    """Carry out `plan`; `secrets` reads what documents name of secret stores; keys of sessions follow from
    the one beside the store. `storage` looks after the folders of volumes, `site` after nodes that are
    provisioned.

    Setting `stop` lets what has begun come to its end and starts nothing more. Raises LeaseHeld, StalePlan,
    GuardRefused and IncompleteObservation before anything happens; LeaseLost and StoreError when nothing more
    can be written. What a provider cannot do is not raised: the action's result says it.
    """
    parts = build(plan)
    stop = stop or threading.Event()
    tell = on_event or _say_nothing
    nodes = sum(1 for action in plan.changes if action.after and action.after.provision)
    runner = runner or ThreadRunner(max(1, parallel) + min(nodes, parallel))
    started = clock.now()
    ledger = Ledger(store, clock, plan.cluster, holder, plan.commit, plan.digest)
    try:
        _verify(plan, ledger, store, provider, started)
        _close_intents(ledger, store, provider)
        ledger.begin(len(plan.changes), plan.overridden)
        tell(ApplyEvent("begin", started, total=len(plan.changes)))
        engine = Engine(
            plan, parts, ledger=ledger, provider=provider, storage=storage, clock=clock, runner=runner,
            parallel=parallel, values=Values(secrets, seeds_of(store)), on_event=tell,
            stop=stop, site=site,
        )  # fmt: skip
        results = engine.run()
    except (Exception, KeyboardInterrupt) as error:
        runner.close()
        _let_go(ledger, error)
        raise
    runner.close()
    # All that counts is written. A lease that cannot be given back is not in our own way, and is over soon.
    with contextlib.suppress(StoreError):
        ledger.prune()
    with contextlib.suppress(StoreError):
        ledger.release()
    finished = clock.now()
    tell(ApplyEvent("end", finished, state="done", done=len(results), total=len(results)))
    return ApplyResult(ledger.apply, plan.digest, results, started, finished, interrupted=stop.is_set())


def _verify(plan: Plan, ledger: Ledger, store: Store, provider: Provider, now: float) -> None:
    """The plan may be carried out on what is there now, and nothing stands against it."""
    ledger.load()
    _guard(plan, ledger.known, store, now)
    if current_basis(store, provider, plan) != plan.basis:
        hint = "plan again, and not with --offline: that does not see what runs"
        raise StalePlan(why="what is recorded or runs is not what it was made from", hint=hint)


def _guard(plan: Plan, recorded: dict[str, Recorded], store: Store, now: float) -> None:
    """What is recorded by now counts, too: a Policy, or that something is protected; of signatures what the
    store remembers, never what a plan says."""
    policies = enforced(recorded, *_policies_after(plan, recorded))
    signers = Signers()
    if asks_for_signatures(each.policy for each in policies):
        signers = Signers.of({name: facts for name, (facts, _) in store.images().items()})
    refuse(plan, judge(plan.actions, policies, recorded, plan.quotas, now, signers).violations)
    for action in plan.changes:
        if action.verb == "delete" and not plan.complete:
            raise IncompleteObservation(why=f"{action.id} would be deleted on a guess")


def _policies_after(
    plan: Plan, recorded: dict[str, Recorded]
) -> tuple[dict[str, str], dict[str, Mapping[str, object]]]:
    """Digests and documents of the policies that there will be."""
    found = {name: (one.digest, one.document) for name, one in recorded.items() if name.startswith("Policy/")}
    for action in plan.changes:
        if action.id.startswith("Policy/"):
            found.pop(action.id, None)
            if action.after is not None:
                found[action.id] = (action.after.digest, action.after.document)
    digests = {name: digest for name, (digest, _) in found.items()}
    return digests, {name: document for name, (_, document) in found.items()}


def _close_intents(ledger: Ledger, store: Store, provider: Provider) -> None:
    """Write down how the open steps of applies that died turned out, as far as what runs can tell."""
    opened = store.open_intents(ledger.lease.cluster)
    if not opened:
        return
    try:
        seen = provider.observe()
    except ProviderError:
        return
    for entry in opened:
        outcome = _outcome(entry, seen)
        if outcome is None:
            continue
        if entry.kind == "create" and outcome[0] == "failed" and isinstance(provider, Sweeps):
            with contextlib.suppress(ProviderError):
                provider.sweep(entry.kernel)
        ledger.close_intent(entry, *outcome)
    ledger.flush()


def _outcome(entry: JournalEntry, seen: Observation) -> tuple[JournalState, str] | None:
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


def _let_go(ledger: Ledger, error: BaseException) -> None:
    if not isinstance(error, LeaseLost):
        with contextlib.suppress(StoreError):
            ledger.release()


def _say_nothing(event: ApplyEvent) -> None:
    return None
