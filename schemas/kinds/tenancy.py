"""Domain, Project, User: who uses the cluster. None of them is a Linux user."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from schemas.values.envelope import Flag, Integer, Model, Resource
from schemas.values.names import Email, Name, Text


class DomainSpec(Model):
    description: Text = ""


class Domain(Resource):
    """An organisation."""

    singular = "domain"
    kind: Literal["Domain"]
    spec: DomainSpec = DomainSpec()


class ProjectSpec(Model):
    domain: Name | None = None
    """May be left out when the repository has exactly one Domain, or none."""
    description: Text = ""
    uid: Annotated[Integer, Field(ge=1000, le=2**32 - 2)] | None = None
    """Number of the Linux user, and group, that its sessions run as and whom its new volumes belong
    to; one of the cluster's `sessionUids` when left out."""


class Project(Resource):
    """A group of users that shares sessions, volumes and quotas."""

    singular = "project"
    kind: Literal["Project"]
    spec: ProjectSpec = ProjectSpec()


class UserSpec(Model):
    email: Email | None = None
    """Sessions may name their owner by it."""
    full_name: Text = ""
    projects: tuple[Name, ...] = ()
    active: Flag = True
    """An inactive user's sessions are refused."""


class User(Resource):
    """A person or a service account."""

    singular = "user"
    kind: Literal["User"]
    spec: UserSpec = UserSpec()
