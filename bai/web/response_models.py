"""What the API answers, as types: its description is made from them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class ClusterAnswer(Answer):
    """Where a cluster stands. `leads`: whether this server acts for it; `leader`: who does, where several
    share a store. `notes` are for those who see all projects."""

    name: str
    provider: str
    commit: str
    pinned: str
    suspended: bool
    approved: str
    leads: bool
    leader: str
    lastPass: str
    good: bool
    notes: list[str]


class ReasonAnswer(Answer):
    code: str
    message: str


class WaitAnswer(Answer):
    """Why a session waits. `position` from 1, 0 for who cannot be queued; `latest`: when it fits at the
    latest."""

    session: str
    group: str
    position: int
    reasons: list[ReasonAnswer]
    freedBy: str
    latest: str
    lines: list[str]


class EventAnswer(Answer):
    seq: int
    at: str
    resource: str
    before: str
    after: str
    cause: str
    actor: str
    commit: str


class FieldAnswer(Answer):
    path: str
    before: str | None
    after: str | None


class AuditAnswer(Answer):
    """One change. `author` wrote the commit, as git says: `Ada <ada@cluster.example>`; empty where it is not
    known here, and for who sees some projects only."""

    seq: int
    at: str
    actor: str
    verb: str
    resource: str
    cause: str
    commit: str
    author: str
    plan: str
    apply: str
    before: str
    after: str
    changes: list[FieldAnswer]


class OidcClientAnswer(Answer):
    """An identity provider, and as which client `bai login` asks it."""

    issuer: str
    clientId: str


class LoginAnswer(Answer):
    oidc: list[OidcClientAnswer]


class BindingAnswer(Answer):
    """A role; `projects` is null for all of them."""

    role: str
    projects: list[str] | None


class WhoamiAnswer(Answer):
    name: str
    roles: list[BindingAnswer]


class OrderAnswer(Answer):
    """What holds now: `commit` of an approval or a rollback; `ended`: the orders that `resume` took back."""

    commit: str = ""
    ended: list[str] = []


class UndoAnswer(Answer):
    """What a service goes back to, and what its document says. Commits are empty where a generation is of
    none."""

    service: str
    generation: str
    commit: str
    latest: str
    latestCommit: str


class AppLinkAnswer(Answer):
    """A link that opens an app for whoever has it, until then."""

    url: str
    until: str


class Refusal(Answer):
    """Why not."""

    detail: str
    code: str = ""
