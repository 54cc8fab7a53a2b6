"""What one plan does about the nodes that differ from their profiles. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from reconciler.plan.node_rollout import NodeRollout, Occupant, Wave
from reconciler.plan.nodes.occupants import blocking_occupants, node_occupants
from reconciler.plan.nodes.waves import WaveCandidate, plan_waves
from reconciler.provisioning.reasons import ProvisionReason, provision_reason, unready_reason
from reconciler.values.provision_status import ProvisionStatus
from reconciler.values.state import Actual, Desired
from schemas.kinds.cluster import Cluster
from schemas.kinds.node import Node
from schemas.kinds.parts.provisioning import Provisioning
from schemas.values.resource_ref import identity_of

_SHOWN = 3


def plan_rollout(
    desired: Desired,
    actual: Actual,
    may_change: Callable[[str], bool],
    without: frozenset[str] = frozenset(),
    *,
    expanded: bool = True,
) -> NodeRollout | None:
    """None where no node is to be provisioned. `may_change`: whether this plan may change a resource;
    `without`: those that are left alone for a while; `expanded`: whether what is desired holds services'
    replicas."""
    provision_status = actual.provision_status
    if provision_status is None:
        return None
    causes = {
        node: found
        for node in sorted(provision_status.targets)
        if (found := provision_reason(provision_status, actual.provision_records, node))
    }
    if not causes:
        return None
    touched = frozenset(identity for identity in actual.existing if may_change(identity))
    occupants = node_occupants(desired, actual, touched, expanded=expanded)
    candidates = _Candidates(desired, actual, provision_status, causes, occupants, may_change, without)
    rules = _provisioning_rules(desired)
    most = rules.most_unavailable(len(desired.nodes))
    order, waits = candidates.waves(rules, most)
    clearing = candidates.clearing(rules, most, order)
    closed = frozenset[str]() if order else candidates.closed(waits, most - len(clearing))
    return NodeRollout(rules, most, causes, order, waits, closed | clearing, clearing, occupants)


def _provisioning_rules(desired: Desired) -> Provisioning:
    cluster = desired.resources.get(identity_of("Cluster", desired.cluster))
    return cluster.spec.provisioning if isinstance(cluster, Cluster) else Provisioning()


@dataclass(frozen=True, slots=True)
class _Candidates:
    desired: Desired
    actual: Actual
    provision_status: ProvisionStatus
    causes: Mapping[str, ProvisionReason]
    occupants: Mapping[str, tuple[Occupant, ...]]
    may_change: Callable[[str], bool]
    without: frozenset[str]

    def waves(self, rules: Provisioning, most: int) -> tuple[tuple[Wave, ...], dict[str, str]]:
        """The waves, and why nodes are in none."""
        nodes = {node.name: node for node in self.desired.nodes}
        down = self.unavailable()
        waits = {name: why for name in self.causes if (why := self._obstacle(name))}
        free = [self._candidate(nodes[name], down) for name in self.causes if name not in waits]
        free = [one for one in free if self.may_change(identity_of("Node", one.node))]
        held = self._failed_node()
        if held:
            waits |= dict.fromkeys((one.node for one in free if not one.resumed), f"{held} goes first")
            free = []
        proven = self._proven_profiles()
        found = plan_waves(free, most=most, down=len(down), canary=rules.canary, proven=proven)
        taken = {name for wave in found for name in wave}
        full = f"{_are_down(sorted(down))} out of use already, and `maxUnavailable` allows {most}"
        waits |= {one.node: full for one in free if one.node not in taken}
        return found, waits

    def unavailable(self) -> dict[str, str]:
        """Nodes that are out of use though they had joined, and why."""
        found: dict[str, str] = {}
        for node in self.desired.nodes:
            standing = self.actual.provision_records.get(node.name)
            contact = self.actual.contacts.get(node.name)
            known = self.provision_status.sealed(node.name) or bool(contact and contact.reached is not None)
            if node.spec.state != "active":
                found[node.name] = node.spec.state
            elif standing is not None and standing.state in ("failed", "provisioning"):
                found[node.name] = "not provisioned to the end"
            elif node.name in self.actual.missed and known:
                found[node.name] = "not reached"
        return found

    def closed(self, waits: Mapping[str, str], most: int) -> frozenset[str]:
        """Where nothing else is left to do: nodes that take no more sessions, so that theirs come to an
        end."""
        waiting = [
            name
            for name in waits
            if any(blocking_occupants(self.occupants, name))
            and not self._only_services_stay(name)
            and self.may_change(identity_of("Node", name))
        ]
        waiting = [name for name in waiting if name not in self.provision_status.unreached]
        room = max(0, most - len(self.unavailable()))
        return frozenset(sorted(waiting, key=lambda name: (len(self.occupants[name]), name))[:room])

    def clearing(self, rules: Provisioning, most: int, order: Sequence[Wave]) -> frozenset[str]:
        """The nodes of a next wave that are kept from it by services alone, which move their replicas: as
        many as may be out of use beside the wave of this plan. None while a node that failed goes first, nor
        before this plan's canary has proven their profile."""
        if self._failed_node():
            return frozenset()
        nodes, down, proven = (
            {node.name: node for node in self.desired.nodes},
            self.unavailable(),
            self._proven_profiles(),
        )
        found = [
            self._candidate(nodes[name], down)
            for name in self.causes
            if self._only_services_stay(name) and self.may_change(identity_of("Node", name))
        ]
        if order and rules.canary:
            found = [one for one in found if one.profile in proven]
        busy = [self._candidate(nodes[name], down) for name in (order[0] if order else ())]
        taken = len(down) + sum(one.serves for one in busy)
        waves = plan_waves(found, most=most, down=taken, canary=rules.canary, proven=proven)
        return frozenset(waves[0]) if waves else frozenset()

    def _only_services_stay(self, name: str) -> bool:
        """Whether nothing keeps a node from its turn but replicas, which go when others are ready."""
        if self.provision_status.problem or name in self.provision_status.unreached:
            return False
        stays = list(blocking_occupants(self.occupants, name))
        return bool(stays) and all(one.service for one in stays)

    def _obstacle(self, name: str) -> str:
        """Why a node cannot be provisioned now; empty when it can."""
        if self.provision_status.problem:
            return self.provision_status.problem
        if name in self.provision_status.unreached:
            return f"not reached: {self.provision_status.unreached[name]}"
        stays = list(blocking_occupants(self.occupants, name))
        if not stays:
            return ""
        more = f"; and {len(stays) - _SHOWN} more" if len(stays) > _SHOWN else ""
        return "; ".join(f"{one.who} is there: {one.stays}" for one in stays[:_SHOWN]) + more

    def _failed_node(self) -> str:
        """A node whose provisioning failed and that is left alone for a while: the others wait for it."""
        for name, found in self.causes.items():
            if found.resumed and identity_of("Node", name) in self.without and not self._obstacle(name):
                return f"{name}, whose provisioning failed and is tried again later,"
        return ""

    def _candidate(self, node: Node, down: Mapping[str, str]) -> WaveCandidate:
        name = node.name
        idle = bool(
            unready_reason(self.provision_status, self.actual.provision_records, name)
        ) and not self.occupants.get(name)
        return WaveCandidate(
            name,
            self.provision_status.targets[name].profile,
            serves=not idle and name not in down,
            down=name in down,
            resumed=self.causes[name].resumed,
            moves=len({one.who for one in self.occupants.get(name, ()) if one.moved or one.service}),
        )

    def _proven_profiles(self) -> frozenset[str]:
        """Profiles that some node carries as they are now."""
        done = (name for name in self.provision_status.targets if name not in self.causes)
        return frozenset(self.provision_status.targets[name].profile for name in done)


def _are_down(names: list[str]) -> str:
    if not names:
        return "no node is"
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    return f"{shown} {'is' if len(names) == 1 else 'are'}"
