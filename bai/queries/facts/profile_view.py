"""What a node is made of: its profile, and of a profile its roles and its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemas.kinds.node import Node, NodePool
from schemas.profile import NodeProfile
from schemas.profile.variables import role_variables
from schemas.repository.node_ranges import pool_nodes

if TYPE_CHECKING:
    from schemas.repository.repository import Repository
    from schemas.values.envelope import Resource

_DERIVED_FIELDS = (("nvidia_driver", "flavour"), ("nvidia_fabricmanager", "version"))
"""Role and field of what follows from elsewhere when it is left out."""


def profile_facts(repository: Repository, identity: str) -> dict[str, object]:
    """Word → what is known: `profile` of a node; `roles`, `nodes` and what is `filledIn` of a profile."""
    node, profile = repository.machines.get(identity), repository.resources.get(identity)
    if node is not None:
        found = repository.profile_of(node)
        return {"profile": found.name} if found else {}
    if isinstance(profile, NodeProfile):
        return _facts_of_profile(repository, profile)
    return {}


def _facts_of_profile(repository: Repository, profile: NodeProfile) -> dict[str, object]:
    given = role_variables(profile.spec)
    users = [node.name for node in repository.machines.values() if repository.profile_of(node) == profile]
    found: dict[str, object] = {"roles": list(profile.spec.roles), "nodes": users}
    filled = {
        f"{role}.{field}": given[role][f"{role}_{field}"]
        for role, field in _DERIVED_FIELDS
        if role in given and getattr(getattr(profile.spec, role), field) is None
    }
    return found | ({"filledIn": filled} if filled else {})


def source_document(repository: Repository, identity: str) -> Resource | None:
    """The document that a resource stands in: a pool's for a node that is one of its names."""
    if identity in repository.resources or identity not in repository.machines:
        return repository.resources.get(identity)
    return next((pool for pool in repository.of(NodePool) if identity in _pool_members(pool)), None)


def _pool_members(pool: NodePool) -> set[str]:
    return {node.identity for node in pool_nodes(pool)}


def node_document(node: Node) -> dict[str, object]:
    """A pool's node as a document of its own, without its hardware."""
    from schemas.values.canonical import canonical_document

    bare = node.model_copy(update={"spec": node.spec.model_copy(update={"hardware": None})})
    return canonical_document(bare)
