"""How one node stands against its profile, for those who show it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.provisioning.reasons import Kind, cause, unready
from reconciler.values.state import Actual


@dataclass(frozen=True, slots=True)
class Stands:
    """`kind` is empty for a node that is as its profile says; `sealed` and `seen` are seconds since the
    epoch."""

    profile: str
    kind: Kind | None = None
    why: str = ""
    """Why it is to be provisioned."""
    unready: str = ""
    """Why it takes no sessions."""
    sealed: float | None = None
    """When it was provisioned; None: never, as far as is known."""
    seen: float | None = None
    """When this was so, where nobody looked now."""
    unreached: str = ""
    reboot: str = ""
    """Why it waits for a reboot."""
    deviations: tuple[str, ...] = ()


def stands(actual: Actual, node: str) -> Stands | None:
    """None for a node without a profile."""
    upkeep = actual.upkeep
    if upkeep is None or node not in upkeep.targets:
        return None
    condition, standing = upkeep.conditions.get(node), actual.standings.get(node)
    found = cause(upkeep, actual.standings, node)
    at = condition.sealed.at if condition is not None and condition.sealed is not None else None
    if at is None and standing is not None and standing.state == "ready":
        at = standing.at
    return Stands(
        upkeep.targets[node].profile,
        found.kind if found else None,
        found.why if found else "",
        unready(upkeep, actual.standings, node),
        at,
        upkeep.remembered.get(node),
        upkeep.unreached.get(node, ""),
        condition.reboot_pending if condition else "",
        tuple(str(each) for each in condition.deviations) if condition else (),
    )
