"""Making what is asked of an autoscaler so: what a plan asks for is there once, and nothing else of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from providers.abilities import AsksForNodes
from providers.autoscaling.values import AskedNodes, NodeAsks, NodeRequest, owner_mark
from reconciler.values.plan import Plan
from schemas.problems.errors.provider import ProviderError

Key = tuple[str, str]


class NodeRequests:
    """Of one loop."""

    def __init__(self) -> None:
        self._looked_at: object = None

    def settle(
        self,
        plan: Plan,
        asks: NodeAsks | None,
        provider: object,
        lease: Callable[[], AbstractContextManager[Any]],
    ) -> tuple[str, ...]:
        """Withdraw first: quotas count what is asked for. Gives what went wrong, in words; the next pass
        tries again. Where all is as it is to be, nobody is asked. Raises LeaseHeld, StoreError."""
        if not isinstance(provider, AsksForNodes):
            return ()
        there = self._there(plan, asks, provider)
        make, drop = changes(plan.node_requests, there)
        if not make and not drop:
            return ()
        wrong = []
        with lease():
            for asked in drop:
                try:
                    provider.withdraw_request(asked)
                except ProviderError as error:
                    wrong.append(f"ProvisioningRequest {asked.namespace}/{asked.name} stays: {error.message}")
            for request in make:
                try:
                    provider.ask_for_nodes(request)
                except ProviderError as error:
                    wrong.append(f"no node is asked for, for {request.session}: {error.message}")
        return tuple(wrong)

    def _there(self, plan: Plan, asks: NodeAsks | None, provider: AsksForNodes) -> Mapping[Key, AskedNodes]:
        """Where no group asks for nodes, what is left of a time when one did is looked for once."""
        if asks is not None:
            own = owner_mark(plan.repo, plan.cluster)
            return {key: each for key, each in asks.requests.items() if each.owner == own}
        if provider is self._looked_at:
            return {}
        self._looked_at = provider
        try:
            return {each.key: each for each in provider.requests_left(plan.repo, plan.cluster)}
        except ProviderError:
            self._looked_at = None
            return {}


def changes(
    wanted: tuple[NodeRequest, ...], there: Mapping[Key, AskedNodes]
) -> tuple[list[NodeRequest], list[AskedNodes]]:
    """What is to be made, and what is to go. Pure."""
    names = {each.key for each in wanted}
    make = [each for each in wanted if each.key not in there or there[each.key].state == "incomplete"]
    return make, [each for key, each in sorted(there.items()) if key not in names]
