"""What a person has told the loop: stay at a commit, change nothing for a while, this commit may be carried
out. Kept in the store, until it is taken back; every order stands in the audit."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import Literal

from reconciler.store import Store
from reconciler.values.records import Audit

Order = Literal["pin", "suspend", "approve"]
_TAKEN_BACK = {"pin": "unpin", "suspend": "resume", "approve": "disapprove"}


@dataclass(frozen=True, slots=True)
class Told:
    """One order: by whom, when, why. `commit` of a pin or an approval."""

    actor: str
    at: float
    why: str = ""
    commit: str = ""


@dataclass(frozen=True, slots=True)
class Orders:
    """What holds for one cluster now; None: nothing."""

    pin: Told | None = None
    suspend: Told | None = None
    approve: Told | None = None
    look: str = ""
    """Changes whenever somebody wants the loop to look now."""


def orders(store: Store, cluster: str) -> Orders:
    """What holds now."""
    keys = {kind: _key(cluster, kind) for kind in (*_TAKEN_BACK, "look")}
    found = store.metas(list(keys.values()))
    pin, suspend, approve = (_told(found.get(keys[kind])) for kind in ("pin", "suspend", "approve"))
    return Orders(pin, suspend, approve, found.get(keys["look"], ""))


def suspended(store: Store, cluster: str) -> Told | None:
    """Who has the loop change nothing now, if somebody does."""
    return _told(store.meta(_key(cluster, "suspend")))


def give(store: Store, cluster: str, order: Order, told: Told) -> None:
    """From now on it holds, instead of an earlier one of its kind."""
    words = {"actor": told.actor, "at": told.at, "why": told.why, "commit": told.commit}
    store.order(_key(cluster, order), json.dumps(words), cluster, _entry(order, told))


def take_back(store: Store, cluster: str, order: Order, told: Told) -> bool:
    """It holds no longer; False when it did not."""
    if store.meta(_key(cluster, order)) is None:
        return False
    store.order(_key(cluster, order), None, cluster, _entry(_TAKEN_BACK[order], told))
    return True


def ask_to_look(store: Store, cluster: str) -> None:
    """Whichever loop leads the cluster, wherever it runs, looks at once."""
    store.order(_key(cluster, "look"), secrets.token_hex(8), cluster)


def _told(found: str | None) -> Told | None:
    return Told(**json.loads(found)) if found else None


def _key(cluster: str, order: str) -> str:
    return f"order/{order}/{cluster}"


def _entry(verb: str, told: Told) -> Audit:
    return Audit(verb, "", told.at, told.why, told.actor, commit=told.commit)
