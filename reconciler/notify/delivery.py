"""Sending one message: secrets are read here, used, and in no message of an error."""

from __future__ import annotations

import hashlib
import hmac
import smtplib
import ssl
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import TYPE_CHECKING

from providers.machines.tls import client_context, text_as_file
from reconciler.notify.message import Message
from schemas.kinds.notification import EmailTarget, HttpTarget, Notification, SlackTarget
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.notification import NotSent, NotSentNow
from schemas.problems.errors.plan import SecretMissing
from schemas.values.naturals import parse_natural

if TYPE_CHECKING:
    import requests

TIMEOUT = 15.0
"""Seconds that a server may take."""
_PORTS = {"starttls": 587, "tls": 465, "none": 25}
_RETRYABLE_STATUSES = frozenset({408, 425, 429, *range(500, 600)})
"""Answers after which another try may go well."""

SecretResolver = Callable[[str], str]


def deliver(notification: Notification, message: Message, secret: SecretResolver) -> str:
    """What the server said. Raises NotSentNow for what may pass, NotSent for what will not."""
    to = notification.spec.to
    try:
        if to.slack is not None:
            return _send_to_slack(to.slack, message, secret)
        if to.http is not None:
            return _send_to_http(to.http, message, secret)
        assert to.email is not None
        return _send_email(to.email, notification.name, message, secret)
    except SecretMissing as missing:
        raise NotSentNow(why=missing.message) from None
    except BaiError:
        raise
    except Exception as error:  # Whatever a server's answer does to a client; its text may hold a secret.
        raise NotSent(why=f"an error that is not foreseen: {type(error).__name__}") from None


def _send_to_slack(to: SlackTarget, message: Message, secret: SecretResolver) -> str:
    return _request("POST", secret(to.url_from).strip(), message, {}, _resolve_ca(to.ca_from, secret))


def _send_to_http(to: HttpTarget, message: Message, secret: SecretResolver) -> str:
    headers = {name: secret(source).strip() for name, source in to.headers_from.items()}
    headers["X-Bai-Delivery"] = headers["Idempotency-Key"] = message.id
    if to.signature_from is not None:
        key = secret(to.signature_from).strip().encode()
        headers["X-Bai-Signature"] = "sha256=" + hmac.new(key, message.body, hashlib.sha256).hexdigest()
    return _request(to.method, secret(to.url_from).strip(), message, headers, _resolve_ca(to.ca_from, secret))


def _request(method: str, url: str, message: Message, headers: Mapping[str, str], ca: str) -> str:
    import requests

    if not url.startswith(("http://", "https://")):
        raise NotSent(why="the secret is no http:// or https:// address")
    own = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "bai", **headers}
    try:
        with _ca_bundle(ca) as verify, requests.request(
            method, url, data=message.body, headers=own, timeout=TIMEOUT, allow_redirects=False,
            verify=verify, auth=_no_auth, stream=True,
        ) as answer:  # fmt: skip
            status, wait = answer.status_code, answer.headers.get("Retry-After", "")
    except requests.exceptions.SSLError:
        raise NotSentNow(why="the server's certificate is not trusted") from None
    except requests.exceptions.Timeout:
        raise NotSentNow(why=f"the server does not answer within {TIMEOUT:g} seconds") from None
    except requests.exceptions.ConnectionError:
        raise NotSentNow(why="the server cannot be reached") from None
    except (requests.exceptions.RequestException, ValueError, OSError) as error:
        raise NotSent(why=f"the request cannot be made: {type(error).__name__}") from None
    if 200 <= status < 300:
        return f"HTTP {status}"
    if status in _RETRYABLE_STATUSES:
        raise NotSentNow(why=f"the server answered HTTP {status}", wait=parse_natural(wait) or 0)
    raise NotSent(why=f"the server answered HTTP {status}")


def _ca_bundle(ca: str) -> AbstractContextManager[str | bool]:
    return text_as_file(ca) if ca else nullcontext(True)


def _no_auth(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """No login but ours: not one from somebody's .netrc."""
    return request


def _send_email(to: EmailTarget, name: str, message: Message, secret: SecretResolver) -> str:
    user = secret(to.username_from).strip() if to.username_from else ""
    password = secret(to.password_from) if to.password_from else ""
    try:
        with _connect_smtp(to, _resolve_ca(to.ca_from, secret)) as server:
            if user:
                server.login(user, password)
            refused = server.send_message(build_email(to, name, message), to.from_, list(to.to))
    except smtplib.SMTPNotSupportedError:
        raise NotSent(why="the mail server cannot do what is asked: encryption, or a login") from None
    except smtplib.SMTPRecipientsRefused as error:
        raise _smtp_refusal([code for code, _ in error.recipients.values()]) from None
    except smtplib.SMTPResponseException as error:
        raise _smtp_refusal([error.smtp_code]) from None
    except ssl.SSLError:
        raise NotSentNow(why="the mail server's certificate is not trusted") from None
    except (smtplib.SMTPException, OSError) as error:
        raise NotSentNow(why=f"the mail server cannot be reached: {type(error).__name__}") from None
    if refused:
        return f"accepted but for {len(refused)} of {len(to.to)} addresses"
    return "accepted"


def _resolve_ca(reference: str | None, secret: SecretResolver) -> str:
    return secret(reference) if reference else ""


def _connect_smtp(to: EmailTarget, ca: str) -> smtplib.SMTP:
    port = to.port or _PORTS[to.tls]
    if to.tls == "none":
        return smtplib.SMTP(to.server, port, timeout=TIMEOUT)
    context = client_context(ca)
    if to.tls == "tls":
        return smtplib.SMTP_SSL(to.server, port, timeout=TIMEOUT, context=context)
    server = smtplib.SMTP(to.server, port, timeout=TIMEOUT)
    try:
        server.starttls(context=context)
    except BaseException:
        server.close()
        raise
    return server


def _smtp_refusal(codes: list[int]) -> NotSent | NotSentNow:
    """4xx may pass, as long as it is so for everybody."""
    said = f"the mail server answered {', '.join(map(str, sorted(set(codes))))}"
    return NotSentNow(why=said) if all(400 <= code < 500 for code in codes) else NotSent(why=said)


def build_email(to: EmailTarget, name: str, message: Message) -> EmailMessage:
    """The mail; with the same id for the same news, so that one that comes twice is known."""
    made = EmailMessage(policy=SMTP)
    made["From"] = Address("bai", addr_spec=to.from_)
    made["To"] = ", ".join(to.to)
    made["Subject"] = message.title
    made["Date"] = format_datetime(datetime.fromtimestamp(int(message.at), UTC))
    made["Message-ID"] = f"<{message.id}@bai.invalid>"
    made["Auto-Submitted"] = "auto-generated"
    made["X-Bai-Notification"] = name
    made.set_content(message.text + "\n")
    return made
