"""What a person has told the loop: stay at a commit, change nothing for a while, this commit may be carried
out. Kept in the store, until it is taken back; every order stands in the audit."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from reconciler.values.records import Audit

if TYPE_CHECKING:
    from reconciler.store.reader import StoreReader
    from reconciler.store.store import Store

DirectiveKind = Literal["pin", "suspend", "approve"]
_WITHDRAWAL_VERBS = {"pin": "unpin", "suspend": "resume", "approve": "disapprove"}


@dataclass(frozen=True, slots=True)
class Directive:
    """One order: by whom, when, why. `commit` of a pin or an approval."""

    actor: str
    at: float
    why: str = ""
    commit: str = ""


@dataclass(frozen=True, slots=True)
class Directives:
    """What holds for one cluster now; None: nothing."""

    pin: Directive | None = None
    suspend: Directive | None = None
    approve: Directive | None = None
    reconcile_request: str = ""
    """Changes whenever somebody wants the loop to look now."""


def read_directives(store: StoreReader, cluster: str) -> Directives:
    """What holds now."""
    keys = {kind: _directive_key(cluster, kind) for kind in (*_WITHDRAWAL_VERBS, "look")}
    found = store.read_metas(list(keys.values()))
    pin, suspend, approve = (
        _parse_directive(found.get(keys[kind])) for kind in ("pin", "suspend", "approve")
    )
    return Directives(pin, suspend, approve, found.get(keys["look"], ""))


def read_suspension(store: StoreReader, cluster: str) -> Directive | None:
    """Who has the loop change nothing now, if somebody does."""
    return _parse_directive(store.meta(_directive_key(cluster, "suspend")))


def issue_directive(store: Store, cluster: str, order: DirectiveKind, told: Directive) -> None:
    """From now on it holds, instead of an earlier one of its kind."""
    words = {"actor": told.actor, "at": told.at, "why": told.why, "commit": told.commit}
    store.record_directive(
        _directive_key(cluster, order), json.dumps(words), cluster, _audit_entry(order, told)
    )


def withdraw_directive(store: Store, cluster: str, order: DirectiveKind, told: Directive) -> bool:
    """It holds no longer; False when it did not."""
    if store.meta(_directive_key(cluster, order)) is None:
        return False
    store.record_directive(
        _directive_key(cluster, order), None, cluster, _audit_entry(_WITHDRAWAL_VERBS[order], told)
    )
    return True


def request_reconcile(store: Store, cluster: str) -> None:
    """Whichever loop leads the cluster, wherever it runs, looks at once."""
    store.record_directive(_directive_key(cluster, "look"), secrets.token_hex(8), cluster)


def _parse_directive(found: str | None) -> Directive | None:
    return Directive(**json.loads(found)) if found else None


def _directive_key(cluster: str, order: str) -> str:
    return f"order/{order}/{cluster}"


def _audit_entry(verb: str, told: Directive) -> Audit:
    return Audit(verb, "", told.at, told.why, told.actor, commit=told.commit)
