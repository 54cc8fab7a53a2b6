"""From what an identity provider or a proxy says of somebody to what they may."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bai.web.auth.roles import Principal, Role, RoleBinding


@dataclass(frozen=True, slots=True)
class Identity:
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

    def binding(self, identity: Identity) -> RoleBinding | None:
        """What it gives; None when it is not for them."""
        named = self.users or self.groups
        if named and identity.user not in self.users and not self.groups & identity.groups:
            return None
        if self.projects_from:
            return RoleBinding(self.role, string_set(find_claim(identity.claims, self.projects_from)))
        return RoleBinding(self.role, self.projects)


@dataclass(frozen=True, slots=True)
class Grants:
    """All that apply are given together."""

    grants: Sequence[Grant]

    def principal(self, identity: Identity) -> Principal:
        """Somebody without any role when none applies."""
        found = (grant.binding(identity) for grant in self.grants)
        return Principal(identity.user, tuple(each for each in found if each is not None))

    def needed_of(self, identity: Identity) -> Identity:
        """The same person, with no more groups and claims than are asked about here."""
        groups = {name for each in self.grants for name in each.groups}
        paths = {each.projects_from for each in self.grants if each.projects_from}
        claims = {path: sorted(string_set(find_claim(identity.claims, path))) for path in sorted(paths)}
        return Identity(identity.user, identity.groups & groups, claims)


def find_claim(claims: Mapping[str, object], path: str) -> object:
    """What stands at `realm_access.roles`, or under a name that has dots of its own; None for nothing."""
    if path in claims:
        return claims[path]
    found: object = claims
    for step in path.split("."):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def string_set(value: object) -> frozenset[str]:
    """A list of texts, or one text; empty for anything else."""
    if isinstance(value, str):
        return frozenset({value})
    return (
        frozenset(item for item in value if isinstance(item, str)) if isinstance(value, list) else frozenset()
    )
