"""Notification: who is told what happens, where, and how often at most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from schemas.problems.issues import Issue, issues_error
from schemas.values.envelope import Flag, Model, Port, Positive, Resource
from schemas.values.names import Address, Email, Name, SecretReference, Text
from schemas.values.quantities import Duration

Severity = Literal["info", "warning", "error"]
EventClass = Literal[
    "all",
    "session-started",
    "session-finished",
    "session-failed",
    "session-cancelled",
    "session-requeued",
    "session-waiting",
    "node-lost",
    "node-health",
    "node-provisioned",
    "node-failed",
    "node-rebooted",
    "action-failed",
    "drift",
    "policy-violated",
    "quota-reached",
    "commit-applied",
    "documents-refused",
    "documents-unreachable",
    "approval-needed",
    "cluster-unseen",
    "loop-failed",
    "order-given",
]
HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][-A-Za-z0-9_]{0,63}$")]
_KINDS = ("slack", "email", "http")


@dataclass(frozen=True, slots=True)
class EventInfo:
    """A class of events: its severity, when it comes, and whether it lasts, so that its end is told too."""

    severity: Severity
    when: str
    lasts: bool = False


CLASSES: Mapping[str, EventInfo] = MappingProxyType(
    {
        "session-started": EventInfo("info", "All containers of a session run."),
        "session-finished": EventInfo("info", "A session ended with success, or was stopped."),
        "session-failed": EventInfo("error", "A session ended with a failure."),
        "session-cancelled": EventInfo("warning", "A session that waited was given up."),
        "session-requeued": EventInfo(
            "warning", "A session that ran waits again: pushed out, or its node lost."
        ),
        "session-waiting": EventInfo(
            "warning", "A session waits for longer than `waiting`; not one that is held.", lasts=True
        ),
        "node-lost": EventInfo("error", "A node does not answer.", lasts=True),
        "node-health": EventInfo(
            "warning", "A node's health has a finding; an error when critical.", lasts=True
        ),
        "node-provisioned": EventInfo("info", "A node was provisioned, and joins."),
        "node-failed": EventInfo("error", "The provisioning of a node failed."),
        "node-rebooted": EventInfo("info", "A node is rebooted while it is provisioned."),
        "action-failed": EventInfo("error", "An action of an apply failed; the same failure is told once."),
        "drift": EventInfo("warning", "Something is other than it was made.", lasts=True),
        "policy-violated": EventInfo(
            "error", "A change is held back by a Policy or `bai/protect`.", lasts=True
        ),
        "quota-reached": EventInfo("warning", "What a quota allows is used up.", lasts=True),
        "commit-applied": EventInfo("info", "Another commit is in force."),
        "documents-refused": EventInfo("error", "The newest documents cannot be used.", lasts=True),
        "documents-unreachable": EventInfo("error", "The git remote cannot be followed.", lasts=True),
        "approval-needed": EventInfo("info", "A commit waits for `bai approve`.", lasts=True),
        "cluster-unseen": EventInfo("error", "Not everything could be observed.", lasts=True),
        "loop-failed": EventInfo("error", "A pass of the loop came to no end.", lasts=True),
        "order-given": EventInfo(
            "info",
            "Somebody pinned, suspended, resumed, approved, unlocked, restored or took a service back.",
        ),
    }
)
"""Every class of events, as `events` names them."""


class SlackTarget(Model):
    """An incoming webhook as Slack, Mattermost and Rocket.Chat have them."""

    url_from: SecretReference
    """Where the webhook's URL is, which is a secret: `STORE/ENTRY`."""
    ca_from: SecretReference | None = None
    """Certificates to trust instead of the system's, as PEM: `STORE/ENTRY`."""


class EmailTarget(Model):
    """A mail server and who gets mail."""

    server: Address
    port: Port | None = None
    """587; 465 with `tls`, 25 with `none`."""
    tls: Literal["starttls", "tls", "none"] = "starttls"
    """`starttls`: encryption is begun, or nothing is sent; `tls`: from the first byte; `none`: readable on
    the way, and no login."""
    ca_from: SecretReference | None = None
    """Certificates to trust instead of the system's, as PEM: `STORE/ENTRY`."""
    from_: Annotated[Email, Field(alias="from")]
    to: Annotated[tuple[Email, ...], Field(min_length=1, max_length=100)]
    username_from: SecretReference | None = None
    password_from: SecretReference | None = None


class HttpTarget(Model):
    """Any HTTP server: JSON, or what `template.body` makes."""

    url_from: SecretReference
    """Where the URL is: `STORE/ENTRY`."""
    method: Literal["POST", "PUT"] = "POST"
    headers_from: Mapping[HeaderName, SecretReference] = {}
    """Headers and where their values are, such as `Authorization`."""
    signature_from: SecretReference | None = None
    """A key: `X-Bai-Signature: sha256=...` is then the HMAC-SHA256 of the body."""
    ca_from: SecretReference | None = None
    """Certificates to trust instead of the system's, as PEM: `STORE/ENTRY`."""


class NotificationTarget(Model):
    """Where it goes: exactly one of the three."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": [one], "properties": {one: {"type": "object"}}} for one in _KINDS]
        }
    )

    slack: SlackTarget | None = None
    email: EmailTarget | None = None
    http: HttpTarget | None = None

    @model_validator(mode="after")
    def _require_exactly_one(self) -> NotificationTarget:
        if [self.slack, self.email, self.http].count(None) != 2:
            raise issues_error([Issue((), "exactly one of slack, email and http", code="BAI-V034")])
        return self

    @property
    def kind(self) -> str:
        """Which of the three."""
        return "slack" if self.slack else "email" if self.email else "http"


class MessageTemplate(Model):
    """Jinja, in place of bai's own words. What it knows is in the guide."""

    title: Text | None = None
    """A line: a mail's subject, the first line elsewhere."""
    text: Text | None = None
    body: Text | None = None
    """Of `http`: the whole body."""


class Throttle(Model):
    """At most `burst` messages in any `every`; what is more goes together into one of them."""

    every: Duration = 300
    burst: Positive = 10
    digest: Flag = True
    """False: what is more is not sent; the next message says how much it was."""


class NotificationSpec(Model):
    cluster: Name | None = None
    """Only of this cluster; of all when left out."""
    to: NotificationTarget
    events: Annotated[tuple[EventClass, ...], Field(min_length=1)]
    """What is told."""
    projects: tuple[Name, ...] = ()
    """Only of these projects, and then nothing of nodes and the loop; everything when empty."""
    over: Flag = True
    """Whether the end of what lasts is told, too."""
    waiting: Duration = 1800
    """How long a session waits before `session-waiting`."""
    template: MessageTemplate = MessageTemplate()
    throttle: Throttle = Throttle()


class Notification(Resource):
    """Who is told what happens."""

    singular = "notification"
    kind: Literal["Notification"]
    spec: NotificationSpec
