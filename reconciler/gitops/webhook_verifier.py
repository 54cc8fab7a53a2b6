"""Messages of forges: whether one is true, and whether it says that a branch has moved. Pure.

Signatures are those that the forges document: GitHub, Bitbucket and (as a second header) Forgejo send
`X-Hub-Signature-256: sha256=<hex>`, Gitea and Forgejo `X-Gitea-Signature`/`X-Forgejo-Signature: <hex>`, an
HMAC-SHA-256 of the body; GitLab sends the secret itself in `X-Gitlab-Token`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Literal

from reconciler.gitops.rate_limit import Bucket, Senders

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
_MOVES = frozenset(
    {"push", "push hook", "tag push hook", "repo:push", "repo:refs_changed", "create", "delete"}
)

Verdict = Literal["moved", "ignored", "untrue", "again", "too often"]


class Message:
    """What one says, taken in as it comes: of its body only hashes are kept. Whatever it holds besides, the
    loop looks at the remote itself."""

    def __init__(self, secret: bytes, headers: Mapping[str, str]) -> None:
        """`headers` in any case."""
        self.headers = {name.lower(): value for name, value in headers.items()}
        self._secret = secret
        self._mac, self._hash = hmac.new(secret, digestmod=hashlib.sha256), hashlib.sha256()

    def add(self, part: bytes) -> None:
        """The next part of its body."""
        self._mac.update(part)
        self._hash.update(part)

    @property
    def may_be_true(self) -> bool:
        """Whether it can be signed, by its headers alone."""
        token = self.headers.get("x-gitlab-token")
        if token is not None:
            return hmac.compare_digest(token.encode(), self._secret)
        return bool(_signature(self.headers))

    @property
    def true(self) -> bool:
        """Whether it comes from who knows the secret, once it is here whole."""
        if not self.may_be_true or "x-gitlab-token" in self.headers:
            return self.may_be_true
        return hmac.compare_digest(_signature(self.headers), self._mac.hexdigest())

    @property
    def moved(self) -> bool:
        """Whether it says that a branch or tag has moved."""
        event = next((self.headers[name] for name in _EVENT if self.headers.get(name)), "")
        return event.lower() in _MOVES

    @property
    def names(self) -> list[str]:
        """By which a repeat is known. A copy with another id is still a copy: the id is not signed."""
        named = next((self.headers[name] for name in _DELIVERY if self.headers.get(name)), "")
        return [f"body {self._hash.hexdigest()}", *([f"id {named}"] if named else [])]


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

    def begin(self, headers: Mapping[str, str]) -> Message:
        """One that is coming. `headers` in any case."""
        return Message(self._secret, headers)

    def most(self, message: Message, sender: str, now: float) -> int:
        """Bytes of a message's body that are worth reading; 0 where its headers show that it is not signed.
        `sender`: the address that it comes from; `now` in seconds, only ever growing."""
        if not message.may_be_true:
            return 0
        return SMALL if self._wrong.full(sender, now) else LARGEST

    def judge(self, message: Message, sender: str, now: float) -> Verdict:
        """Of one that is here whole. `sender` and `now` as above."""
        if not message.true:
            return "untrue" if self._wrong.count(sender, now) else "too often"
        names = message.names
        if any(name in self._known for name in names):
            return "again"
        if not self._signed.count(now):
            return "too often"
        self._remember(names)
        return "moved" if message.moved else "ignored"

    def _remember(self, names: Iterable[str]) -> None:
        self._known.update(dict.fromkeys(names))
        while len(self._known) > 2 * REMEMBERED:
            self._known.popitem(last=False)


def _signature(headers: Mapping[str, str]) -> str:
    """64 hexadecimal digits; empty where there is no such signature."""
    for name in _SIGNED:
        if name in headers:
            kind, mark, value = headers[name].rpartition("=")
            value = value.strip().lower()
            return value if (not mark or kind == "sha256") and _HEX.fullmatch(value) else ""
    return ""
