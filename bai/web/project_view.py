"""What somebody of some projects gets to see: their own resources, and nothing that names another project's.

Names of clusters, nodes and resource groups are everybody's; what is written in their documents is not. Texts
(why a session waits, why it was stopped) may name others' sessions and quotas: those names are taken out of
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TypeVar, cast

from bai.web.auth.roles import Principal
from reconciler.controller.cycle import ReconcileCycle
from schemas.kinds.app_proxy import AppProxy
from schemas.kinds.quota import Quota
from schemas.kinds.tenancy import Project, User
from schemas.repository.repository import Repository
from schemas.values.envelope import Resource
from schemas.values.resource_ref import ref_of

PUBLIC_KINDS = frozenset({"Cluster", "Node", "ResourceGroup"})
"""Kinds of which everybody sees that there is one, and how it is."""
HIDDEN_NAME = "another project's"
_NAME = r"[A-Za-z0-9](?:[\w.-]*\w)?"
_IDENTITY = r"\b(?P<kind>[A-Z][A-Za-z]+)/[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*"
_SLOT = r"\.(?:device|shares|mig)\b"
T = TypeVar("T")


class ProjectView:
    """What `who` sees of a cluster, given all of its projects' names, the names of quotas that are others',
    and the domains of apps, which are everybody's whatever they are called like."""

    def __init__(
        self,
        user: Principal,
        projects: Iterable[str] = (),
        quotas: Iterable[str] = (),
        domains: Iterable[str] = (),
    ) -> None:
        self._mine = user.projects
        if self._mine is not None:
            names = (self._mine, set(projects) - self._mine, set(quotas), set(domains))
            self._names = _names_pattern(*(tuple(sorted(each, key=_longest_first)) for each in names))

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

    def knows(self, resource: Resource) -> bool:
        """Whether they may know that there is this document, and what names it: all but other projects, and
        what is theirs."""
        if self._mine is None or self.sees(resource.identity):
            return True
        if isinstance(resource, User):
            return not self._mine.isdisjoint(resource.spec.projects)
        if isinstance(resource, Quota):
            return resource.spec.subject.kind_and_name[0] not in ("project", "user")
        return not resource.project and not isinstance(resource, Project)

    def redact(self, value: T) -> T:
        """A text, or lists and mappings of them, without others' names."""
        return value if self._mine is None else cast(T, self._redacted(value))

    def _redacted(self, value: object) -> object:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return {self._key(key): self._redacted(item) for key, item in value.items()}
        return [self._redacted(item) for item in value] if isinstance(value, list | tuple) else value

    def _key(self, key: object) -> object:
        """Fields stay what they are called, whatever others call their projects: no mapping has names of
        projects alone as its keys."""
        return key if isinstance(key, str) and key.isalpha() else self._redacted(key)

    def _text(self, text: str) -> str:
        return self._names.sub(self._in_its_place, text)

    def _in_its_place(self, found: re.Match[str]) -> str:
        match found.lastgroup:
            case "kind":
                return found[0] if self.sees(found[0]) else f"{HIDDEN_NAME} {found['kind']}"
            case "mine" | "asked" | "domain":
                return found[0]
            case "quota":
                return f"{HIDDEN_NAME} quota"
            case _:
                return "another project"


def project_view_of(
    user: Principal, done: ReconcileCycle | None, existing: Iterable[str] = ()
) -> ProjectView:
    """What they see of what a pass saw."""
    if user.projects is None or done is None:
        return ProjectView(user)
    known = {project.name for project in done.repository.of(Project)}
    known |= {ref_of(identity).project for identity in existing} - {""}
    domains = [proxy.spec.domain for proxy in done.repository.of(AppProxy) if proxy.spec.domain]
    return ProjectView(user, known, _others_quotas(user.projects, done.repository), domains)


def _others_quotas(mine: frozenset[str], repository: Repository) -> Iterator[str]:
    for quota in repository.of(Quota):
        kind, name = quota.spec.subject.kind_and_name
        user = repository.user_of(name) if kind == "user" else None
        theirs = {name} if kind == "project" else user.spec.projects if user is not None else ()
        if kind in ("project", "user") and mine.isdisjoint(theirs):
            yield quota.name


def _longest_first(name: str) -> tuple[int, str]:
    return -len(name), name


@lru_cache(maxsize=64)
def _names_pattern(
    mine: tuple[str, ...], projects: tuple[str, ...], quotas: tuple[str, ...], domains: tuple[str, ...]
) -> re.Pattern[str]:
    """Finds identities; `PROJECT/NAME`, as people are told of a session, of their own; others' quotas; and
    others' projects, alone and as the first part of such a name. What is asked of a node (a GPU model, a
    label's key or value, a kind of device) is only what somebody has written themselves."""
    parts = [_IDENTITY, r"(?P<asked>has a GPU model [^;\n]*)"]
    if domains:
        parts.append(rf"(?P<domain>\.(?:{_any(domains)})(?![\w.-]))")
    if mine:
        parts.append(rf"(?<![\w-])(?P<mine>{_any(mine)})/{_NAME}")
    if quotas:
        parts.append(rf"(?<![\w-])(?P<quota>quota |Quota/)(?:{_any(quotas)})(?![\w-])")
    if projects:
        parts.append(rf"(?<![\w=-])(?P<project>{_any(projects)})(?:/{_NAME}|(?![\w=-]|{_SLOT}))")
    return re.compile("|".join(parts))


def _any(names: Iterable[str]) -> str:
    return "|".join(map(re.escape, names))
