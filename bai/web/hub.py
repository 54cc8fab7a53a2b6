"""The loops of a server, what their latest passes saw, and who waits for news of them.

A pass is published whole by its loop's thread; requests only read what was published and the store. None of
them asks a provider but for logs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bai.web.etag_cache import Kept
from reconciler.controller.cycle import Pass
from reconciler.controller.loop import Loop
from reconciler.controller.stages import STUCK, Pulse, Several, Stages, hanging
from reconciler.gitops.directives import ask_to_look
from reconciler.notify.dispatcher import Herald


@dataclass
class Watched:
    """One cluster's loop. `latest` is the last pass, `good` the last one that saw everything it needed."""

    loop: Loop
    latest: Pass | None = None
    good: Pass | None = None
    thread: threading.Thread | None = None
    listeners: list[Callable[[Pass], None]] = field(default_factory=list)
    pulse: Pulse = field(default_factory=Pulse)
    herald: Herald | None = None
    """Who tells people what happens."""
    number: int = 0
    """How many passes were published."""
    kept: Kept = field(default_factory=Kept)
    """Answers that are the same from pass to pass."""
    read: Kept = field(default_factory=Kept)
    """Answers that rest on the store, too."""

    @property
    def name(self) -> str:
        return self.loop.workspace.cluster.name

    @property
    def looked(self) -> bool:
        """Whether this very loop made the last pass."""
        return self.latest is not None and not self.latest.by

    def wake(self) -> None:
        """Whoever leads looks at once: this loop, or another replica's, which hears of it through the store.
        Raises StoreError."""
        if self.loop.leads():
            self.loop.wake()
        else:
            ask_to_look(self.loop.workspace.store, self.name)

    def find(self, name: str) -> str:
        """The full name of a commit. Raises BaiError."""
        return self.loop.documents.find(name, self.loop.workspace, fresh=not self.loop.leads())

    def version(self) -> Hashable:
        """Changes with everything that answers are made of: passes, the store, who leads. Raises
        StoreError."""
        revision = self.loop.workspace.store.revision(self.name)
        return self.number, revision, self.loop.leads(), self.loop.leader()

    def publish(self, done: Pass) -> None:
        """A pass is over."""
        self.latest = done
        if done.plan is not None:
            self.good = done
        self.number += 1
        for listener in tuple(self.listeners):
            listener(done)


class Hub:
    """Clusters by name. `start` runs every loop in a thread of its own. A loop that is at work without a sign
    of life for `stuck_after` seconds is stuck. `stages` are told what loops are at."""

    def __init__(self, stuck_after: float = STUCK, stages: Sequence[Stages] = ()) -> None:
        self._clusters: dict[str, Watched] = {}
        self._stuck_after = stuck_after
        self._stages = list(stages)
        self.broken: list[BaseException] = []
        self.started = time.time()

    @property
    def clusters(self) -> Mapping[str, Watched]:
        return self._clusters

    def add(self, loop: Loop) -> None:
        """One more; its passes are to be told to `heard`."""
        watched = Watched(loop)
        self._clusters[watched.name] = watched
        self._listen(watched)

    def tell(self, stages: Stages) -> None:
        """One more who is told what loops are at; before they start."""
        self._stages.append(stages)
        for watched in self._clusters.values():
            self._listen(watched)

    def heard(self, done: Pass) -> None:
        """Called by the loops after each pass."""
        self._clusters[done.workspace.cluster.name].publish(done)

    def start(self) -> None:
        for watched in self._clusters.values():
            run = threading.Thread(
                target=self._run, args=(watched,), name=f"loop-{watched.name}", daemon=True
            )
            watched.thread = run
            run.start()

    def wake(self) -> None:
        """The remote has moved, or somebody asks: whoever leads looks at once. Raises StoreError."""
        for watched in self._clusters.values():
            watched.wake()

    def halt(self) -> None:
        for watched in self._clusters.values():
            watched.loop.halt()

    def join(self, patience: float) -> bool:
        """Wait until all loops have come to their end; False when some have not."""
        end = time.monotonic() + patience
        for thread in self._threads():
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads())

    def close(self) -> None:
        for watched in self._clusters.values():
            watched.loop.workspace.close()

    def unready(self) -> str:
        """Why requests should go elsewhere; empty when all is well."""
        if why := self.stuck():
            return why
        following = [name for name, watched in self._clusters.items() if not watched.loop.leads()]
        if following:
            return f"another replica leads {', '.join(following)}"
        waiting = [name for name, watched in self._clusters.items() if not watched.looked]
        if waiting:
            return f"no pass yet of {', '.join(waiting)}"
        blind = [name for name, watched in self._clusters.items() if watched.good is None]
        return f"nothing could be seen of {', '.join(blind)}" if blind else ""

    def stuck(self) -> str:
        """Why this process should be started anew; empty when all is well."""
        if self.broken:
            return f"a loop broke: {type(self.broken[0]).__name__}"
        dead = [thread.name for thread in self._threads() if not thread.is_alive()]
        if dead:
            return f"ended: {', '.join(dead)}"
        pulses = {name: watched.pulse for name, watched in self._clusters.items()}
        return hanging(pulses, self._stuck_after)

    def _listen(self, watched: Watched) -> None:
        watched.loop.stages = Several([watched.pulse, *self._stages])

    def _threads(self) -> Iterator[threading.Thread]:
        return (each.thread for each in self._clusters.values() if each.thread is not None)

    def _run(self, watched: Watched) -> None:
        try:
            watched.loop.run()
        except BaseException as error:
            self.broken.append(error)
            self.halt()
            raise
