"""What `container.user` of a session may say: whom its containers run as."""

from __future__ import annotations

from collections.abc import Iterator

from schemas.kinds.cluster import Cluster
from schemas.kinds.parts.docker import HELD_CAPABILITIES
from schemas.kinds.resource_group import ResourceGroup
from schemas.kinds.session import Session
from schemas.problems.issues import Issue, Loc
from schemas.repository.repository import Repository
from schemas.values.linux_users import FIRST_REGULAR_ID, LARGEST_ID, LAST_IMAGE_ID, is_root, numeric_id
from schemas.values.resource_ref import identity_of

_USER_FIELD: Loc = ("spec", "container", "user")


def user_rules(repository: Repository, session: Session, group: ResourceGroup) -> Iterator[Issue]:
    """Root only where the group allows it, and nobody as another project's user."""
    said = session.spec.container.user
    if said is None:
        return
    user, _, of = said.partition(":")
    if (is_root(user) or is_root(of)) and not group.spec.allow_root:
        message = f"{said} is root, which {group.identity} does not allow"
        hint = f"leave it out, to run as the project's user, or set allowRoot: true of {group.identity}"
        yield Issue(_USER_FIELD, message, hint, "BAI-V053")
        return
    cluster = repository.cluster_of(group) or ""
    document = repository.resources.get(identity_of("Cluster", cluster))
    if is_root(user) and isinstance(document, Cluster) and document.spec.provider == "process":
        message = "native sessions are never root: they run as their project's user"
        yield Issue(_USER_FIELD, message, "leave it out, or use a provider of containers", "BAI-V050")
        return
    if is_root(user):
        yield from _capability_rules(session, group)
    own = repository.uid_of(cluster, session.metadata.project)
    for what, word in (("user", user), ("group", of)):
        wanted = numeric_id(word)
        if wanted and wanted != own:
            yield from _numeric_user_rules(repository, cluster, session, what, wanted)


def _capability_rules(session: Session, group: ResourceGroup) -> Iterator[Issue]:
    for index, name in enumerate(session.spec.container.capabilities):
        if name not in HELD_CAPABILITIES and name not in group.spec.allow_capabilities:
            message = f"{name} can make it root of its node, which {group.identity} does not allow"
            hint = f"leave it out, or name it in allowCapabilities of {group.identity}"
            yield Issue(("spec", "container", "capabilities", index), message, hint, "BAI-V053")


def _numeric_user_rules(
    repository: Repository, cluster: str, session: Session, what: str, wanted: int
) -> Iterator[Issue]:
    project = session.metadata.project
    hint = f"leave it out, to run as the project's own {repository.uid_of(cluster, project)}"
    if wanted < FIRST_REGULAR_ID or wanted > LARGEST_ID:
        message = f"{what} {wanted} is one of the system's: numbers begin with {FIRST_REGULAR_ID}"
        yield Issue(_USER_FIELD, message, hint, "BAI-V050")
    elif wanted > LAST_IMAGE_ID:
        message = f"{what} {wanted} may be another project's: those of images end with {LAST_IMAGE_ID}"
        yield Issue(_USER_FIELD, message, hint, "BAI-V053")
    elif (whose := repository.other_project_with_id(cluster, wanted, project)) is not None:
        message = f"{what} {wanted} is of Project/{whose}"
        yield Issue(_USER_FIELD, message, hint, "BAI-V053")
