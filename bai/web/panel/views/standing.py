"""What holds of a cluster now: orders of people, and what its documents wait for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.render.humanize import iso_time
from bai.web.auth.roles import Role
from reconciler.controller.pass_note import read_pass_note

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bai.web.cluster_loops import ServedCluster
    from bai.web.panel.access.visitor import Visitor
    from bai.web.pass_view import PassView
    from reconciler.gitops.directives import Directive

_SIGNS = ("approval-needed", "documents-refused", "documents-unreachable")


@dataclass(frozen=True, slots=True)
class Powers:
    """Which orders somebody may give."""

    orders: bool
    rollback: bool

    @classmethod
    def of(cls, visitor: Visitor) -> Powers:
        principal = visitor.principal
        return cls(principal.may(Role.operator), principal.may(Role.admin))


@dataclass(frozen=True, slots=True)
class OrderInForce:
    """An order that somebody has given; `at` as ISO 8601, `commit` empty where it is about none."""

    actor: str
    at: str
    why: str
    commit: str


@dataclass(frozen=True, slots=True)
class Standing:
    """`commit`: whose documents are in force, empty for a folder's files. `waits`: why what is newer is not,
    in sentences, where notes above the page do not say so."""

    commit: str
    suspended: OrderInForce | None
    held: OrderInForce | None
    approved: OrderInForce | None
    waits: tuple[str, ...]


def standing_of(view: PassView, cluster: ServedCluster) -> Standing:
    """Raises StoreError."""
    found, signs = view.directives, _signs(cluster)
    noted = cluster.latest.notes if cluster.latest is not None else ()
    return Standing(
        commit=cluster.loop.workspace.commit,
        suspended=_order(found.suspend),
        held=_order(found.pin),
        approved=_order(found.approve),
        waits=tuple(signs[each] for each in _SIGNS if signs.get(each, "") not in ("", *noted)),
    )


def _signs(cluster: ServedCluster) -> Mapping[str, str]:
    """What the last pass told of its documents, whichever replica made it."""
    if cluster.observed_here and cluster.latest is not None:
        return cluster.latest.signs
    note = read_pass_note(cluster.loop.workspace.store, cluster.name)
    return note.signs if note is not None else {}


def _order(told: Directive | None) -> OrderInForce | None:
    return OrderInForce(told.actor, iso_time(told.at), told.why, told.commit) if told is not None else None
