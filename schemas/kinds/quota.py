"""Quota: limits for a domain, a project or a user."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from schemas.kinds.parts.resources import Slots
from schemas.problems.issues import Issue, issues_error
from schemas.values.envelope import Count, Integer, Model, Positive, Resource, exactly_one_schema
from schemas.values.names import Name
from schemas.values.quantities import Duration


class Subject(Model):
    """Whom a quota limits: exactly one of the three."""

    model_config = ConfigDict(json_schema_extra=exactly_one_schema("domain", "project", "user"))

    domain: Name | None = None
    project: Name | None = None
    user: Name | None = None

    @model_validator(mode="after")
    def _require_exactly_one(self) -> Subject:
        if [self.domain, self.project, self.user].count(None) != 2:
            raise issues_error(
                [Issue((), "a quota limits exactly one of domain, project and user", code="BAI-V034")]
            )
        return self

    @property
    def kind_and_name(self) -> tuple[Literal["domain", "project", "user"], str]:
        """E.g. `("project", "vision")`."""
        if self.domain:
            return "domain", self.domain
        return ("project", self.project) if self.project else ("user", self.user or "")


class QuotaSpec(Model):
    subject: Subject
    resource_group: Name | None = None
    """Counts only sessions of this group; all groups when left out."""
    total: Slots = Slots()
    """Most that all running sessions together hold."""
    per_session: Slots = Slots()
    """Most that one session holds, all its containers together."""
    unspecified: Literal["unlimited", "zero"] = "unlimited"
    """What a slot that is not named means."""
    concurrent_sessions: Count | None = None
    pending_sessions: Count | None = None
    containers_per_session: Positive | None = None
    max_lifetime: Duration | None = None
    """Longest time that a session may run."""
    idle_timeout: Duration | None = None
    """After this long without use (GPUs, else cores, below 5 %) an interactive or batch session is
    stopped."""
    max_priority: Annotated[Integer, Field(ge=0, le=1000)] | None = None
    cohort: Name | None = None
    """Quotas of one cohort, kind of subject and resource group lend each other what they do not use."""
    borrowing: Slots | None = None
    """Most that may be borrowed from the cohort, a slot that is not named not at all; whatever is unused when
    left out."""


class Quota(Resource):
    """Limits for a domain, a project or a user."""

    singular = "quota"
    kind: Literal["Quota"]
    spec: QuotaSpec
