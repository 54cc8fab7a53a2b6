"""Messages as the forges send them, true and forged."""

from __future__ import annotations

import hashlib
import hmac
import json

import pytest

from reconciler.gitops.rate_limit import MAX_SENDERS, SenderRateLimit
from reconciler.gitops.webhook_verifier import (
    MAX_BODY_BYTES,
    MAX_THROTTLED_BODY_BYTES,
    UNSIGNED_BURST,
    WebhookVerifier,
)

SECRET = "a shared secret"
PUSH = json.dumps({"ref": "refs/heads/main", "after": "1" * 40}).encode()
BITBUCKET = json.dumps({"push": {"changes": [{"new": {"type": "branch", "name": "main"}}]}}).encode()
SERVER = json.dumps({"changes": [{"refId": "refs/heads/main"}, "odd", {"refId": 3}]}).encode()


def signed(body: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def hear(ears: WebhookVerifier, headers: dict[str, str], body: bytes, now: float, sender: str = "") -> str:
    """Its verdict, of a message in pieces."""
    message = ears.receive(headers)
    for start in range(0, len(body), 7):
        message.add(body[start : start + 7])
    return ears.verify(message, sender, now)


def most(ears: WebhookVerifier, headers: dict[str, str], sender: str, now: float) -> int:
    return ears.max_body_bytes(ears.receive(headers), sender, now)


FORGES = {
    "github": ({"X-GitHub-Event": "push", "X-Hub-Signature-256": f"sha256={signed(PUSH)}"}, PUSH),
    "gitea": ({"X-Gitea-Event": "push", "X-Gitea-Signature": signed(PUSH)}, PUSH),
    "forgejo": ({"X-Forgejo-Event": "push", "X-Forgejo-Signature": signed(PUSH)}, PUSH),
    "gitlab": ({"X-Gitlab-Event": "Push Hook", "X-Gitlab-Token": SECRET}, PUSH),
    "bitbucket": ({"X-Event-Key": "repo:push", "X-Hub-Signature": f"sha256={signed(BITBUCKET)}"}, BITBUCKET),
    "bitbucket server": (
        {"X-Event-Key": "repo:refs_changed", "X-Hub-Signature": f"sha256={signed(SERVER)}"},
        SERVER,
    ),
}


@pytest.mark.parametrize("forge", FORGES)
def test_a_push_is_heard(forge: str) -> None:
    headers, body = FORGES[forge]
    assert hear(WebhookVerifier(SECRET), headers, body, 1.0) == "moved"


@pytest.mark.parametrize("forge", FORGES)
def test_another_secret_is_not_believed(forge: str) -> None:
    headers, body = FORGES[forge]
    assert hear(WebhookVerifier("another"), headers, body, 1.0) == "untrue"


@pytest.mark.parametrize("forge", [name for name in FORGES if name != "gitlab"])
def test_a_changed_body_is_not_believed(forge: str) -> None:
    headers, body = FORGES[forge]
    assert hear(WebhookVerifier(SECRET), headers, body + b" ", 1.0) == "untrue"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Hub-Signature-256": ""},
        {"X-Hub-Signature-256": "sha256="},
        {"X-Hub-Signature": "sha1=" + hmac.new(SECRET.encode(), PUSH, hashlib.sha1).hexdigest()},
        {"X-Hub-Signature-256": "sha256=ü"},
        {"X-Gitlab-Token": ""},
        {"X-Gitlab-Token": "ü"},
    ],
)
def test_what_is_not_signed_is_not_believed(headers: dict[str, str]) -> None:
    assert hear(WebhookVerifier(SECRET), {"X-GitHub-Event": "push", **headers}, PUSH, 1.0) == "untrue"


def test_a_message_counts_once() -> None:
    ears = WebhookVerifier(SECRET)
    headers, body = FORGES["github"]
    assert hear(ears, {**headers, "X-GitHub-Delivery": "1"}, body, 1.0) == "moved"
    assert hear(ears, {**headers, "X-GitHub-Delivery": "1"}, body, 2.0) == "again"
    # The id is not signed, so that a copy may have any.
    assert hear(ears, {**headers, "X-GitHub-Delivery": "2"}, body, 3.0) == "again"


def test_other_events_are_ignored() -> None:
    headers, body = FORGES["github"]
    assert hear(WebhookVerifier(SECRET), {**headers, "X-GitHub-Event": "ping"}, body, 1.0) == "ignored"


@pytest.mark.parametrize("body", [b"", b"nonsense", b"payload=%7B%7D", b"[" * 200_000])
def test_a_push_that_cannot_be_read_is_still_a_push(body: bytes) -> None:
    headers = {"X-GitHub-Event": "push", "X-Hub-Signature-256": f"sha256={signed(body)}"}
    assert hear(WebhookVerifier(SECRET), headers, body, 1.0) == "moved"


FORGED = {"X-GitHub-Event": "push", "X-Hub-Signature-256": f"sha256={'0' * 64}"}


def pushes(number: int) -> tuple[dict[str, str], bytes]:
    """A signed message like no other."""
    body = json.dumps({"ref": "refs/heads/main", "after": f"{number:040}"}).encode()
    return {"X-GitHub-Event": "push", "X-Hub-Signature-256": f"sha256={signed(body)}"}, body


def test_too_many_that_are_signed() -> None:
    ears = WebhookVerifier(SECRET, rate=1.0, burst=3)
    assert [hear(ears, *pushes(n), 10.0) for n in range(4)] == ["moved"] * 3 + ["too often"]
    # What was refused is no repeat when the forge sends it once more.
    assert hear(ears, *pushes(3), 10.5) == "too often"
    assert hear(ears, *pushes(3), 12.0) == "moved"


def test_repeats_do_not_use_up_the_bound() -> None:
    ears = WebhookVerifier(SECRET, rate=1.0, burst=2)
    verdicts = [hear(ears, *pushes(0), 10.0) for _ in range(100)]
    assert verdicts == ["moved"] + ["again"] * 99
    assert hear(ears, *pushes(1), 10.0) == "moved"


@pytest.mark.parametrize("sender", ["198.51.100.7", "192.0.2.1"])
def test_who_does_not_know_the_secret_shuts_nobody_out(sender: str) -> None:
    """Not even where the forge comes from the same address: behind one proxy all do."""
    ears = WebhookVerifier(SECRET)
    verdicts = [hear(ears, FORGED, PUSH, 10.0, "198.51.100.7") for _ in range(UNSIGNED_BURST + 50)]
    assert verdicts == ["untrue"] * UNSIGNED_BURST + ["too often"] * 50
    assert hear(ears, *pushes(0), 10.0, sender) == "moved"


def test_wrong_ones_are_counted_by_sender() -> None:
    ears = WebhookVerifier(SECRET)
    for _ in range(UNSIGNED_BURST):
        hear(ears, FORGED, PUSH, 10.0, "2001:db8::1")
    senders = ("2001:db8::2", "2001:db8:0:1::1", "192.0.2.1", "unknown")
    verdicts = [hear(ears, FORGED, PUSH, 10.0, sender) for sender in senders]
    assert verdicts == ["too often", "untrue", "untrue", "untrue"]
    assert hear(ears, FORGED, PUSH, 11.5, "2001:db8::1") == "untrue"


def test_how_much_is_read_of_whom() -> None:
    ears = WebhookVerifier(SECRET)
    assert most(ears, {}, "192.0.2.1", 10.0) == 0
    assert most(ears, {"X-Gitlab-Token": "another"}, "192.0.2.1", 10.0) == 0
    assert most(ears, {"X-Hub-Signature-256": "sha256=00"}, "192.0.2.1", 10.0) == 0
    assert most(ears, {"X-Gitlab-Token": SECRET}, "192.0.2.1", 10.0) == MAX_BODY_BYTES
    assert most(ears, FORGED, "192.0.2.1", 10.0) == MAX_BODY_BYTES
    for _ in range(UNSIGNED_BURST):
        hear(ears, FORGED, PUSH, 10.0, "192.0.2.1")
    assert most(ears, FORGED, "192.0.2.1", 10.0) == MAX_THROTTLED_BODY_BYTES
    assert most(ears, FORGED, "192.0.2.2", 10.0) == MAX_BODY_BYTES


def test_senders_are_not_remembered_without_end() -> None:
    senders = SenderRateLimit(1.0, 1)
    for number in range(MAX_SENDERS + 10):
        assert senders.take(f"host-{number}", 10.0)
    assert senders.is_exhausted(f"host-{MAX_SENDERS}", 10.0) and not senders.is_exhausted("host-0", 10.0)


def test_a_secret_is_needed() -> None:
    with pytest.raises(ValueError, match="secret"):
        WebhookVerifier("")


def test_a_storm_of_forged_messages_does_not_keep_true_ones_out() -> None:
    headers, body = FORGES["github"]
    ears = WebhookVerifier(SECRET, rate=1.0, burst=5)
    forged = {**headers, "X-Hub-Signature-256": "sha256=" + "0" * 64}
    for _ in range(100):
        assert hear(ears, forged, body, 1.0) != "moved"
    assert hear(ears, headers, body, 1.0) == "moved"
