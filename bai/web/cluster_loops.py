"""The loops of a server, what their latest passes saw, and who waits for news of them.

A pass is published whole by its loop's thread; requests only read what was published and the store. None of
them asks a provider but for logs and use.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bai.web.etag_cache import EtagCache
from reconciler.controller.cycle import ReconcileCycle
from reconciler.controller.loop import Loop
from reconciler.controller.pass_studies import PassStudies
from reconciler.controller.stages import STUCK_AFTER, LoopPulse, StageListener, StageListeners, stuck_loops
from reconciler.gitops.directives import request_reconcile
from reconciler.notify.dispatcher import Dispatcher
from reconciler.observe.shared_usage import SharedUsage
from reconciler.review.memory import ReviewMemory
from reconciler.sources.commit_facts import CommitFactsCache
from schemas.kinds.app_proxy import AppProxy


@dataclass(frozen=True, slots=True)
class Simulation:
    """That a cluster exists only in this process."""

    pace: float
    """Seconds of its clock in one of ours."""


@dataclass
class ServedCluster:
    """One cluster's loop. `latest` is the last pass, `good` the last one that saw everything it needed."""

    loop: Loop
    latest: ReconcileCycle | None = None
    good: ReconcileCycle | None = None
    thread: threading.Thread | None = None
    listeners: list[Callable[[ReconcileCycle], None]] = field(default_factory=list)
    pulse: LoopPulse = field(default_factory=LoopPulse)
    dispatcher: Dispatcher | None = None
    """Who tells people what happens."""
    simulation: Simulation | None = None
    pass_count: int = 0
    """How many passes were published."""
    pass_cache: EtagCache = field(default_factory=EtagCache)
    """Answers that are the same from pass to pass."""
    store_cache: EtagCache = field(default_factory=EtagCache)
    """Answers that rest on the store, too."""
    studies: PassStudies = field(default_factory=PassStudies)
    review_memory: ReviewMemory = field(default_factory=ReviewMemory)
    """Of all reviews of commits, whoever asks for them."""
    commit_facts: CommitFactsCache = field(default_factory=CommitFactsCache)
    """What git here says of commits."""
    usage: SharedUsage = field(default_factory=SharedUsage)
    unbound_ports: Mapping[int, str] = field(default_factory=dict)
    """Ports for apps that this server could not listen at, to why."""

    @property
    def name(self) -> str:
        return self.loop.workspace.cluster.name

    @property
    def app_proxy(self) -> AppProxy | None:
        """Where its apps are, as documents of the pass that is shown say; None where none does."""
        done = self.good or self.latest
        if done is None or done.desired is None:
            return None
        return done.desired.repository.app_proxy_of(self.name)

    @property
    def observed_here(self) -> bool:
        """Whether this very loop made the last pass."""
        return self.latest is not None and not self.latest.by

    def wake(self) -> None:
        """Whoever leads looks at once: this loop, or another replica's, which hears of it through the store.
        Raises StoreError."""
        if self.loop.leads():
            self.loop.wake()
        else:
            request_reconcile(self.loop.workspace.store, self.name)

    def find_commit(self, name: str) -> str:
        """The full name of a commit. Raises BaiError."""
        return self.loop.documents.find_commit(name, self.loop.workspace.source, fresh=not self.loop.leads())

    def version(self) -> Hashable:
        """Changes with everything that answers are made of: passes, the store, who leads. Raises
        StoreError."""
        revision = self.loop.workspace.store.revision(self.name)
        return self.pass_count, revision, self.loop.leads(), self.loop.leader()

    def publish(self, done: ReconcileCycle) -> None:
        """A pass is over."""
        self.latest = done
        if done.plan is not None:
            self.good = done
        self.pass_count += 1
        for listener in tuple(self.listeners):
            listener(done)


class ClusterLoops:
    """Clusters by name. `start` runs every loop in a thread of its own. A loop that is at work without a sign
    of life for `stuck_after` seconds is stuck. `stages` are told what loops are at."""

    def __init__(self, stuck_after: float = STUCK_AFTER, stages: Sequence[StageListener] = ()) -> None:
        self._clusters: dict[str, ServedCluster] = {}
        self._stuck_after = stuck_after
        self._stages = list(stages)
        self.broken: list[BaseException] = []
        self.started = time.time()

    @property
    def clusters(self) -> Mapping[str, ServedCluster]:
        return self._clusters

    def add(self, loop: Loop) -> None:
        """One more, whose passes are published from now on; before it runs."""
        cluster = ServedCluster(loop)
        self._clusters[cluster.name] = cluster
        loop.add_listener(self.publish_pass)
        self._listen(cluster)

    def add_stages(self, stages: StageListener) -> None:
        """One more who is told what loops are at; before they start."""
        self._stages.append(stages)
        for cluster in self._clusters.values():
            self._listen(cluster)

    def publish_pass(self, done: ReconcileCycle) -> None:
        """Called by the loops after each pass."""
        self._clusters[done.cluster].publish(done)

    def start(self) -> None:
        for cluster in self._clusters.values():
            run = threading.Thread(
                target=self._run, args=(cluster,), name=f"loop-{cluster.name}", daemon=True
            )
            cluster.thread = run
            run.start()

    def wake(self) -> None:
        """The remote has moved, or somebody asks: whoever leads looks at once. Raises StoreError."""
        for cluster in self._clusters.values():
            cluster.wake()

    def halt(self) -> None:
        for cluster in self._clusters.values():
            cluster.loop.halt()

    def join(self, patience: float) -> bool:
        """Wait until all loops have come to their end; False when some have not."""
        end = time.monotonic() + patience
        for thread in self._threads():
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads())

    def close(self) -> None:
        for cluster in self._clusters.values():
            cluster.loop.workspace.close()

    def unready_reason(self, *, standby: bool = False) -> str:
        """Why requests should go elsewhere; empty when all is well. `standby`: not because another replica is
        known to lead."""
        if why := self.stuck_reason():
            return why
        following = {name: each for name, each in self._clusters.items() if not each.loop.leads()}
        if following and not standby:
            return f"another replica leads {', '.join(following)}"
        if unled := [name for name, cluster in following.items() if not cluster.loop.leader()]:
            return f"nobody is known to lead {', '.join(unled)}"
        led = {name: each for name, each in self._clusters.items() if name not in following}
        waiting = [name for name, cluster in led.items() if not cluster.observed_here]
        if waiting:
            return f"no pass yet of {', '.join(waiting)}"
        blind = [name for name, cluster in led.items() if cluster.good is None]
        return f"nothing could be seen of {', '.join(blind)}" if blind else ""

    def stuck_reason(self) -> str:
        """Why this process should be started anew; empty when all is well."""
        if self.broken:
            return f"a loop broke: {type(self.broken[0]).__name__}"
        dead = [thread.name for thread in self._threads() if not thread.is_alive()]
        if dead:
            return f"ended: {', '.join(dead)}"
        pulses = {name: cluster.pulse for name, cluster in self._clusters.items()}
        return stuck_loops(pulses, self._stuck_after)

    def _listen(self, cluster: ServedCluster) -> None:
        cluster.loop.stages = StageListeners([cluster.pulse, *self._stages])

    def _threads(self) -> Iterator[threading.Thread]:
        return (each.thread for each in self._clusters.values() if each.thread is not None)

    def _run(self, cluster: ServedCluster) -> None:
        try:
            cluster.loop.run()
        except BaseException as error:
            self.broken.append(error)
            self.halt()
            raise
