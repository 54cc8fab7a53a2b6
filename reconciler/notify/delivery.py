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

from providers.machines.tls import as_file, trusting
from reconciler.notify.message import Message
from schemas.kinds.notification import EmailTarget, HttpTarget, Notification, SlackTarget
from schemas.problems.errors import BaiError, NotSent, NotSentNow, SecretMissing

if TYPE_CHECKING:
    import requests

PATIENCE = 15.0
"""Seconds that a server may take."""
_PORTS = {"starttls": 587, "tls": 465, "none": 25}
_PASSES = frozenset({408, 425, 429, *range(500, 600)})
"""Answers after which another try may go well."""

Resolve = Callable[[str], str]


def post(notification: Notification, message: Message, secret: Resolve) -> str:
    """What the server said. Raises NotSentNow for what may pass, NotSent for what will not."""
    to = notification.spec.to
    try:
        if to.slack is not None:
            return _slack(to.slack, message, secret)
        if to.http is not None:
            return _http(to.http, message, secret)
        assert to.email is not None
        return _email(to.email, notification.name, message, secret)
    except SecretMissing as missing:
        raise NotSentNow(why=missing.message) from None
    except BaiError:
        raise
    except Exception as error:  # Whatever a server's answer does to a client; its text may hold a secret.
        raise NotSent(why=f"an error that is not foreseen: {type(error).__name__}") from None


def _slack(to: SlackTarget, message: Message, secret: Resolve) -> str:
    return _asked("POST", secret(to.url_from).strip(), message, {}, _ca(to.ca_from, secret))


def _http(to: HttpTarget, message: Message, secret: Resolve) -> str:
    headers = {name: secret(source).strip() for name, source in to.headers_from.items()}
    headers["X-Bai-Delivery"] = headers["Idempotency-Key"] = message.id
    if to.signature_from is not None:
        key = secret(to.signature_from).strip().encode()
        headers["X-Bai-Signature"] = "sha256=" + hmac.new(key, message.body, hashlib.sha256).hexdigest()
    return _asked(to.method, secret(to.url_from).strip(), message, headers, _ca(to.ca_from, secret))


def _asked(method: str, url: str, message: Message, headers: Mapping[str, str], ca: str) -> str:
    import requests

    if not url.startswith(("http://", "https://")):
        raise NotSent(why="the secret is no http:// or https:// address")
    own = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "bai", **headers}
    try:
        with _trusted(ca) as verify, requests.request(
            method, url, data=message.body, headers=own, timeout=PATIENCE, allow_redirects=False,
            verify=verify, auth=_nobody, stream=True,
        ) as answer:  # fmt: skip
            status, wait = answer.status_code, answer.headers.get("Retry-After", "")
    except requests.exceptions.SSLError:
        raise NotSentNow(why="the server's certificate is not trusted") from None
    except requests.exceptions.Timeout:
        raise NotSentNow(why=f"the server does not answer within {PATIENCE:g} seconds") from None
    except requests.exceptions.ConnectionError:
        raise NotSentNow(why="the server cannot be reached") from None
    except (requests.exceptions.RequestException, ValueError, OSError) as error:
        raise NotSent(why=f"the request cannot be made: {type(error).__name__}") from None
    if 200 <= status < 300:
        return f"HTTP {status}"
    if status in _PASSES:
        raise NotSentNow(why=f"the server answered HTTP {status}", wait=int(wait) if wait.isdecimal() else 0)
    raise NotSent(why=f"the server answered HTTP {status}")


def _trusted(ca: str) -> AbstractContextManager[str | bool]:
    return as_file(ca) if ca else nullcontext(True)


def _nobody(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """No login but ours: not one from somebody's .netrc."""
    return request


def _email(to: EmailTarget, name: str, message: Message, secret: Resolve) -> str:
    user = secret(to.username_from).strip() if to.username_from else ""
    password = secret(to.password_from) if to.password_from else ""
    try:
        with _connection(to, _ca(to.ca_from, secret)) as server:
            if user:
                server.login(user, password)
            refused = server.send_message(mail(to, name, message), to.from_, list(to.to))
    except smtplib.SMTPNotSupportedError:
        raise NotSent(why="the mail server cannot do what is asked: encryption, or a login") from None
    except smtplib.SMTPRecipientsRefused as error:
        raise _refusal([code for code, _ in error.recipients.values()]) from None
    except smtplib.SMTPResponseException as error:
        raise _refusal([error.smtp_code]) from None
    except ssl.SSLError:
        raise NotSentNow(why="the mail server's certificate is not trusted") from None
    except (smtplib.SMTPException, OSError) as error:
        raise NotSentNow(why=f"the mail server cannot be reached: {type(error).__name__}") from None
    if refused:
        return f"accepted but for {len(refused)} of {len(to.to)} addresses"
    return "accepted"


def _ca(reference: str | None, secret: Resolve) -> str:
    return secret(reference) if reference else ""


def _connection(to: EmailTarget, ca: str) -> smtplib.SMTP:
    port = to.port or _PORTS[to.tls]
    if to.tls == "none":
        return smtplib.SMTP(to.server, port, timeout=PATIENCE)
    context = trusting(ca)
    if to.tls == "tls":
        return smtplib.SMTP_SSL(to.server, port, timeout=PATIENCE, context=context)
    server = smtplib.SMTP(to.server, port, timeout=PATIENCE)
    try:
        server.starttls(context=context)
    except BaseException:
        server.close()
        raise
    return server


def _refusal(codes: list[int]) -> NotSent | NotSentNow:
    """4xx may pass, as long as it is so for everybody."""
    said = f"the mail server answered {', '.join(map(str, sorted(set(codes))))}"
    return NotSentNow(why=said) if all(400 <= code < 500 for code in codes) else NotSent(why=said)


def mail(to: EmailTarget, name: str, message: Message) -> EmailMessage:
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
