"""Who provisions the nodes of an open workspace. Nothing is imported or opened before it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from providers.provisioning import Tell, untold
from reconciler.values.plan import Plan
from reconciler.values.state import Actual
from schemas.problems.errors import StalePlan

if TYPE_CHECKING:
    from providers.provisioning import Provisioner
    from reconciler.apply.node_effects import Site
    from reconciler.values.results import ApplyResult
    from reconciler.values.rollout import Provision
    from reconciler.workspace.workspace import Workspace


class Workshop:
    """One workspace's. Setting `provisioner` puts another one in place of Ansible."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._provisioner: Provisioner | None = None

    @property
    def provisioner(self) -> Provisioner:
        """Raises ProvisioningImpossible where Ansible cannot run."""
        if self._provisioner is None:
            from providers.ansible import open_provisioner

            workspace = self._workspace
            forks = workspace.cluster.spec.provisioning.parallel
            root = workspace.state.key_file.parent
            self._provisioner = open_provisioner(root, workspace.secrets.infrastructure, forks=forks)
        return self._provisioner

    @provisioner.setter
    def provisioner(self, provisioner: Provisioner) -> None:
        self._provisioner = provisioner

    def take_over(self, other: Workshop) -> None:
        """Go on with what another one has opened."""
        self._provisioner = other._provisioner

    @property
    def wanted(self) -> bool:
        """Whether any node has a profile."""
        workspace = self._workspace
        nodes = workspace.repository.nodes_of(workspace.cluster.name)
        return any(workspace.repository.profile_of(node) for node in nodes)

    def seen(self, actual: Actual, *, offline: bool) -> Actual:
        """The same with how the nodes stand against their profiles."""
        if not self.wanted:
            return actual
        from reconciler.observe.node_status import upkeep

        workspace = self._workspace
        provisioner = None if offline else lambda: self.provisioner
        found = upkeep(workspace.desired(), workspace.endpoints(), actual.standings, provisioner)
        return replace(actual, upkeep=found)

    def checked(self, actual: Actual, tell: Tell = untold) -> Actual:
        """The same with what the roles would change on nodes that differ from their profiles."""
        from reconciler.observe.node_status import checked, to_check

        return checked(actual, self.provisioner, tell) if to_check(actual) else actual

    def site(self, plan: Plan) -> Site | None:
        """What an apply of this plan needs for its nodes; None when it provisions none.

        Raises StalePlan when the roles are not those that it was made with.
        """
        provisions = list(_provisions(plan))
        if not provisions:
            return None
        from reconciler.apply.node_effects import Site
        from reconciler.observe.node_status import role_digest

        for each in provisions:
            if not each.fits(role_digest(frozenset(each.roles))):
                why = f"the roles of this bai are not those that {each.node} was to be provisioned with"
                raise StalePlan(why=why, hint="plan again")
        endpoints = {each.name: each for each in self._workspace.endpoints()}
        return Site(self.provisioner, endpoints)

    def done(self, plan: Plan, result: ApplyResult) -> bool:
        """Whether nodes were touched: what was known of how they are reached, and of what they are, is over
        then."""
        tried = {each.action for each in result.results if each.outcome in ("done", "failed")}
        return any(f"Node/{each.node}" in tried for each in _provisions(plan))


def _provisions(plan: Plan) -> Iterator[Provision]:
    for action in plan.changes:
        if action.after is not None and action.after.provision is not None:
            yield action.after.provision
