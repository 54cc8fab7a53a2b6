"""What the loop remembers and says of nodes that are provisioned."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from reconciler.values.plan import Action, Plan
from reconciler.values.results import ApplyEvent
from reconciler.values.state import Actual
from schemas.values.resource_ref import identity_of, ref_of

REPEATED_WITHIN = 600.0
"""Seconds within which a node that is to be provisioned again was not provisioned well."""


class RolloutWatch:
    """One loop's memory. `goes_on`: another pass is due at once, for the next wave or the sessions."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self.goes_on = False
        self._log = log
        self._done: dict[str, tuple[str, float]] = {}

    def record_provisioned(self, action: Action, now: float) -> bool:
        """Note that a node was provisioned; whether it had been brought to the very same shortly before."""
        wanted = action.provision
        if wanted is None:
            return False
        before = self._done.get(wanted.node)
        self._done[wanted.node] = (wanted.fingerprint, now)
        return (
            before is not None and before[0] == wanted.fingerprint and 0 <= now - before[1] < REPEATED_WITHIN
        )

    def on_event(self, event: ApplyEvent) -> None:
        """Tell the steps of an apply that take long."""
        if event.kind == "step" and event.state == "started" and event.step.startswith("provision "):
            self._log(f"provisioning {event.kernel}")
        elif event.node is not None and event.node.what == "reboot" and event.node.node:
            self._log(f"{event.node.node} is rebooted: {event.node.message or 'a role needs it'}")


def retry_digest(action: Action) -> str:
    """What a failure is remembered of: a changed one is tried at once."""
    if action.provision is not None:
        return action.provision.fingerprint
    return action.after.digest if action.after else ""


def retry_digests(actual: Actual) -> dict[str, str]:
    """Node → what it is to be, in the words of `retry_digest`."""
    found = actual.provision_status
    return (
        {identity_of("Node", name): one.fingerprint for name, one in found.targets.items()} if found else {}
    )


def provisioning_lines(plan: Plan) -> Iterator[str]:
    """What is wrong with nodes, and what is waited for."""
    for drift in plan.drifts:
        if ref_of(drift.resource).kind == "Node":
            yield f"drift of {drift.resource}: {drift.what}"
    for wait in plan.rollout.waits if plan.rollout else ():
        yield f"{wait.node} is to be provisioned and waits: {wait.why}"
