"""What somebody of some projects gets to see: their own resources, and nothing that names another project's.

Names of clusters, nodes and resource groups are everybody's; what is written in their documents is not. Texts
(why a session waits, why it was stopped) may name others' sessions: those names are taken out of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeVar, cast

from bai.web.auth.roles import Somebody
from reconciler.controller.cycle import Pass
from schemas.kinds.tenancy import Project

ROWS = frozenset({"Cluster", "Node", "ResourceGroup"})
"""Kinds of which everybody sees that there is one, and how it is."""
OTHERS = "another project's"
_NAMED = re.compile(r"\b([A-Z][A-Za-z]+)/([A-Za-z0-9][\w.-]*)/([A-Za-z0-9][\w.-]*)")
T = TypeVar("T")


class Sight:
    """What `who` sees of a cluster, given all of its projects' names."""

    def __init__(self, who: Somebody, projects: Iterable[str] = ()) -> None:
        self._mine = who.projects
        hidden = sorted(set(projects) - (self._mine or set()), key=lambda name: (-len(name), name))
        self._hidden = _any_of(tuple(hidden)) if self._mine is not None and hidden else None

    @property
    def everything(self) -> bool:
        return self._mine is None

    def sees(self, identity: str) -> bool:
        """Whether a resource is theirs to read."""
        if self._mine is None:
            return True
        parts = identity.split("/")
        if len(parts) == 2 and parts[0] == "Project":
            return parts[1] in self._mine
        return len(parts) == 3 and parts[1] in self._mine

    def lists(self, identity: str) -> bool:
        """Whether they may know that it is there."""
        return self.sees(identity) or (identity.count("/") == 1 and identity.partition("/")[0] in ROWS)

    def clear(self, value: T) -> T:
        """A text, or lists and mappings of them, without others' names."""
        return value if self._mine is None else cast(T, self._cleared(value))

    def _cleared(self, value: object) -> object:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return {self._cleared(key): self._cleared(item) for key, item in value.items()}
        return [self._cleared(item) for item in value] if isinstance(value, list | tuple) else value

    def _text(self, text: str) -> str:
        named = _NAMED.sub(lambda found: found[0] if self.sees(found[0]) else f"{OTHERS} {found[1]}", text)
        return self._hidden.sub("another project", named) if self._hidden else named


def sight_of(who: Somebody, done: Pass | None, existing: Iterable[str] = ()) -> Sight:
    """What they see of what a pass saw."""
    if who.projects is None or done is None:
        return Sight(who)
    known = {project.name for project in done.workspace.repository.of(Project)}
    known |= {parts[1] for identity in existing if len(parts := identity.split("/")) == 3}
    return Sight(who, known)


@lru_cache(maxsize=64)
def _any_of(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, names))})(?![\w-])")
