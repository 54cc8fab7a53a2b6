"""What refers to what, which order follows, and what a target takes along. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from pydantic import ValidationError

from planner.model.types import Eviction
from reconciler.values.placement_json import compact
from reconciler.values.plan import Action, Side
from schemas.images.resolution import image_of, registry_of, resolve
from schemas.kinds.cluster import Cluster
from schemas.kinds.image import Image
from schemas.kinds.node import Node, NodePool
from schemas.kinds.quota import Quota
from schemas.kinds.registry import KINDS
from schemas.kinds.resource_group import ResourceGroup
from schemas.kinds.session import Session
from schemas.kinds.storage import StorageHost, Volume
from schemas.kinds.tenancy import Project, User
from schemas.problems.errors import PlanError
from schemas.repository.repository import Repository
from schemas.values.envelope import Resource


def references(item: Resource, repository: Repository) -> tuple[str, ...]:
    """Identities that a resource names or belongs to."""
    cluster = repository.cluster_of(item)
    found = [f"Cluster/{cluster}"] if cluster else []
    if item.project:
        found.append(f"Project/{item.project}")
    match item:
        case Session():
            found += _session(item, repository)
        case Node() | NodePool() if item.spec.resource_group:
            found.append(f"ResourceGroup/{item.spec.resource_group}")
            found += _profile(item)
        case Node() | NodePool():
            found += _profile(item)
        case Cluster() if item.spec.profile:
            found.append(f"NodeProfile/{item.spec.profile}")
        case Volume():
            host = repository.host_of(item)
            found += [host.identity] if host else []
        case Project() if item.spec.domain:
            found.append(f"Domain/{item.spec.domain}")
        case User():
            found += [f"Project/{name}" for name in item.spec.projects]
        case Quota():
            kind, name = item.spec.subject.kind_and_name
            found.append(f"{kind.capitalize()}/{name}")
        case Image():
            found += _registry(item, repository)
        case ResourceGroup() | StorageHost() | _:
            pass
    return tuple(sorted(set(found) - {item.identity}))


def _profile(item: Node | NodePool) -> list[str]:
    return [f"NodeProfile/{item.spec.profile}"] if item.spec.profile else []


def _session(session: Session, repository: Repository) -> list[str]:
    spec = session.spec
    found = list(spec.depends_on)
    if spec.resource_group:
        found.append(f"ResourceGroup/{spec.resource_group}")
    owner = repository.user_of(spec.owner)
    if owner:
        found.append(owner.identity)
    volumes = (repository.volume_of(session, mount.volume) for mount in spec.mounts)
    names = {spec.image, *(own.image for own in spec.cluster.per_role.values())}
    images = (image_of(repository, name) for name in sorted(name for name in names if name))
    found += [image.identity for image in images if image]
    return found + [volume.identity for volume in volumes if volume]


def _registry(image: Image, repository: Repository) -> list[str]:
    registry = registry_of(repository, resolve(repository, image.name))
    return [registry.identity] if registry else []


def parse(identity: str, document: Mapping[str, object]) -> Resource | None:
    """The resource of a recorded document; None when it can no longer be read."""
    model = KINDS.get(identity.partition("/")[0])
    if model is None:
        return None
    try:
        return model.model_validate_json(compact(document))
    except ValidationError:
        return None


def ordered(
    actions: Iterable[Action], resources: Mapping[str, Resource], repository: Repository
) -> tuple[Action, ...]:
    """Actions by identity, each with what must be done before it: what it refers to; for a deletion, the
    deletions of what refers to it."""
    by_id = {action.id: action for action in sorted(actions, key=lambda each: each.id)}
    changing = {action.id for action in by_id.values() if action.verb != "no-op"}
    before = {identity: set(action.depends_on) for identity, action in by_id.items()}
    for identity in sorted(changing):
        action = by_id[identity]
        if action.after is not None and identity in resources:
            refs = references(resources[identity], repository)
            before[identity] |= {ref for ref in refs if ref in changing and by_id[ref].after is not None}
        elif action.after is None and action.before is not None:
            gone = parse(identity, action.before.document)
            for ref in references(gone, repository) if gone else ():
                if ref in changing and by_id[ref].after is None:
                    before[ref].add(identity)
    return tuple(replace(action, depends_on=tuple(sorted(before[action.id]))) for action in by_id.values())


def making_room(actions: Iterable[Action], evictions: Iterable[Eviction]) -> tuple[Action, ...]:
    """The actions, where whoever pushes others out waits for them to be gone, and so does everybody who
    starts on their nodes; they wait for none of these."""
    pushed = {one.session: one.by for one in evictions}
    if not pushed:
        return tuple(actions)
    all_ = tuple(actions)
    victims = {action.id: _nodes(action.before) for action in all_ if action.id in pushed}
    made = []
    for action in all_:
        needs = set(action.depends_on)
        if action.id in pushed:
            needs = {one for one in needs if one.partition("/")[0] != "Session"}
        elif action.verb != "no-op" and (where := _nodes(action.after)):
            needs |= {one for one, nodes in victims.items() if pushed[one] == action.id or nodes & where}
        made.append(replace(action, depends_on=tuple(sorted(needs))))
    return tuple(made)


def _nodes(side: Side | None) -> frozenset[str]:
    """Where a session is, or is to be."""
    placement = side.placement if side else None
    return frozenset(part.node for part in placement.kernels) if placement else frozenset()


def closure(
    targets: Iterable[str], resources: Mapping[str, Resource], existing: Iterable[str], repository: Repository
) -> frozenset[str]:
    """The targeted identities (patterns such as `Session/vision/*` allowed) and all that they refer to,
    directly or not.

    Raises PlanError for a target that names nothing.
    """
    machines = {f"Node/{node.name}" for node in repository.machines.values()}
    known = sorted({*resources, *existing, *machines})
    todo: list[str] = []
    for target in targets:
        found = [identity for identity in known if identity == target or fnmatchcase(identity, target)]
        if not found:
            raise PlanError(why=f"target {target} names no resource", hint=_near(target, known))
        todo += found
    done: set[str] = set()
    while todo:
        identity = todo.pop()
        if identity in done:
            continue
        done.add(identity)
        if identity in resources:
            todo += [ref for ref in references(resources[identity], repository) if ref in resources]
    return frozenset(done)


def _near(target: str, known: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(target, known, 1)
    return f"did you mean {near[0]}?" if near else "targets are identities such as Session/project/name"
