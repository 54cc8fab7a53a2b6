"""Messages arrive at real servers, and no error has a secret in it."""

from __future__ import annotations

import hashlib
import hmac
import json
import ssl
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import Any

import pytest

from reconciler.notify.delivery import deliver
from reconciler.notify.message import build_message
from reconciler.notify.state import Batch
from schemas.problems.errors.notification import NotSent, NotSentNow
from tests.lab.stores import environment, reader
from tests.reconciler.notify.servers import certificate, hook, mail_server
from tests.reconciler.notify.support import news, notification


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, str]:
    return certificate(tmp_path_factory.mktemp("tls"))


def send(to: dict[str, Any], **secrets: str) -> str:
    made = notification(to=to)
    return deliver(made, build_message(made, Batch((news(1),))), lambda reference: secrets[reference[4:]])


def test_slack() -> None:
    with hook() as server:
        assert send({"slack": {"urlFrom": "env/HOOK"}}, HOOK=server.url + "\n") == "HTTP 200"
    (got,) = server.got
    assert (got.method, got.path) == ("POST", "/services/T0/B0/hidden")
    assert got.headers["Content-Type"].startswith("application/json")
    assert json.loads(got.body)["text"].startswith("*error: Session/vision/s1")


def test_http_with_headers_and_a_signature_over_tls(tls: tuple[ssl.SSLContext, str]) -> None:
    to = {
        "http": {
            "urlFrom": "env/HOOK", "method": "PUT", "headersFrom": {"Authorization": "env/AUTH"},
            "signatureFrom": "env/KEY", "caFrom": "env/CA",
        }
    }  # fmt: skip
    with hook(tls[0]) as server:
        assert (
            send(to, HOOK=server.url, AUTH="Bearer x\n", KEY="k3y", CA=Path(tls[1]).read_text()) == "HTTP 200"
        )
    (got,) = server.got
    signature = "sha256=" + hmac.new(b"k3y", got.body, hashlib.sha256).hexdigest()
    assert got.method == "PUT" and got.headers["Authorization"] == "Bearer x"
    assert got.headers["X-Bai-Signature"] == signature
    assert got.headers["X-Bai-Delivery"] == got.headers["Idempotency-Key"] == json.loads(got.body)["id"]


def test_a_certificate_that_is_not_trusted(tls: tuple[ssl.SSLContext, str]) -> None:
    with hook(tls[0]) as server, pytest.raises(NotSentNow, match="not trusted"):
        send({"http": {"urlFrom": "env/HOOK"}}, HOOK=server.url)
    assert server.got == []


@pytest.mark.parametrize(
    ("status", "headers", "error", "wait"),
    [
        (429, {"Retry-After": "30"}, NotSentNow, 30),
        (503, {"Retry-After": "soon"}, NotSentNow, 0),
        (404, {}, NotSent, None),
        (302, {"Location": "http://127.0.0.1:9/"}, NotSent, None),
    ],
)
def test_answers(status: int, headers: dict[str, str], error: type[Exception], wait: int | None) -> None:
    with hook() as server:
        server.answers.append((status, headers))
        with pytest.raises(error) as caught:
            send({"slack": {"urlFrom": "env/HOOK"}}, HOOK=server.url)
    assert isinstance(caught.value, NotSent | NotSentNow) and str(status) in str(caught.value)
    assert caught.value.fields.get("wait") == wait and "hidden" not in repr(caught.value.fields)
    assert len(server.got) == 1, "a redirection is not followed"


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:9/hidden", "ftp://hidden", "hidden", "http://[hidden", "http://hidden .example/"],
)
def test_no_error_tells_the_address(url: str) -> None:
    with pytest.raises((NotSent, NotSentNow)) as caught:
        send({"slack": {"urlFrom": "env/HOOK"}}, HOOK=url)
    told = f"{caught.value} {caught.value.fields} {caught.value.__cause__}"
    assert "hidden" not in told
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_a_header_with_a_line_break_is_refused() -> None:
    with pytest.raises(NotSent) as caught:
        to = {"http": {"urlFrom": "env/HOOK", "headersFrom": {"A": "env/A"}}}
        send(to, HOOK="http://127.0.0.1:9/", A="hidden\r\nB: c")
    assert "hidden" not in str(caught.value)


def test_a_secret_that_is_missing_may_come() -> None:
    made = notification(to={"slack": {"urlFrom": "env/BAI_TEST_NOT_SET"}})
    with pytest.raises(NotSentNow, match="env/BAI_TEST_NOT_SET"):
        deliver(
            made,
            build_message(made, Batch((news(1),))),
            reader(environment("BAI_TEST_NOT_SET")).for_infrastructure,
        )


def email(port: int, ca: str = "", **fields: Any) -> dict[str, Any]:
    own = {"server": "127.0.0.1", "port": port, "from": "bai@example.org", "to": ["ops@example.org"]}
    return {"email": {**own, **({"caFrom": "env/CA"} if ca else {}), **fields}}


LOGIN = {"usernameFrom": "env/USER", "passwordFrom": "env/PASS"}


@pytest.mark.parametrize("kind", ["starttls", "tls"])
def test_mail_is_encrypted_and_logs_in(kind: str, tls: tuple[ssl.SSLContext, str]) -> None:
    with mail_server(kind, tls[0], ("bai", "s3cret pass")) as server:
        to = email(server.port, tls[1], tls=kind, **LOGIN, to=["a@example.org", "b@example.org"])
        assert send(to, USER="bai", PASS="s3cret pass", CA=Path(tls[1]).read_text()) == "accepted"
    assert server.secure == [True]
    (envelope,) = server.mails
    assert envelope.rcpt_tos == ["a@example.org", "b@example.org"]
    assert isinstance(envelope.content, bytes)
    mail = message_from_bytes(envelope.content, policy=default)
    assert mail["Subject"] == "error: Session/vision/s1: session failed"
    assert mail["From"] == "bai <bai@example.org>" and mail["Auto-Submitted"] == "auto-generated"
    assert mail["Message-ID"].endswith("@bai.invalid>") and mail["Date"].startswith("Fri, 15 Jan 2027")
    assert "main1 exited with 1" in mail.get_content()


def test_a_wrong_password_will_not_pass_and_is_not_told(tls: tuple[ssl.SSLContext, str]) -> None:
    with mail_server("starttls", tls[0], ("bai", "right")) as server, pytest.raises(NotSent) as caught:
        send(email(server.port, tls[1], **LOGIN), USER="bai", PASS="hidden", CA=Path(tls[1]).read_text())
    assert "535" in str(caught.value) and "hidden" not in f"{caught.value} {caught.value.fields}"
    assert server.mails == []


def test_mail_is_not_sent_where_encryption_was_asked_for_and_is_not_there(
    tls: tuple[ssl.SSLContext, str],
) -> None:
    with mail_server("none", None) as server, pytest.raises(NotSent, match="cannot do what is asked"):
        send(email(server.port, tls[1]), CA=Path(tls[1]).read_text())
    with mail_server("starttls", tls[0]) as server, pytest.raises(NotSentNow, match="not trusted"):
        send(email(server.port))
    assert server.mails == []


def test_what_a_mail_server_refuses() -> None:
    with mail_server("none", None) as server:
        server.refuse = "451 later"
        with pytest.raises(NotSentNow, match="451"):
            send(email(server.port, tls="none"))
        server.refuse = "554 never"
        with pytest.raises(NotSent, match="554"):
            send(email(server.port, tls="none"))
        with pytest.raises(NotSent, match="550"):
            send(email(server.port, tls="none", to=["nobody@example.org"]))
        server.refuse = ""
        some = email(server.port, tls="none", to=["nobody@example.org", "ops@example.org"])
        assert send(some) == "accepted but for 1 of 2 addresses"
    with pytest.raises(NotSentNow, match="cannot be reached"):
        send(email(server.port, tls="none"))
