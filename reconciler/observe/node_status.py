"""How the nodes stand against their profiles: asked now, else as the store remembers it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from providers.condition.values import Condition
from providers.machines.base import Endpoint
from providers.provisioning import HostResult, Provisioner, Target, Tell, untold
from reconciler.provisioning.reasons import cause
from reconciler.provisioning.targets import targets
from reconciler.values.provision_status import Upkeep, condition_text, remembered_condition
from reconciler.values.records import Standing
from reconciler.values.state import Actual, Desired
from schemas.problems.errors import BaiError


def upkeep(
    desired: Desired,
    endpoints: Iterable[Endpoint],
    standings: Mapping[str, Standing],
    provisioner: Callable[[], Provisioner] | None,
) -> Upkeep | None:
    """None where no node has a profile: nothing is imported and nobody asked. Without a provisioner only
    what is remembered counts."""
    if not any(desired.repository.profile_of(node) for node in desired.nodes):
        return None
    wanted = targets(desired, endpoints, role_digest)
    seen: Mapping[str, Condition] = {}
    unreached: Mapping[str, str] = {}
    problem = ""
    if provisioner is not None:
        try:
            seen, unreached = provisioner().observe(tuple(wanted.values()))
        except BaiError as error:
            problem = error.message
    old = {name: one for name, one in standings.items() if name in wanted and name not in seen}
    known = {name: found for name, one in old.items() if (found := remembered_condition(one))}
    return Upkeep(
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


def to_check(actual: Actual) -> tuple[Target, ...]:
    """Nodes whose roles can say what they would change: those that differ and can be reached."""
    found = actual.upkeep
    if found is None or found.problem:
        return ()
    names = (name for name in sorted(found.targets) if name not in found.unreached)
    return tuple(found.targets[name] for name in names if cause(found, actual.standings, name))


def checked(actual: Actual, provisioner: Provisioner, tell: Tell = untold) -> Actual:
    """The same with what the roles would change on the nodes that differ. Never raises: what cannot be asked
    is told of each node."""
    wanted = to_check(actual)
    if actual.upkeep is None or not wanted:
        return actual
    try:
        found = dict(provisioner.check(wanted, tell))
    except BaiError as error:
        found = {one.node: HostResult(one.node, ok=False, failed=error.message) for one in wanted}
    return replace(actual, upkeep=replace(actual.upkeep, checks=found))


def seen(actual: Actual, now: float) -> Iterator[Standing]:
    """What the store has to be told of the nodes that were looked at."""
    found = actual.upkeep
    for node, condition in sorted(found.conditions.items() if found is not None else ()):
        assert found is not None
        known = actual.standings.get(node, Standing(node))
        text = condition_text(condition)
        if node not in found.remembered and text != known.condition:
            yield replace(known, condition=text, seen=now)
