"""The node provisioning service of a workspace. Nothing is imported or opened before it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from providers.provisioning import OnProvisionEvent, ignore_event
from schemas.problems.errors.plan import StalePlan
from schemas.values.resource_ref import identity_of

if TYPE_CHECKING:
    from providers.machines.base import Endpoint
    from providers.provisioning import Provisioner
    from reconciler.apply.node_effects import ProvisionerAccess
    from reconciler.values.plan import Plan
    from reconciler.values.results import ApplyResult
    from reconciler.values.rollout import Provision
    from reconciler.values.state import Actual, Desired


class NodeProvisioning:
    """One workspace's; `open_provisioner` is called once, when somebody has to be asked. Setting
    `provisioner` puts another one in its place."""

    def __init__(self, open_provisioner: Callable[[], Provisioner]) -> None:
        self._open = open_provisioner
        self._provisioner: Provisioner | None = None

    @property
    def provisioner(self) -> Provisioner:
        """Raises ProvisioningImpossible where Ansible cannot run."""
        if self._provisioner is None:
            self._provisioner = self._open()
        return self._provisioner

    @provisioner.setter
    def provisioner(self, provisioner: Provisioner) -> None:
        self._provisioner = provisioner

    def adopt(self, other: NodeProvisioning) -> None:
        """Go on with what another one has opened."""
        self._provisioner = other._provisioner

    def add_status(
        self, actual: Actual, desired: Desired, endpoints: Iterable[Endpoint], *, offline: bool
    ) -> Actual:
        """The same with how the nodes stand against their profiles."""
        from reconciler.observe.node_status import provision_status

        provisioner = None if offline else lambda: self.provisioner
        return replace(
            actual,
            provision_status=provision_status(desired, endpoints, actual.provision_records, provisioner),
        )

    def add_checks(self, actual: Actual, on_event: OnProvisionEvent = ignore_event) -> Actual:
        """The same with what the roles would change on nodes that differ from their profiles."""
        from reconciler.observe.node_status import add_role_checks, nodes_to_check

        return add_role_checks(actual, self.provisioner, on_event) if nodes_to_check(actual) else actual

    def access_for(self, plan: Plan, endpoints: Callable[[], Iterable[Endpoint]]) -> ProvisionerAccess | None:
        """What an apply of this plan needs for its nodes; None when it provisions none.

        Raises StalePlan when the roles are not those that it was made with.
        """
        provisions = list(_provisions(plan))
        if not provisions:
            return None
        from reconciler.apply.node_effects import ProvisionerAccess
        from reconciler.observe.node_status import role_digest

        for each in provisions:
            if not each.fits(role_digest(frozenset(each.roles))):
                why = f"the roles of this bai are not those that {each.node} was to be provisioned with"
                raise StalePlan(why=why, hint="plan again")
        return ProvisionerAccess(self.provisioner, {each.name: each for each in endpoints()})


def touched_nodes(plan: Plan, result: ApplyResult) -> bool:
    """Whether an apply provisioned, or tried to: what was known of how nodes are reached, and of what they
    are, is over then."""
    tried = {each.action for each in result.results if each.outcome in ("done", "failed")}
    return any(identity_of("Node", each.node) in tried for each in _provisions(plan))


def _provisions(plan: Plan) -> Iterator[Provision]:
    for action in plan.changes:
        if action.provision is not None:
            yield action.provision
