"""A repository's documents → `Desired`: what they say for one cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from reconciler.sources.source import choose_cluster
from reconciler.values.encoding.placement_json import fingerprint
from reconciler.values.state import Desired
from schemas.hardware.model import Hardware
from schemas.images.catalog import ImageCatalog
from schemas.images.session_images import resolve_session_images
from schemas.kinds.cluster import Cluster
from schemas.kinds.session import Session
from schemas.repository.repository import Repository
from schemas.values.canonical import DIGEST_LENGTH, canonical_document, full_digest
from schemas.values.envelope import Resource
from schemas.values.memo import Memo


@dataclass(frozen=True, slots=True)
class _CanonicalDocument:
    values: Mapping[str, Any]
    digest: str
    """All 64 digits."""


class DesiredCache:
    """What making the same cluster's `Desired` again and again need not do anew. For one thread."""

    def __init__(self) -> None:
        self.sessions: Memo[str, Session] = Memo()
        self.documents: Memo[str, _CanonicalDocument] = Memo()
        self.hardware: Memo[int, str] = Memo()
        self.images: Memo[str, ImageCatalog] = Memo()

    def fork(self) -> DesiredCache:
        """One more, for another thread, that begins with what this one knows."""
        made = DesiredCache()
        made.sessions, made.documents = self.sessions.fork(), self.documents.fork()
        made.hardware, made.images = self.hardware.fork(), self.images.fork()
        return made

    def begin(self) -> None:
        """All will be asked for again."""
        for memo in (self.sessions, self.documents, self.hardware, self.images):
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
    resources: dict[str, Resource] = {}
    others: dict[str, Resource] = {}
    for identity, item in sorted(repository.resources.items()):
        owner = repository.cluster_of(item)
        if owner not in (None, cluster):
            others[identity] = item
        elif isinstance(item, Session):
            group = repository.group_of(item)
            made_of = (item, group.name if group else item.spec.resource_group, chosen, images)
            resources[identity] = cache.sessions.get(identity, made_of, partial(_with_defaults, *made_of))
        else:
            resources[identity] = item
    documents, rest = _canonical_documents(resources, cache), _canonical_documents(others, cache)
    hardware = {node.name: node.spec.hardware for node in repository.nodes_of(cluster) if node.spec.hardware}
    digests = [{identity: one.digest for identity, one in each.items()} for each in (documents, rest)]
    return Desired(
        repo=repo,
        cluster=cluster,
        commit=commit,
        tree=fingerprint([*digests, _hardware_digests(hardware, cache)]),
        repository=repository,
        resources=resources,
        documents={identity: one.values for identity, one in documents.items()},
        digests={identity: one.digest[:DIGEST_LENGTH] for identity, one in documents.items()},
    )


def _canonical_documents(
    resources: Mapping[str, Resource], cache: DesiredCache
) -> Mapping[str, _CanonicalDocument]:
    return {
        identity: cache.documents.get(identity, (item,), partial(_canonical, item))
        for identity, item in resources.items()
    }


def _canonical(item: Resource) -> _CanonicalDocument:
    values = canonical_document(item)
    return _CanonicalDocument(values, full_digest(values))


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
