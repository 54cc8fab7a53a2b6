"""Messages of forges: whether one is true, and whether it says that a branch has moved. Pure.

Signatures are those that the forges document: GitHub, Bitbucket and (as a second header) Forgejo send
`X-Hub-Signature-256: sha256=<hex>`, Gitea and Forgejo `X-Gitea-Signature`/`X-Forgejo-Signature: <hex>`, an
HMAC-SHA-256 of the body; GitLab sends the secret itself in `X-Gitlab-Token`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from reconciler.gitops.bounds import Bucket, Senders

LARGEST = 8 * 2**20
"""Bytes of a message that are read."""
SMALL = 256 * 2**10
"""The same of a sender who has sent too much that was not signed."""
WRONG_RATE, WRONG_BURST = 1.0, 20
"""Messages a second, and at once, that one sender may send without a signature."""
REMEMBERED = 10_000
"""Deliveries that are known again."""
_SIGNED = (
    "x-hub-signature-256",
    "x-gitea-signature",
    "x-forgejo-signature",
    "x-gogs-signature",
    "x-hub-signature",
)
_HEX = re.compile(r"[0-9a-f]{64}")
_DELIVERY = (
    "x-github-delivery", "x-gitea-delivery", "x-forgejo-delivery", "x-gitlab-event-uuid", "x-request-uuid",
)  # fmt: skip
_EVENT = ("x-github-event", "x-gitea-event", "x-forgejo-event", "x-gitlab-event", "x-event-key")

Verdict = Literal["moved", "ignored", "untrue", "again", "too often"]


@dataclass(frozen=True, slots=True)
class Heard:
    """What came of a message. `refs`: what has moved, as `refs/heads/main`; empty where it does not say."""

    verdict: Verdict
    refs: tuple[str, ...] = ()


class Ears:
    """Judges messages that are signed with `secret`. Of those that are, at most `burst` count at once and
    `rate` a second over time; repeats, known by their delivery's id and by their body, do not count.

    What is not signed never stands in the way of what is: each sender has a bound of its own for it, and may,
    being over it, still send what is signed and no larger than `SMALL`.
    """

    def __init__(self, secret: str, *, rate: float = 5.0, burst: int = 50) -> None:
        if not secret:
            raise ValueError("a webhook needs a secret")
        self._secret = secret.encode()
        self._signed = Bucket(rate, burst)
        self._wrong = Senders(WRONG_RATE, WRONG_BURST)
        self._known: OrderedDict[str, None] = OrderedDict()

    def most(self, headers: Mapping[str, str], sender: str, now: float) -> int:
        """Bytes of a message's body that are worth reading; 0 where its headers show that it is not signed.
        `headers` in any case; `now` in seconds, only ever growing."""
        if not may_be_true(self._secret, _lower(headers)):
            return 0
        return SMALL if self._wrong.full(sender, now) else LARGEST

    def hear(self, headers: Mapping[str, str], body: bytes, now: float, sender: str = "") -> Heard:
        """`headers` in any case; `now` as above; `sender`: the address that it comes from."""
        found = _lower(headers)
        if not true(self._secret, found, body):
            return Heard("untrue" if self._wrong.count(sender, now) else "too often")
        names = _names(found, body)
        if any(name in self._known for name in names):
            return Heard("again")
        if not self._signed.count(now):
            return Heard("too often")
        self._remember(names)
        moved, refs = _moved(found, body)
        return Heard("moved" if moved else "ignored", refs)

    def _remember(self, names: Iterable[str]) -> None:
        self._known.update(dict.fromkeys(names))
        while len(self._known) > 2 * REMEMBERED:
            self._known.popitem(last=False)


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _names(headers: Mapping[str, str], body: bytes) -> list[str]:
    """By which a repeat is known. A copy with another id is still a copy: the id is not signed."""
    named = next((headers[name] for name in _DELIVERY if headers.get(name)), "")
    return [f"body {hashlib.sha256(body).hexdigest()}", *([f"id {named}"] if named else [])]


def may_be_true(secret: bytes, headers: Mapping[str, str]) -> bool:
    """Whether a message can be signed, by its headers (names in lower case) alone."""
    token = headers.get("x-gitlab-token")
    if token is not None:
        return hmac.compare_digest(token.encode(), secret)
    return bool(_signature(headers))


def true(secret: bytes, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether a message comes from who knows the secret. `headers` with lower-case names."""
    if not may_be_true(secret, headers):
        return False
    if "x-gitlab-token" in headers:
        return True
    wanted = hmac.new(secret, body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(_signature(headers).encode(), wanted.encode())


def _signature(headers: Mapping[str, str]) -> str:
    """64 hexadecimal digits; empty where there is no such signature."""
    for name in _SIGNED:
        if name in headers:
            kind, mark, value = headers[name].rpartition("=")
            value = value.strip().lower()
            return value if (not mark or kind == "sha256") and _HEX.fullmatch(value) else ""
    return ""


def _moved(headers: Mapping[str, str], body: bytes) -> tuple[bool, tuple[str, ...]]:
    event = next((headers[name] for name in _EVENT if headers.get(name)), "").lower()
    if event not in (
        "push",
        "push hook",
        "tag push hook",
        "repo:push",
        "repo:refs_changed",
        "create",
        "delete",
    ):
        return False, ()
    try:
        return True, tuple(_refs(json.loads(body)))
    except ValueError:
        return True, ()


def _refs(message: Any) -> list[str]:
    """GitHub, GitLab, Gitea: `ref`; Bitbucket Cloud: `push.changes[].new`; Bitbucket Server:
    `changes[].refId`."""
    if not isinstance(message, dict):
        return []
    found = [message["ref"]] if isinstance(message.get("ref"), str) else []
    push = message.get("push")
    changes = push.get("changes") if isinstance(push, dict) else message.get("changes")
    for change in changes if isinstance(changes, list) else ():
        if not isinstance(change, dict):
            continue
        new = change.get("new") or change.get("old")
        if isinstance(change.get("refId"), str):
            found.append(change["refId"])
        elif isinstance(new, dict) and isinstance(new.get("name"), str):
            found.append(f"refs/{'tags' if new.get('type') == 'tag' else 'heads'}/{new['name']}")
    return found
