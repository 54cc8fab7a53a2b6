"""What refers to what. Pure."""

from __future__ import annotations

from schemas.kinds.cluster import Cluster
from schemas.kinds.image import Image
from schemas.kinds.node import Node, NodePool
from schemas.kinds.quota import Quota
from schemas.kinds.resource_group import ResourceGroup
from schemas.kinds.session import Session
from schemas.kinds.storage import StorageHost, Volume
from schemas.kinds.tenancy import Project, User
from schemas.repository.repository import Repository
from schemas.values.envelope import Resource
from schemas.values.resource_ref import identity_of


def references(item: Resource, repository: Repository) -> tuple[str, ...]:
    """Identities that a resource names or belongs to."""
    cluster = repository.cluster_of(item)
    found = [identity_of("Cluster", cluster)] if cluster else []
    if item.project:
        found.append(identity_of("Project", item.project))
    match item:
        case Session():
            found += _session_references(item, repository)
        case Node() | NodePool() if item.spec.resource_group:
            found.append(identity_of("ResourceGroup", item.spec.resource_group))
            found += _profile_reference(item)
        case Node() | NodePool():
            found += _profile_reference(item)
        case Cluster() if item.spec.profile:
            found.append(identity_of("NodeProfile", item.spec.profile))
        case Volume():
            host = repository.host_of(item)
            found += [host.identity] if host else []
        case Project() if item.spec.domain:
            found.append(identity_of("Domain", item.spec.domain))
        case User():
            found += [identity_of("Project", name) for name in item.spec.projects]
        case Quota():
            kind, name = item.spec.subject.kind_and_name
            found.append(f"{kind.capitalize()}/{name}")
        case Image():
            found += _registry_reference(item, repository)
        case ResourceGroup() | StorageHost() | _:
            pass
    return tuple(sorted(set(found) - {item.identity}))


def _profile_reference(item: Node | NodePool) -> list[str]:
    return [identity_of("NodeProfile", item.spec.profile)] if item.spec.profile else []


def _session_references(session: Session, repository: Repository) -> list[str]:
    spec = session.spec
    found = list(spec.depends_on)
    if spec.resource_group:
        found.append(identity_of("ResourceGroup", spec.resource_group))
    owner = repository.user_of(spec.owner)
    if owner:
        found.append(owner.identity)
    volumes = (repository.volume_of(session, mount.volume) for mount in spec.mounts)
    names = {spec.image, *(own.image for own in spec.cluster.per_role.values())}
    images = (repository.images.find(name) for name in sorted(name for name in names if name))
    found += [image.identity for image in images if image]
    return found + [volume.identity for volume in volumes if volume]


def _registry_reference(image: Image, repository: Repository) -> list[str]:
    registry = repository.images.registry_of(repository.images.resolve(image.name))
    return [registry.identity] if registry else []
