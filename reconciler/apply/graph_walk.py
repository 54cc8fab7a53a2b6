"""Walking the graph: which part may start, and what cannot come about any more because of what failed. No
effects here."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.apply.action_graph import ActionPart


class GraphWalk:
    """The state of one walk over `parts` (id → part). A part starts when all before it succeeded."""

    def __init__(self, parts: Mapping[str, ActionPart]) -> None:
        self._parts = parts
        self._waiting = {part.id: set(part.after) for part in parts.values()}
        self._followers: dict[str, list[str]] = {}
        for part in parts.values():
            for before in part.after:
                self._followers.setdefault(before, []).append(part.id)
        self._ready = [part for part, after in self._waiting.items() if not after]

    def take_ready(self) -> list[ActionPart]:
        """Parts that may start now; each is given once."""
        ready, self._ready = self._ready, []
        for part in ready:
            del self._waiting[part]
        return [self._parts[part] for part in ready]

    def mark_succeeded(self, part: ActionPart) -> None:
        """Let what waits for this part come nearer."""
        for follower in self._followers.get(part.id, ()):
            after = self._waiting.get(follower)
            if after is not None:
                after.discard(part.id)
                if not after:
                    self._ready.append(follower)

    def mark_failed(self, part: ActionPart) -> list[ActionPart]:
        """Take out everything that depends on this part, directly or not: gives it, nearest first."""
        out: list[ActionPart] = []
        todo = [part.id]
        while todo:
            for follower in self._followers.get(todo.pop(0), ()):
                if self._waiting.pop(follower, None) is not None:
                    out.append(self._parts[follower])
                    todo.append(follower)
        return out
