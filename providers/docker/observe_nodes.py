"""What runs, asked of all nodes at the same time: one cheap list and the notes per node; a container is
inspected for what the list does not say, those that have ended only once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from providers.base import Claim, Labels, Observation, Observed
from providers.docker import notes
from providers.docker.container.gpu_share import ShareKeeper
from providers.docker.engine.engine import Engine
from providers.docker.engine.http import EngineRefusal
from providers.docker.events import was_out_of_memory
from providers.docker.fleet import Fleet
from providers.docker.image_naming import image_now
from providers.docker.notes import Note
from providers.docker.observe import exit_was_unobserved, kernel_id, labels_of, parse_container
from providers.docker.shared_cores import SharedCores
from schemas.problems.errors.provider import ProviderError

KILLED = "signal 9"
"""Why a kernel ended that was killed, as far as its container's state tells."""
_GONE = 404


@dataclass(frozen=True, slots=True)
class ObservedContainer:
    """One container: the engine's id of it and what it says."""

    container: str
    kernel: Observed


@dataclass(frozen=True, slots=True)
class NodeObservation:
    """What one node shows. `unlabelled`: ids of kernels without readable labels; `claimed`: kernel →
    container, of those that were made for other nodes."""

    kernels: list[ObservedContainer]
    unlabelled: list[str]
    claimed: Mapping[str, str]


def _is_copy(each: Mapping[str, Any], listed: list[dict[str, Any]]) -> bool:
    """Whether it bears the labels of another one: somebody copied them. The one that is named so is meant."""
    kernel = kernel_id(each)
    if f"/{kernel}" in (each.get("Names") or ()):
        return False
    return any(kernel_id(other) == kernel and other["Id"] != each["Id"] for other in listed)


class FleetObserver:
    """Looks at the engines of a fleet. May be used by several threads."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.cores = {
            node: SharedCores(engine, partial(self._observe_node, engine))
            for node, engine in fleet.engines.items()
        }
        self._ended: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._killed: dict[tuple[str, str], tuple[datetime | None, bool]] = {}
        """When it ended, and whether for want of memory."""
        self._booted: dict[str, float] = {}
        self.share_keeper = ShareKeeper()

    def observe(self) -> Observation:
        """Everything; nodes that cannot be asked are named with the reason."""
        found, unreachable = self._fleet.ask_all(self._observe_node, proves=True)
        everything = [each for node in found.values() for each in node.kernels]
        # An id that another node's container has, too, is no reason to leave that one out.
        kernels = {
            (each.container, each.kernel.labels.node, each.kernel.id): each.kernel for each in everything
        }
        containers = {each.container for each in everything}
        for name, node in found.items():
            self._fleet.record_location({each.kernel.id: name for each in node.kernels})
        return Observation(
            tuple(sorted(kernels.values(), key=lambda kernel: kernel.id)),
            unlabelled=tuple(sorted({name for node in found.values() for name in node.unlabelled})),
            # Two nodes may be one engine: then a kernel is on the one that it was made for.
            claimed=tuple(
                Claim(kernel, name)
                for name, node in found.items()
                for kernel, container in node.claimed.items()
                if container not in containers
            ),
            unreachable=unreachable,
        )

    def observe_kernel(self, engine: Engine, kernel: str, found: Mapping[str, Any], *, new: bool) -> Observed:
        """A kernel from its inspected container; nothing is noted yet about a new one. Raises ProviderError,
        EngineRefusal, OSError."""
        labels = labels_of(found["Config"])
        if labels is None:
            why = f"node {engine.node}: {kernel} has no readable labels"
            raise ProviderError(provider="docker", why=why)
        noted = {} if new else notes.parse_notes(notes.list_notes(engine, kernel))
        return self._apply_note(engine, labels, found, noted.get(found["Id"], Note()))

    def _observe_node(self, engine: Engine) -> NodeObservation:
        """What is on one node."""
        changes = self.cores[engine.node].changes
        listed = engine.containers()
        self._fleet.poll.heard()
        self.share_keeper.revive_daemons(engine, listed)
        noted = notes.parse_notes(notes.list_notes(engine)) if listed else {}
        seen: list[ObservedContainer] = []
        unlabelled: list[str] = []
        claimed: dict[str, str] = {}
        for each in listed:
            self._fleet.poll.heard()
            labels = labels_of(each)
            if labels is None or _is_copy(each, listed):
                unlabelled.append(kernel_id(each))
                continue
            found = self._inspect(engine, each)
            if found is not None:
                kernel = self._apply_note(engine, labels, found, noted.get(each["Id"], Note()))
                if not self._fleet.may_be_made_for(kernel.labels.node, engine.node):
                    claimed[kernel.id] = each["Id"]
                    continue
                if kernel.state == "running":
                    kernel = replace(kernel, image_now=image_now(engine, each, kernel.image))
                seen.append(ObservedContainer(each["Id"], kernel))
        self._forget_missing(engine, {each["Id"] for each in listed})
        self.cores[engine.node].update((each.kernel for each in seen), changes)
        return NodeObservation(seen, unlabelled, claimed)

    def _inspect(self, engine: Engine, listed: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """None when it has gone meanwhile. What has ended stays as it is until it is started again, which the
        list's words for its state would show: `Exited (0)`."""
        key = (engine.node, listed["Id"])
        kept = self._ended.get(key)
        if kept is not None and listed["State"] == kept["State"]["Status"]:
            return kept
        try:
            found = engine.inspect(listed["Id"])
        except EngineRefusal as refusal:
            if refusal.status == _GONE:
                return None
            raise
        if found["State"]["Status"] == "exited":
            self._ended[key] = found
        else:
            self._ended.pop(key, None)
        return found

    def _forget_missing(self, engine: Engine, there: set[str]) -> None:
        for key in [key for key in list(self._ended) if key[0] == engine.node and key[1] not in there]:
            self._ended.pop(key, None)
        for key in [key for key in list(self._killed) if key[0] == engine.node and key[1] not in there]:
            self._killed.pop(key, None)

    def _apply_note(self, engine: Engine, labels: Labels, found: Mapping[str, Any], note: Note) -> Observed:
        kernel = parse_container(kernel_id(found["Config"]), note.labels or labels, found)
        if kernel.state == "exited" and note.ended(kernel.started, kernel.finished):
            return replace(kernel, reason="stopped")
        if kernel.reason == KILLED and kernel.memory and self._was_out_of_memory(engine, found, kernel):
            return replace(kernel, reason="out-of-memory")
        if exit_was_unobserved(found) and self._was_rebooted(engine, kernel):
            return replace(kernel, state="lost", exit_code=None, reason="its node was restarted")
        return kernel

    def _was_out_of_memory(self, engine: Engine, found: Mapping[str, Any], kernel: Observed) -> bool:
        """Of a kernel that was killed, as its engine may have heard of only after its end."""
        if kernel.started is None or kernel.finished is None:
            return False
        key = (engine.node, found["Id"])
        finished, oom = self._killed.get(key, (None, False))
        if finished != kernel.finished:
            oom = was_out_of_memory(engine, found["Id"], kernel.started, kernel.finished)
            self._killed[key] = (kernel.finished, oom)
        return oom

    def _was_rebooted(self, engine: Engine, kernel: Observed) -> bool:
        """Whether its node has been started since it was: engines cannot tell what ended such a kernel."""
        if engine.node not in self._booted:
            try:
                words = engine.machine.get("/proc/stat").decode(errors="replace").split()
            except (ProviderError, OSError):
                return False  # Whoever reaches only the engine takes it for the program's own end.
            self._booted[engine.node] = float(words[words.index("btime") + 1])
        return kernel.started is not None and kernel.started.timestamp() < self._booted[engine.node]
