"""A repository's documents → `Desired`: what they say for one cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from planner.model.plan_time import PlanTime
from planner.model.timed_memo import TimedMemo
from reconciler.sources.source import choose_cluster
from reconciler.values.encoding.placement_json import fingerprint
from reconciler.values.services.pattern import ServicePattern, pattern_of
from reconciler.values.state import Desired
from schemas.hardware.model import Hardware
from schemas.images.catalog import ImageCatalog
from schemas.images.session_images import resolve_session_images
from schemas.kinds.cluster import Cluster
from schemas.kinds.service import Service
from schemas.kinds.session import Session
from schemas.repository.repository import Repository
from schemas.values.canonical import DIGEST_LENGTH, canonical_document, full_digest
from schemas.values.envelope import Resource
from schemas.values.memo import Memo


@dataclass(frozen=True, slots=True)
class _CanonicalDocument:
    item: Resource
    values: Mapping[str, Any]
    digest: str
    """All 64 digits."""


class _ClusterSession(NamedTuple):
    """A session with its cluster's defaults; None where it is of another cluster."""

    made_of: tuple[object, ...]
    session: Session | None


class _ClusterService(NamedTuple):
    """A service's pattern with its cluster's defaults; None where it is of another cluster."""

    made_of: tuple[object, ...]
    pattern: ServicePattern | None


class DesiredCache:
    """What making the same cluster's `Desired` again and again need not do anew. For one thread."""

    def __init__(self) -> None:
        self.sessions: TimedMemo[_ClusterSession] = TimedMemo()
        self.services: TimedMemo[_ClusterService] = TimedMemo()
        self.documents: TimedMemo[_CanonicalDocument] = TimedMemo()
        self.others: TimedMemo[_CanonicalDocument] = TimedMemo()
        self.hardware: Memo[int, str] = Memo()
        self.images: Memo[str, ImageCatalog] = Memo()

    def fork(self) -> DesiredCache:
        """One more, for another thread, that begins with what this one knows."""
        made = DesiredCache()
        made.sessions, made.others = self.sessions.fork(), self.others.fork()
        made.documents, made.services = self.documents.fork(), self.services.fork()
        made.hardware, made.images = self.hardware.fork(), self.images.fork()
        return made

    def begin(self) -> None:
        """All will be asked for again."""
        for memo in (self.hardware, self.images):
            memo.begin()


def make_desired(
    repository: Repository, cluster: str, *, repo: str, commit: str, cache: DesiredCache | None = None
) -> Desired:
    """One cluster's part of a repository. Pure."""
    cache = cache or DesiredCache()
    cache.begin()
    chosen = choose_cluster(repository, cluster)
    catalog = repository.images
    images = cache.images.get("", (catalog,), lambda: catalog)
    sessions = _cluster_sessions(repository, chosen, images, cache.sessions)
    resources: dict[str, Resource] = {}
    others: dict[str, Resource] = {}
    for identity, item in sorted(repository.resources.items()):
        if (found := sessions.get(identity)) is not None:
            if found.session is not None:
                resources[identity] = found.session
            else:
                others[identity] = item
        elif repository.cluster_of(item) not in (None, cluster):
            others[identity] = item
        else:
            resources[identity] = item
    documents, rest = _canonical(resources, cache.documents), _canonical(others, cache.others)
    services = _cluster_services(repository, chosen, images, cache.services)
    hardware = {node.name: node.spec.hardware for node in repository.nodes_of(cluster) if node.spec.hardware}
    digests = [{identity: one.digest for identity, one in each.items()} for each in (documents, rest)]
    return Desired(
        repo=repo,
        cluster=cluster,
        commit=commit,
        tree=fingerprint([*digests, _hardware_digests(hardware, cache), *_generations(services)]),
        repository=repository,
        resources=resources,
        documents={identity: one.values for identity, one in documents.items()},
        digests={identity: one.digest[:DIGEST_LENGTH] for identity, one in documents.items()},
        services=services,
    )


def _cluster_sessions(
    repository: Repository, cluster: Cluster, images: ImageCatalog, known: TimedMemo[_ClusterSession]
) -> Mapping[str, _ClusterSession]:
    """All sessions of the repository. Which group, and so which cluster one is of, follows from it and from
    what is no session."""

    def make(identity: str, time: PlanTime) -> _ClusterSession:
        item = wanted[identity]
        group = repository.group_of(item)
        made_of = (item, group.name if group else item.spec.resource_group, cluster, images)
        last = known.last(identity)
        if repository.cluster_of(item) not in (None, cluster.name):
            return _ClusterSession(made_of, None)
        if last is not None and last.session is not None and last.made_of == made_of:
            return last
        return _ClusterSession(made_of, _with_defaults(*made_of))

    wanted = {i: item for i, item in repository.resources.items() if isinstance(item, Session)}
    return known.values(
        wanted, (repository.resources,), (repository.without_sessions, cluster, images), PlanTime(0.0), make
    )


def _cluster_services(
    repository: Repository, cluster: Cluster, images: ImageCatalog, known: TimedMemo[_ClusterService]
) -> Mapping[str, ServicePattern]:
    """The services of the cluster. Both a service's document and its pattern, which may rest on a template,
    say what its replicas are."""

    def make(identity: str, time: PlanTime) -> _ClusterService:
        service, session = wanted[identity], repository.patterns[identity]
        group = repository.group_of(session)
        made_of = (service, session, group.name if group else None, cluster, images)
        last = known.last(identity)
        if repository.cluster_of(session) != cluster.name:
            return _ClusterService(made_of, None)
        if last is not None and last.pattern is not None and last.made_of == made_of:
            return last
        return _ClusterService(made_of, pattern_of(service, _with_defaults(session, *made_of[2:])))

    wanted = {each.identity: each for each in repository.of(Service)}
    around = (repository.without_sessions, cluster, images)
    inputs = (repository.resources, repository.patterns)
    found = known.values(wanted, inputs, around, PlanTime(0.0), make)
    return {identity: each.pattern for identity, each in found.items() if each.pattern is not None}


def _generations(services: Mapping[str, ServicePattern]) -> list[Mapping[str, str]]:
    """What templates, images and defaults have made of services; empty where there are none."""
    return [{identity: each.generation for identity, each in services.items()}] if services else []


def _canonical(
    resources: Mapping[str, Resource], known: TimedMemo[_CanonicalDocument]
) -> Mapping[str, _CanonicalDocument]:
    def make(identity: str, time: PlanTime) -> _CanonicalDocument:
        item, last = resources[identity], known.last(identity)
        if last is not None and last.item == item:
            return last
        values = canonical_document(item)
        return _CanonicalDocument(item, values, full_digest(values))

    return known.values(resources, (resources,), (), PlanTime(0.0), make)


def _hardware_digests(hardware: Mapping[str, Hardware], cache: DesiredCache) -> Mapping[str, str]:
    """Digests of machines by node; the nodes of a pool share one value, which is read once."""
    return {
        name: cache.hardware.get(id(value), (value,), partial(_hardware_digest, value))
        for name, value in hardware.items()
    }


def _hardware_digest(hardware: Hardware) -> str:
    return fingerprint(hardware.model_dump_json())


def _with_defaults(session: Session, group: str | None, cluster: Cluster, images: ImageCatalog) -> Session:
    """With the group that it queues in, and its cluster's defaults: then its document says all that it
    depends on."""
    defaults = cluster.spec.defaults
    env: Mapping[str, str] = {**defaults.env, **session.spec.env}
    update = {"resource_group": group, "image": session.spec.image or defaults.image, "env": env}
    spec = session.spec.model_copy(update=update)
    return session.model_copy(update={"spec": resolve_session_images(spec, images)})
