"""The engine: walks the graph, starts effects, writes down before and after. One thread owns all of this
state."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from providers.images import PullProgress
from providers.provisioning import ProvisionEvent
from reconciler.apply.action_graph import ActionPart
from reconciler.apply.effect_runner import Runner
from reconciler.apply.effect_slots import node_of, startable
from reconciler.apply.effects import (
    Draining,
    EffectProgress,
    KernelStarts,
    StillDraining,
    carry_out,
    error_text,
    retry_delay,
)
from reconciler.apply.event_queue import EventQueue
from reconciler.apply.graph_walk import GraphWalk
from reconciler.apply.journal_writer import JournalWriter
from reconciler.apply.progress import ActionTally, PartProgress, QueuedEffect
from reconciler.apply.provision_records import ProvisionRecorder
from reconciler.apply.steps import Step
from reconciler.apply.targets import ApplyTargets
from reconciler.values.plan import Plan
from reconciler.values.results import ActionResult, ApplyEvent, Outcome

_TICK = 1.0
"""Most seconds without looking at the stop flag and the lease."""
_LONGEST = 60.0
"""Most seconds that anything is put off: what is put off for longer is so by a clock that was set back."""


@dataclass(frozen=True, slots=True)
class ExecutorControl:
    """Made by `apply` of what its caller wants: how many effects at once, on what they run, who is told, and
    what stops it."""

    runner: Runner
    parallel: int
    on_event: Callable[[ApplyEvent], None]
    stop: threading.Event


class Executor:
    """Carries out the parts of one plan. `run` once."""

    def __init__(
        self,
        plan: Plan,
        parts: dict[str, ActionPart],
        targets: ApplyTargets,
        journal: JournalWriter,
        control: ExecutorControl,
    ) -> None:
        self._targets = targets
        self._clock = targets.clock
        self._journal = journal
        self._runner = control.runner
        self._parallel = max(1, control.parallel)
        self._stop = control.stop
        self._provisions = ProvisionRecorder(journal, targets.clock, plan.commit)
        self._failed_node = ""
        """The node whose provisioning failed: no other one is begun."""
        self._walk = GraphWalk(parts)
        self._tally = ActionTally(plan.changes, parts)
        self._numbers = itertools.count(1)
        self._queue: list[QueuedEffect] = []
        self._running: dict[int, QueuedEffect] = {}
        self._looked = 0.0
        """When effects were last started."""
        self._events = EventQueue(control.on_event, self._clock, self._tally)
        self._progress_queue: queue.SimpleQueue[tuple[QueuedEffect, EffectProgress]] = queue.SimpleQueue()

    def run(self) -> tuple[ActionResult, ...]:
        """Everything that can be done; raises StoreError or LeaseLost when nothing more can be written."""
        self._begin_ready()
        while self._queue or self._running:
            self._start_effects()
            self._journal.renew()
            ended = self._wait()
            self._take_progress()
            for number, error in ended:
                self._effect_ended(self._running.pop(number), error)
            self._begin_ready()
        self._flush()
        return self._tally.results()

    # Parts

    def _begin_ready(self) -> None:
        """Start what may start, and what became free by parts that had only something to write."""
        while ready := self._walk.take_ready():
            for part in ready:
                if self._stop.is_set():
                    self._end_action(part, "stopped")
                    continue
                if self._tally.start(part.action, self._clock.now()):
                    self._journal.begin_action(part.action)
                    self._events.add(part, ApplyEvent("action"))
                self._advance(PartProgress(part))

    def _advance(self, progress: PartProgress) -> None:
        """Write what is only to be written, up to the next wave of effects, or to the end."""
        waves = progress.part.waves
        while progress.wave < len(waves):
            wave = waves[progress.wave]
            if wave[0].kind in ("record", "forget", "ready"):
                self._write(progress, wave[0])
                progress.wave += 1
            elif self._stop.is_set():
                self._end_action(progress.part, "stopped")
                return
            elif self._failed_node and wave[0].kind == "provision":
                self._end_action(progress.part, "skipped", because=self._failed_node)
                return
            else:
                self._enqueue(progress, wave)
                return
        self._walk.mark_succeeded(progress.part)
        if self._tally.part_done(progress.part.action, self._clock.now()):
            self._events.add(progress.part, ApplyEvent("action", state="done"))

    def _write(self, progress: PartProgress, step: Step) -> None:
        action, record = progress.part.action, step.record
        if step.provision is not None:
            self._provisions.ready(step.provision)
        elif record is not None:
            if progress.starting and record.phase == "RUNNING":
                record = replace(record, phase="CREATING")  # The next look tells when it runs.
            self._journal.put(record, action.why or action.verb)
        else:
            self._journal.forget(step.resource, action.why or action.verb)

    def _enqueue(self, progress: PartProgress, wave: tuple[Step, ...]) -> None:
        progress.open = len(wave)
        known = self._journal.known
        self._queue.extend(
            QueuedEffect(step, progress, node=node_of(step, known.get(step.resource))) for step in wave
        )

    def _end_action(
        self, part: ActionPart, outcome: Outcome, error: str = "", because: str = "", *,
        draining: bool = False,
    ) -> None:  # fmt: skip
        """End this part's action so, and skip what depends on it. `draining`: the next apply goes on."""
        now = self._clock.now()
        if self._tally.end(part.action, outcome, now, error=error, because=because, draining=draining):
            if outcome == "failed":
                self._journal.fail_action(part.action, error)
            self._events.add(part, ApplyEvent("action", state=outcome, error=error))
        follow: Outcome = "stopped" if outcome == "stopped" else "skipped"
        for other in self._walk.mark_failed(part):
            because = part.action.id
            if self._tally.end(other.action, follow, now, because=because, draining=draining):
                self._events.add(other, ApplyEvent("action", state=follow))

    # Effects

    def _start_effects(self) -> None:
        """Write down the intents of all that starts now, then start it."""
        now = self._looked = self._clock.now()
        starting = self._startable(now)
        for effect in starting:
            self._queue.remove(effect)
            effect.began = now
            if effect.attempt == 1:
                self._journal.journal(effect.progress.part.action.id, effect.step, "intent")
                if effect.step.kind == "provision" and effect.step.provision is not None:
                    self._provisions.begin(effect.step.provision, effect.progress.part.action.why)
                self._events.add(effect.progress.part, ApplyEvent("step"), effect.step)
            if effect.step.kind == "create" and effect.step not in effect.progress.created:
                effect.progress.created.append(effect.step)
        self._flush()
        for effect in starting:
            number = next(self._numbers)
            self._running[number] = effect
            self._runner.submit(number, lambda effect=effect: self._carry_out(effect))  # type: ignore[misc]

    def _startable(self, now: float) -> list[QueuedEffect]:
        due = [effect for effect in self._queue if not 0 < effect.due - now <= _LONGEST]
        return startable(due, self._running.values(), self._parallel, now)

    def _carry_out(self, effect: QueuedEffect) -> None:
        """In a thread of its own: what it tells is heard by ours."""
        carry_out(
            effect.step,
            self._targets,
            lambda progress: self._progress_queue.put((effect, progress)),
            self._journal.fence,
            self._stop,
        )

    def _take_progress(self) -> None:
        """How far effects have come: told, and written down where a session waits for its image, or a
        node's history is at stake."""
        while not self._progress_queue.empty():
            effect, news = self._progress_queue.get()
            part = effect.progress.part
            if isinstance(news, KernelStarts):
                effect.progress.starting = True
                continue
            if isinstance(news, Draining):
                told = ApplyEvent("progress", connections=news.connections)
                self._events.add(part, told, effect.step)
                continue
            if not isinstance(news, PullProgress):
                self._provisions.record_progress(news)
                if isinstance(news, ProvisionEvent):
                    self._events.add(part, ApplyEvent("progress", node=news), effect.step)
                continue
            self._events.add(part, ApplyEvent("progress", pull=news), effect.step)
            records = (step.record for wave in part.waves for step in wave if step.record)
            target = next((record for record in records if record.phase == "CREATING"), None)
            if target is not None and self._journal.known[target.resource].phase == "CREATING":
                self._journal.put(replace(target, phase="PULLING"), f"{news.node} fetches {news.image}")

    def _wait(self) -> list[tuple[int, BaseException | None]]:
        # What was due already waits for a place, and so for an end.
        due = min((effect.due for effect in self._queue if effect.due > self._looked), default=None)
        patience = _TICK if due is None else min(_TICK, max(0.0, due - self._clock.now()))
        if self._running:
            return self._runner.wait(patience)
        self._clock.sleep(patience)
        return []

    def _effect_ended(self, effect: QueuedEffect, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, Exception):
            raise error
        if isinstance(error, StillDraining):
            effect.progress.draining = True
            error = None
        delay = None if error is None or self._stop.is_set() else retry_delay(error, effect.attempt)
        if error is not None and delay is not None:
            due = self._clock.now() + delay
            self._queue.append(replace(effect, attempt=effect.attempt + 1, due=due))
            event = ApplyEvent("retry", state="failed", error=error_text(error))
            self._events.add(effect.progress.part, event, effect.step)
            return
        self._settle(effect, "" if error is None else error_text(error))

    def _settle(self, effect: QueuedEffect, error: str) -> None:
        progress, step = effect.progress, effect.step
        self._journal.journal(progress.part.action.id, step, "failed" if error else "done", error)
        event = ApplyEvent("step", state="failed" if error else "done", error=error)
        self._events.add(progress.part, event, step)
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
        if progress.draining:
            self._end_action(progress.part, "stopped", draining=True)
        elif not progress.error:
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
        provision = progress.part.action.provision
        if provision is not None:
            self._provisions.failed(provision, progress.error)
            self._stop_rollout(progress.part.action.id)
        self._end_action(progress.part, "failed", progress.error)

    def _stop_rollout(self, node: str) -> None:
        """No other node is begun; those that are at it go on."""
        self._failed_node = self._failed_node or node
        kept = []
        for effect in self._queue:
            if effect.step.kind == "provision" and effect.attempt == 1:
                self._end_action(effect.progress.part, "skipped", because=self._failed_node)
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
        self._journal.put(failed, progress.error)

    def _flush(self) -> None:
        """Write, and only then tell."""
        self._journal.flush()
        self._events.flush()
