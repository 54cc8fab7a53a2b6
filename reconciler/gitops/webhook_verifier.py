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

from reconciler.gitops.rate_limit import SenderRateLimit, TokenBucket

MAX_BODY_BYTES = 8 * 2**20
"""Bytes of a message that are read."""
MAX_THROTTLED_BODY_BYTES = 256 * 2**10
"""The same of a sender who has sent too much that was not signed."""
UNSIGNED_RATE, UNSIGNED_BURST = 1.0, 20
"""Messages a second, and at once, that one sender may send without a signature."""
MAX_REMEMBERED = 10_000
"""Deliveries that are known again."""
_SIGNATURE_HEADERS = (
    "x-hub-signature-256",
    "x-gitea-signature",
    "x-forgejo-signature",
    "x-gogs-signature",
    "x-hub-signature",
)
_SHA256_HEX = re.compile(r"[0-9a-f]{64}")
_DELIVERY_HEADERS = (
    "x-github-delivery", "x-gitea-delivery", "x-forgejo-delivery", "x-gitlab-event-uuid", "x-request-uuid",
)  # fmt: skip
_EVENT_HEADERS = ("x-github-event", "x-gitea-event", "x-forgejo-event", "x-gitlab-event", "x-event-key")
_PUSH_EVENTS = frozenset(
    {"push", "push hook", "tag push hook", "repo:push", "repo:refs_changed", "create", "delete"}
)

WebhookVerdict = Literal["moved", "ignored", "untrue", "again", "too often"]


class WebhookMessage:
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
    def may_be_signed(self) -> bool:
        """Whether it can be signed, by its headers alone."""
        token = self.headers.get("x-gitlab-token")
        if token is not None:
            return hmac.compare_digest(token.encode(), self._secret)
        return bool(_read_signature(self.headers))

    @property
    def is_authentic(self) -> bool:
        """Whether it comes from who knows the secret, once it is here whole."""
        if not self.may_be_signed or "x-gitlab-token" in self.headers:
            return self.may_be_signed
        return hmac.compare_digest(_read_signature(self.headers), self._mac.hexdigest())

    @property
    def is_push(self) -> bool:
        """Whether it says that a branch or tag has moved."""
        event = next((self.headers[name] for name in _EVENT_HEADERS if self.headers.get(name)), "")
        return event.lower() in _PUSH_EVENTS

    @property
    def delivery_ids(self) -> list[str]:
        """By which a repeat is known. A copy with another id is still a copy: the id is not signed."""
        named = next((self.headers[name] for name in _DELIVERY_HEADERS if self.headers.get(name)), "")
        return [f"body {self._hash.hexdigest()}", *([f"id {named}"] if named else [])]


class WebhookVerifier:
    """Judges messages that are signed with `secret`. Of those that are, at most `burst` count at once and
    `rate` a second over time; repeats, known by their delivery's id and by their body, do not count.

    What is not signed never stands in the way of what is: each sender has a bound of its own for it, and may,
    being over it, still send what is signed and no larger than `MAX_THROTTLED_BODY_BYTES`.
    """

    def __init__(self, secret: str, *, rate: float = 5.0, burst: int = 50) -> None:
        if not secret:
            raise ValueError("a webhook needs a secret")
        self._secret = secret.encode()
        self._signed = TokenBucket(rate, burst)
        self._unsigned = SenderRateLimit(UNSIGNED_RATE, UNSIGNED_BURST)
        self._delivered: OrderedDict[str, None] = OrderedDict()

    def receive(self, headers: Mapping[str, str]) -> WebhookMessage:
        """One that is coming. `headers` in any case."""
        return WebhookMessage(self._secret, headers)

    def max_body_bytes(self, message: WebhookMessage, sender: str, now: float) -> int:
        """Bytes of a message's body that are worth reading; 0 where its headers show that it is not signed.
        `sender`: the address that it comes from; `now` in seconds, only ever growing."""
        if not message.may_be_signed:
            return 0
        return MAX_THROTTLED_BODY_BYTES if self._unsigned.is_exhausted(sender, now) else MAX_BODY_BYTES

    def verify(self, message: WebhookMessage, sender: str, now: float) -> WebhookVerdict:
        """Of one that is here whole. `sender` and `now` as above."""
        if not message.is_authentic:
            return "untrue" if self._unsigned.take(sender, now) else "too often"
        names = message.delivery_ids
        if any(name in self._delivered for name in names):
            return "again"
        if not self._signed.take(now):
            return "too often"
        self._remember(names)
        return "moved" if message.is_push else "ignored"

    def _remember(self, names: Iterable[str]) -> None:
        self._delivered.update(dict.fromkeys(names))
        while len(self._delivered) > 2 * MAX_REMEMBERED:
            self._delivered.popitem(last=False)


def _read_signature(headers: Mapping[str, str]) -> str:
    """64 hexadecimal digits; empty where there is no such signature."""
    for name in _SIGNATURE_HEADERS:
        if name in headers:
            kind, mark, value = headers[name].rpartition("=")
            value = value.strip().lower()
            return value if (not mark or kind == "sha256") and _SHA256_HEX.fullmatch(value) else ""
    return ""
