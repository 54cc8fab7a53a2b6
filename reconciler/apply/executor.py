"""The engine: walks the graph, starts effects, writes down before and after. One thread owns all of this
state."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable
from dataclasses import replace

from providers.base import Provider
from providers.images import PullProgress
from providers.provisioning import ProvisionEvent
from providers.storage.base import Storage
from reconciler.apply.action_graph import Part
from reconciler.apply.effect_runner import Runner
from reconciler.apply.effects import News, Values, carry_out, explain, retry_delay
from reconciler.apply.graph_walk import Walk
from reconciler.apply.journal_writer import Ledger
from reconciler.apply.node_effects import Site
from reconciler.apply.progress import Effect, PartProgress, Tally
from reconciler.apply.provision_records import Book
from reconciler.apply.steps import Step
from reconciler.values.clock import Clock
from reconciler.values.plan import Plan
from reconciler.values.results import ActionResult, ApplyEvent, Outcome

_TICK = 1.0
"""Most seconds without looking at the stop flag and the lease."""
_LONGEST = 60.0
"""Most seconds that anything is put off: what is put off for longer is so by a clock that was set back."""


class Engine:
    """Carries out the parts of one plan. `run` once."""

    def __init__(
        self,
        plan: Plan,
        parts: dict[str, Part],
        *,
        ledger: Ledger,
        provider: Provider,
        storage: Storage | None = None,
        clock: Clock,
        runner: Runner,
        parallel: int,
        values: Values,
        on_event: Callable[[ApplyEvent], None],
        stop: threading.Event,
        site: Site | None = None,
    ) -> None:
        self._ledger = ledger
        self._provider = provider
        self._storage = storage
        self._clock = clock
        self._runner = runner
        self._parallel = max(1, parallel)
        self._values = values
        self._on_event = on_event
        self._stop = stop
        self._site = site
        self._book = Book(ledger, clock, plan.commit)
        self._broken = ""
        """The node whose provisioning failed: no other one is begun."""
        self._walk = Walk(parts)
        self._tally = Tally(plan.changes, parts)
        self._numbers = itertools.count(1)
        self._queue: list[Effect] = []
        self._running: dict[int, Effect] = {}
        self._news: list[ApplyEvent] = []
        self._heard: queue.SimpleQueue[tuple[Effect, News]] = queue.SimpleQueue()

    def run(self) -> tuple[ActionResult, ...]:
        """Everything that can be done; raises StoreError or LeaseLost when nothing more can be written."""
        self._begin_ready()
        while self._queue or self._running:
            self._start_effects()
            self._ledger.renew()
            ended = self._wait()
            self._hear()
            for number, error in ended:
                self._ended(self._running.pop(number), error)
            self._begin_ready()
        self._flush()
        return self._tally.results()

    # Parts

    def _begin_ready(self) -> None:
        """Start what may start, and what became free by parts that had only something to write."""
        while ready := self._walk.take_ready():
            for part in ready:
                if self._stop.is_set():
                    self._give_up(part, "stopped")
                    continue
                if self._tally.start(part.action, self._clock.now()):
                    self._ledger.begin_action(part.action)
                    self._tell("action", part, "started")
                self._advance(PartProgress(part))

    def _advance(self, progress: PartProgress) -> None:
        """Write what is only to be written, up to the next wave of effects, or to the end."""
        waves = progress.part.waves
        while progress.wave < len(waves):
            wave = waves[progress.wave]
            if wave[0].kind in ("record", "forget", "ready"):
                self._write(progress.part, wave[0])
                progress.wave += 1
            elif self._stop.is_set():
                self._give_up(progress.part, "stopped")
                return
            elif self._broken and wave[0].kind == "provision":
                self._give_up(progress.part, "skipped", because=self._broken)
                return
            else:
                self._enqueue(progress, wave)
                return
        self._walk.succeeded(progress.part)
        if self._tally.part_done(progress.part.action, self._clock.now()):
            self._tell("action", progress.part, "done")

    def _write(self, part: Part, step: Step) -> None:
        if step.provision is not None:
            self._book.ready(step.provision)
        elif step.record is not None:
            self._ledger.put(step.record, part.action.why or part.action.verb)
        else:
            self._ledger.forget(step.resource, part.action.why or part.action.verb)

    def _enqueue(self, progress: PartProgress, wave: tuple[Step, ...]) -> None:
        progress.open = len(wave)
        self._queue.extend(Effect(step, progress) for step in wave)

    def _give_up(self, part: Part, outcome: Outcome, error: str = "", because: str = "") -> None:
        """End this part's action so, and skip what depends on it."""
        now = self._clock.now()
        if self._tally.end(part.action, outcome, now, error=error, because=because):
            if outcome == "failed":
                self._ledger.fail_action(part.action, error)
            self._tell("action", part, outcome, error=error)
        follow: Outcome = "stopped" if outcome == "stopped" else "skipped"
        for other in self._walk.failed(part):
            if self._tally.end(other.action, follow, now, because=part.action.id):
                self._tell("action", other, follow)

    # Effects

    def _start_effects(self) -> None:
        """Write down the intents of all that starts now, then start it."""
        now = self._clock.now()
        starting = self._next(now)
        for effect in starting:
            self._queue.remove(effect)
            if effect.attempt == 1:
                self._ledger.journal(effect.progress.part.action.id, effect.step, "intent")
                if effect.step.kind == "provision" and effect.step.provision is not None:
                    self._book.begin(effect.step.provision, effect.progress.part.action.why)
                self._tell("step", effect.progress.part, "started", step=effect.step)
            if effect.step.kind == "create" and effect.step not in effect.progress.created:
                effect.progress.created.append(effect.step)
        self._flush()
        for effect in starting:
            number = next(self._numbers)
            self._running[number] = effect
            self._runner.submit(number, lambda effect=effect: self._carry_out(effect))  # type: ignore[misc]

    def _next(self, now: float) -> list[Effect]:
        """What may start now. Nodes have a room of their own, for they take long."""
        due = [effect for effect in self._queue if not 0 < effect.due - now <= _LONGEST]
        nodes = [effect for effect in due if effect.step.kind == "provision"]
        under_way = sum(effect.step.kind == "provision" for effect in self._running.values())
        busy = len(self._running) - under_way
        return [*self._quick(due, busy), *nodes[: max(0, self._parallel - under_way)]]

    def _quick(self, due: list[Effect], busy: int) -> list[Effect]:
        """All but nodes. Images that are brought early take long: they go last, and leave room."""
        pulls = [effect for effect in due if effect.step.kind == "pull"]
        under_way = sum(effect.step.kind == "pull" for effect in self._running.values())
        pulls = pulls[: max(0, max(1, self._parallel // 2) - under_way)]
        others = [effect for effect in due if effect.step.kind not in ("pull", "provision")]
        return [*others, *pulls][: max(0, self._parallel - busy)]

    def _carry_out(self, effect: Effect) -> None:
        """In a thread of its own: what it tells is heard by ours."""
        carry_out(
            effect.step,
            self._provider,
            self._values,
            self._storage,
            lambda news: self._heard.put((effect, news)),
            self._site,
            self._ledger.fence,
        )

    def _hear(self) -> None:
        """How far effects have come: told, and written down where a session waits for its image, or a
        node's history is at stake."""
        while not self._heard.empty():
            effect, news = self._heard.get()
            part = effect.progress.part
            if not isinstance(news, PullProgress):
                self._book.hear(news)
                if isinstance(news, ProvisionEvent):
                    self._tell("progress", part, "started", step=effect.step, node=news)
                continue
            self._tell("progress", part, "started", step=effect.step, pull=news)
            records = (step.record for wave in part.waves for step in wave if step.record)
            target = next((record for record in records if record.phase == "CREATING"), None)
            if target is not None and self._ledger.known[target.resource].phase == "CREATING":
                self._ledger.put(replace(target, phase="PULLING"), f"{news.node} fetches {news.image}")

    def _wait(self) -> list[tuple[int, BaseException | None]]:
        due = min((effect.due for effect in self._queue), default=None)
        patience = _TICK if due is None else min(_TICK, max(0.0, due - self._clock.now()))
        if self._running:
            return self._runner.wait(patience if len(self._running) < self._parallel else _TICK)
        self._clock.sleep(patience)
        return []

    def _ended(self, effect: Effect, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, Exception):
            raise error
        delay = None if error is None or self._stop.is_set() else retry_delay(error, effect.attempt)
        if error is not None and delay is not None:
            due = self._clock.now() + delay
            self._queue.append(replace(effect, attempt=effect.attempt + 1, due=due))
            self._tell("retry", effect.progress.part, "failed", step=effect.step, error=explain(error))
            return
        self._settle(effect, "" if error is None else explain(error))

    def _settle(self, effect: Effect, error: str) -> None:
        progress, step = effect.progress, effect.step
        self._ledger.journal(progress.part.action.id, step, "failed" if error else "done", error)
        self._tell("step", progress.part, "failed" if error else "done", step=step, error=error)
        progress.open -= 1
        if error and progress.undoing:
            progress.left.append(step.kernel_id)
        elif error:
            progress.error = progress.error or error
            self._drop_queued(progress)
        if progress.open == 0:
            self._wave_ended(progress)

    def _drop_queued(self, progress: PartProgress) -> None:
        """After a failure nothing new of this part starts; what has been tried already is awaited."""
        dropped = [effect for effect in self._queue if effect.progress is progress and effect.attempt == 1]
        for effect in dropped:
            self._queue.remove(effect)
        progress.open -= len(dropped)

    def _wave_ended(self, progress: PartProgress) -> None:
        if not progress.error:
            progress.wave += 1
            self._advance(progress)
        elif progress.created and not progress.undoing:
            self._undo(progress)
        else:
            self._fail(progress)

    # Failure

    def _undo(self, progress: PartProgress) -> None:
        """All of a session's kernels or none: remove those that were begun, the failed one too, for it may be
        half there."""
        progress.undoing = True
        undo = tuple(
            replace(step, kind="remove", kernel_id=step.kernel_id, spec=None, secrets={})
            for step in progress.created
        )
        self._enqueue(progress, undo)

    def _fail(self, progress: PartProgress) -> None:
        if progress.created:
            self._record_error(progress)
        side = progress.part.action.after
        if side is not None and side.provision is not None:
            self._book.failed(side.provision, progress.error)
            self._break_off(progress.part.action.id)
        self._give_up(progress.part, "failed", progress.error)

    def _break_off(self, node: str) -> None:
        """No other node is begun; those that are at it go on."""
        self._broken = self._broken or node
        kept = []
        for effect in self._queue:
            if effect.step.kind == "provision" and effect.attempt == 1:
                self._give_up(effect.progress.part, "skipped", because=self._broken)
            else:
                kept.append(effect)
        self._queue = kept

    def _record_error(self, progress: PartProgress) -> None:
        """Nothing of it is left: ERROR. What is half there stays CREATING: the next run goes on from it."""
        waves = reversed(progress.part.waves)
        target = next((step.record for wave in waves for step in wave if step.record), None)
        if target is None:
            return
        gone = {step.kernel_id for step in progress.created} - set(progress.left)
        if gone.issuperset(target.kernels):
            failed = replace(target, phase="ERROR", reason=progress.error, kernels=(), placement=None)
        else:
            failed = replace(target, phase="CREATING", reason=progress.error)
        self._ledger.put(failed, progress.error)

    # Telling

    def _tell(
        self,
        kind: str,
        part: Part,
        state: str,
        *,
        step: Step | None = None,
        error: str = "",
        pull: PullProgress | None = None,
        node: ProvisionEvent | None = None,
    ) -> None:
        provisions = part.action.after is not None and part.action.after.provision is not None
        self._news.append(
            ApplyEvent(
                kind=kind,  # type: ignore[arg-type]
                at=self._clock.now(),
                action=part.action.id,
                verb="provision" if provisions else part.action.verb,
                state=state,  # type: ignore[arg-type]
                step=f"{step.kind} {step.kernel_id}" if step else "",
                kernel=step.kernel_id if step else "",
                error=error,
                pull=pull,
                node=node,
                done=self._tally.ended,
                total=self._tally.total,
            )
        )

    def _flush(self) -> None:
        """Write, and only then tell."""
        self._ledger.flush()
        news, self._news = self._news, []
        for each in news:
            self._on_event(each)
