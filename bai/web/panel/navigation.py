"""Which pages of a cluster are always at hand, in groups, and for whom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bai.web.auth.roles import Principal, Role
from bai.web.panel.links import path


@dataclass(frozen=True, slots=True)
class NavItem:
    """A page. `key`: `g` and this letter lead there."""

    href: str
    label: str
    key: str
    active: bool


@dataclass(frozen=True, slots=True)
class NavGroup:
    """Pages about one thing; without a label for the first group."""

    label: str
    items: tuple[NavItem, ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    """`part`: of the address. `role`: which it takes for all projects; None: a role for any of them."""

    part: str
    label: str
    key: str
    role: Role | None = None


_GROUPS = (
    ("", (
        _Entry("", "Cluster", "c"),
        _Entry("nodes", "Nodes", "n"),
        _Entry("queue", "Queue", "q"),
        _Entry("sessions", "Sessions", "s"),
        _Entry("new", "New session", "w"),
    )),
    ("Changes", (
        _Entry("plan", "Plan", "p", Role.viewer),
        _Entry("reviews", "Reviews", "v", Role.viewer),
        _Entry("history", "History", "h", Role.viewer),
        _Entry("events", "Events", "e"),
        _Entry("audit", "Audit", "a"),
    )),
    ("Numbers", (
        _Entry("numbers", "Over time", "o"),
        _Entry("usage", "Usage", "u"),
        _Entry("capacity", "Capacity", "f"),
    )),
    ("Administration", (
        _Entry("projects", "Projects", "j"),
        _Entry("users", "Users", "w"),
        _Entry("groups", "Groups", "d"),
        _Entry("waves", "Provisioning", "v", Role.viewer),
        _Entry("storage", "Storage", "k"),
        _Entry("images", "Images", "i"),
        _Entry("notifications", "Notifications", "b", Role.viewer),
        _Entry("resources", "Resources", "r"),
    )),
)  # fmt: skip


def nav_groups(cluster: str, page: str, user: Principal) -> tuple[NavGroup, ...]:
    """For who looks at `page`, the first part of an address below the cluster's; groups without a page are
    left out."""
    made = (NavGroup(label, tuple(_items(cluster, page, user, entries))) for label, entries in _GROUPS)
    return tuple(group for group in made if group.items)


def _items(cluster: str, page: str, user: Principal, entries: tuple[_Entry, ...]) -> Iterator[NavItem]:
    for entry in entries:
        if entry.role is None or user.may(entry.role):
            href = path("clusters", cluster, *filter(None, (entry.part,)))
            yield NavItem(href, entry.label, entry.key, entry.part == page)
