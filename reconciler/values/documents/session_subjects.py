"""Whom a session belongs to, as quotas and queues name it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemas.kinds.tenancy import Domain, Project
from schemas.values.resource_ref import identity_of

if TYPE_CHECKING:
    from schemas.kinds.session import Session
    from schemas.repository.repository import Repository


def session_domain(session: Session, repository: Repository) -> str:
    """Of its project."""
    return project_domain(session.metadata.project, repository)


def project_domain(name: str, repository: Repository) -> str:
    """The only one that there is where the project names none; empty where there are more."""
    project = repository.resources.get(identity_of("Project", name))
    if isinstance(project, Project) and project.spec.domain:
        return project.spec.domain
    domains = [domain.name for domain in repository.of(Domain)]
    return domains[0] if len(domains) == 1 else ""


def session_user(session: Session, repository: Repository) -> str:
    """A user's name, also where the session names the e-mail address."""
    owner = session.spec.owner
    user = repository.user_of(owner)
    return user.name if user else owner or ""
