"""How the nodes stand against their profiles: asked now, else as the store remembers it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from providers.condition.values import NodeCondition
from providers.machines.base import Endpoint
from providers.provisioning import HostResult, OnProvisionEvent, Provisioner, ProvisionTarget, ignore_event
from reconciler.provisioning.reasons import provision_reason
from reconciler.provisioning.targets import provision_targets
from reconciler.values.provision_status import ProvisionStatus, condition_json, recorded_condition
from reconciler.values.records import ProvisionRecord
from reconciler.values.state import Actual, Desired
from schemas.problems.errors.base import BaiError


def provision_status(
    desired: Desired,
    endpoints: Iterable[Endpoint],
    provision_records: Mapping[str, ProvisionRecord],
    provisioner: Callable[[], Provisioner] | None,
) -> ProvisionStatus | None:
    """None where no node has a profile: nothing is imported and nobody asked. Without a provisioner only
    what is remembered counts."""
    if not any(desired.repository.profile_of(node) for node in desired.nodes):
        return None
    wanted = provision_targets(desired, endpoints, role_digest)
    seen: Mapping[str, NodeCondition] = {}
    unreached: Mapping[str, str] = {}
    problem = ""
    if provisioner is not None:
        try:
            seen, unreached = provisioner().observe(tuple(wanted.values()))
        except BaiError as error:
            problem = error.message
    old = {name: one for name, one in provision_records.items() if name in wanted and name not in seen}
    known = {name: found for name, one in old.items() if (found := recorded_condition(one))}
    return ProvisionStatus(
        targets=wanted,
        conditions={**known, **seen},
        remembered={name: old[name].seen or 0.0 for name in known},
        unreached=dict(unreached),
        problem=problem,
    )


def role_digest(roles: frozenset[str]) -> str:
    """Of the roles that this program comes with."""
    from providers.ansible import roles_path
    from providers.condition.fingerprint import roles_digest

    return roles_digest(roles_path(), roles)


def nodes_to_check(actual: Actual) -> tuple[ProvisionTarget, ...]:
    """Nodes whose roles can say what they would change: those that differ and can be reached."""
    found = actual.provision_status
    if found is None or found.problem:
        return ()
    names = (name for name in sorted(found.targets) if name not in found.unreached)
    return tuple(
        found.targets[name] for name in names if provision_reason(found, actual.provision_records, name)
    )


def add_role_checks(
    actual: Actual, provisioner: Provisioner, on_event: OnProvisionEvent = ignore_event
) -> Actual:
    """The same with what the roles would change on the nodes that differ. Never raises: what cannot be asked
    is told of each node."""
    wanted = nodes_to_check(actual)
    if actual.provision_status is None or not wanted:
        return actual
    try:
        found = dict(provisioner.check(wanted, on_event))
    except BaiError as error:
        found = {one.node: HostResult(one.node, ok=False, failed=error.message) for one in wanted}
    return replace(actual, provision_status=replace(actual.provision_status, checks=found))


def condition_changes(actual: Actual, now: float) -> Iterator[ProvisionRecord]:
    """What the store has to be told of the nodes that were looked at."""
    found = actual.provision_status
    for node, condition in sorted(found.conditions.items() if found is not None else ()):
        assert found is not None
        known = actual.provision_records.get(node, ProvisionRecord(node))
        text = condition_json(condition)
        if node not in found.remembered and text != known.condition:
            yield replace(known, condition=text, seen=now)
