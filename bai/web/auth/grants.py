"""From what an identity provider or a proxy says of somebody to what they may."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bai.web.auth.roles import Given, Role, Somebody


@dataclass(frozen=True, slots=True)
class Claimed:
    """What is said of somebody. `claims`: all of it, where there is more."""

    user: str
    groups: frozenset[str] = frozenset()
    claims: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Grant:
    """A role for some users, or for members of some groups; for everybody when it names neither."""

    role: Role
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    projects: frozenset[str] | None = None
    projects_from: str = ""
    """The claim that lists the projects."""

    def given(self, claimed: Claimed) -> Given | None:
        """What it gives; None when it is not for them."""
        named = self.users or self.groups
        if named and claimed.user not in self.users and not self.groups & claimed.groups:
            return None
        if self.projects_from:
            return Given(self.role, texts(claim(claimed.claims, self.projects_from)))
        return Given(self.role, self.projects)


@dataclass(frozen=True, slots=True)
class Grants:
    """All that apply are given together."""

    grants: Sequence[Grant]

    def of(self, claimed: Claimed) -> Somebody:
        """Somebody without any role when none applies."""
        found = (grant.given(claimed) for grant in self.grants)
        return Somebody(claimed.user, tuple(each for each in found if each is not None))


def claim(claims: Mapping[str, object], path: str) -> object:
    """What stands at `realm_access.roles`, or under a name that has dots of its own; None for nothing."""
    if path in claims:
        return claims[path]
    found: object = claims
    for step in path.split("."):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def texts(value: object) -> frozenset[str]:
    """A list of texts, or one text; empty for anything else."""
    if isinstance(value, str):
        return frozenset({value})
    return (
        frozenset(item for item in value if isinstance(item, str)) if isinstance(value, list) else frozenset()
    )
