"""What a plan's targets take along. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from reconciler.plan.nodes.occupants import resources_to_evacuate
from reconciler.plan.references import references
from reconciler.values.documents.recorded_documents import recorded_resource
from reconciler.values.services.status import ServiceStatus
from reconciler.values.state import Actual, Desired
from schemas.problems.errors.plan import PlanError
from schemas.repository.repository import Repository
from schemas.values.envelope import Resource
from schemas.values.resource_ref import identity_of


def plan_scope(
    desired: Desired, actual: Actual, targets: Sequence[str], *, destroy: bool
) -> frozenset[str] | None:
    """The identities that a plan for these targets may change; None for all. A target takes along what it
    refers to, and those who have to leave a node; when it is destroyed, what refers to it."""
    if not targets:
        return None
    if not destroy:
        named = target_closure(targets, desired.resources, actual.existing, desired.repository)
        leavers = resources_to_evacuate(actual, named)
        return named | target_closure(leavers, desired.resources, actual.existing, desired.repository)
    referrers: dict[str, set[str]] = {}
    for identity, each in actual.existing.items():
        item = recorded_resource(identity, each.recorded.document)
        for ref in references(item, desired.repository) if item else ():
            referrers.setdefault(ref, set()).add(identity)
    done: set[str] = set()
    todo = set(target_closure(targets, {}, {*actual.existing, *desired.resources}, desired.repository))
    while todo:
        identity = todo.pop()
        done.add(identity)
        todo |= referrers.get(identity, set()) - done
    return frozenset(done)


def replicas_of(targets: Sequence[str], services: Iterable[ServiceStatus]) -> tuple[str, ...]:
    """The replicas of the services that are targeted."""
    return tuple(
        each.session
        for service in services
        if any(fnmatchcase(service.service, target) for target in targets)
        for each in service.replicas
    )


def target_closure(
    targets: Iterable[str], resources: Mapping[str, Resource], existing: Iterable[str], repository: Repository
) -> frozenset[str]:
    """The targeted identities (patterns such as `Session/vision/*` allowed) and all that they refer to,
    directly or not.

    Raises PlanError for a target that names nothing.
    """
    machines = {identity_of("Node", node.name) for node in repository.machines.values()}
    known = sorted({*resources, *existing, *machines})
    todo: list[str] = []
    for target in targets:
        found = [identity for identity in known if identity == target or fnmatchcase(identity, target)]
        if not found:
            raise PlanError(why=f"target {target} names no resource", hint=_target_hint(target, known))
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


def _target_hint(target: str, known: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(target, known, 1)
    return f"did you mean {near[0]}?" if near else "targets are identities such as Session/project/name"
