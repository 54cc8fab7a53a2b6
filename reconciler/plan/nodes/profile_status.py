"""How one node stands against its profile, for those who show it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.provisioning.reasons import ReasonKind, provision_reason, unready_reason
from reconciler.values.state import Actual


@dataclass(frozen=True, slots=True)
class ProfileStatus:
    """`kind` is empty for a node that is as its profile says; `sealed` and `seen` are seconds since the
    epoch."""

    profile: str
    kind: ReasonKind | None = None
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


def profile_status(actual: Actual, node: str) -> ProfileStatus | None:
    """None for a node without a profile."""
    provision_status = actual.provision_status
    if provision_status is None or node not in provision_status.targets:
        return None
    condition, standing = provision_status.conditions.get(node), actual.provision_records.get(node)
    found = provision_reason(provision_status, actual.provision_records, node)
    at = condition.stamp.at if condition is not None and condition.stamp is not None else None
    if at is None and standing is not None and standing.state == "ready":
        at = standing.at
    return ProfileStatus(
        provision_status.targets[node].profile,
        found.kind if found else None,
        found.why if found else "",
        unready_reason(provision_status, actual.provision_records, node),
        at,
        provision_status.remembered.get(node),
        provision_status.unreached.get(node, ""),
        condition.reboot_pending if condition else "",
        tuple(str(each) for each in condition.deviations) if condition else (),
    )
