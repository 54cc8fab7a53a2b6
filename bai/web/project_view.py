"""What somebody of some projects gets to see: their own resources, and nothing that names another project's.

Names of clusters, nodes and resource groups are everybody's; what is written in their documents is not. Texts
(why a session waits, why it was stopped) may name others' sessions: those names are taken out of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeVar, cast

from bai.web.auth.roles import Principal
from reconciler.controller.cycle import ReconcileCycle
from schemas.kinds.tenancy import Project
from schemas.values.resource_ref import ref_of

PUBLIC_KINDS = frozenset({"Cluster", "Node", "ResourceGroup"})
"""Kinds of which everybody sees that there is one, and how it is."""
HIDDEN_NAME = "another project's"
_NAME = r"[A-Za-z0-9](?:[\w.-]*\w)?"
_IDENTITY = re.compile(r"\b([A-Z][A-Za-z]+)/([A-Za-z0-9][\w.-]*)/([A-Za-z0-9][\w.-]*)")
T = TypeVar("T")


class ProjectView:
    """What `who` sees of a cluster, given all of its projects' names."""

    def __init__(self, user: Principal, projects: Iterable[str] = ()) -> None:
        self._mine = user.projects
        hidden = sorted(set(projects) - (self._mine or set()), key=lambda name: (-len(name), name))
        self._hidden = _names_pattern(tuple(hidden)) if self._mine is not None and hidden else None

    @property
    def sees_everything(self) -> bool:
        return self._mine is None

    def sees(self, identity: str) -> bool:
        """Whether a resource is theirs to read."""
        if self._mine is None:
            return True
        resource = ref_of(identity)
        return (resource.project or (resource.name if resource.kind == "Project" else "")) in self._mine

    def lists(self, identity: str) -> bool:
        """Whether they may know that it is there."""
        resource = ref_of(identity)
        return self.sees(identity) or (not resource.project and resource.kind in PUBLIC_KINDS)

    def redact(self, value: T) -> T:
        """A text, or lists and mappings of them, without others' names."""
        return value if self._mine is None else cast(T, self._redacted(value))

    def _redacted(self, value: object) -> object:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return {self._redacted(key): self._redacted(item) for key, item in value.items()}
        return [self._redacted(item) for item in value] if isinstance(value, list | tuple) else value

    def _text(self, text: str) -> str:
        named = _IDENTITY.sub(
            lambda found: found[0] if self.sees(found[0]) else f"{HIDDEN_NAME} {found[1]}", text
        )
        return self._hidden.sub("another project", named) if self._hidden else named


def project_view_of(
    user: Principal, done: ReconcileCycle | None, existing: Iterable[str] = ()
) -> ProjectView:
    """What they see of what a pass saw."""
    if user.projects is None or done is None:
        return ProjectView(user)
    known = {project.name for project in done.repository.of(Project)}
    known |= {ref_of(identity).project for identity in existing} - {""}
    return ProjectView(user, known)


@lru_cache(maxsize=64)
def _names_pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Finds them, alone and as the first part of `PROJECT/NAME`, as people are told of a session."""
    return re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, names))})(?:/{_NAME}|(?![\w-]))")
