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
from collections.abc import Callable

from providers.base import Observation, Provider
from reconciler import secret_values
from reconciler.clock import Clock
from reconciler.execute import Engine
from reconciler.graph import build
from reconciler.ledger import Ledger
from reconciler.observe import current_basis
from reconciler.plan import Plan
from reconciler.records import JournalEntry, JournalState, Recorded
from reconciler.results import ActionResult, ApplyEvent, ApplyResult
from reconciler.runner import Runner, ThreadRunner
from reconciler.store import Store
from schemas.errors import (
    GuardRefused,
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
    clock: Clock,
    holder: str,
    parallel: int = 8,
    on_event: Callable[[ApplyEvent], None] | None = None,
    stop: threading.Event | None = None,
    secrets: Callable[[str], str] = secret_values.resolve,
    runner: Runner | None = None,
) -> ApplyResult:
    """Carry out `plan`; `secrets` resolves one reference (`env:NAME`, `file:/path`), by default in this
    process' environment.

    Setting `stop` lets what has begun come to its end and starts nothing more. Raises LeaseHeld, StalePlan,
    GuardRefused and IncompleteObservation before anything happens; LeaseLost and StoreError when nothing more
    can be written. What a provider cannot do is not raised: the action's result says it.
    """
    parts = build(plan)
    stop = stop or threading.Event()
    tell = on_event or _say_nothing
    runner = runner or ThreadRunner(max(1, parallel))
    started = clock.now()
    ledger = Ledger(store, clock, plan.cluster, holder, plan.commit)
    try:
        _verify(plan, ledger, store, provider)
        _close_intents(ledger, store, provider)
        tell(ApplyEvent("begin", started, total=len(plan.changes)))
        engine = Engine(
            plan, parts, ledger=ledger, provider=provider, clock=clock, runner=runner, parallel=parallel,
            resolve=secrets, on_event=tell, stop=stop,
        )  # fmt: skip
        results = engine.run()
    except (Exception, KeyboardInterrupt) as error:
        runner.close()
        _let_go(ledger, error)
        raise
    runner.close()
    ledger.release()
    finished = clock.now()
    tell(ApplyEvent("end", finished, state="done", done=len(results), total=len(results)))
    return ApplyResult(ledger.apply, plan.digest, results, started, finished, interrupted=stop.is_set())


def _verify(plan: Plan, ledger: Ledger, store: Store, provider: Provider) -> None:
    """The plan may be carried out on what is there now, and deletes nothing that it must not."""
    ledger.load()
    _guard(plan, ledger.known)
    if current_basis(store, provider, plan) != plan.basis:
        raise StalePlan(why="what is recorded or runs has changed since it was made", hint="plan again")


def _guard(plan: Plan, recorded: dict[str, Recorded]) -> None:
    for action in plan.changes:
        if action.verb != "delete":
            continue
        record = recorded.get(action.id)
        if action.protected or (record is not None and record.protected):
            raise GuardRefused(
                resource=action.id,
                hint='first apply the document with the annotation bai/protect: "false", then delete it',
            )
        if not plan.complete:
            raise IncompleteObservation(why=f"{action.id} would be deleted on a guess")


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
        if outcome is not None:
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
