"""A provisioner without machines: deterministic, in memory, with faults on demand.

`FakeNodes` is what survives (the nodes with their seals); `FakeProvisioner` is one handle on it, as a process
that may die would hold.

    machines = Machines(["n1", "n2"])
    provisioner = FakeProvisioner(machines)
    machines.inject(NodeFault("n1", "fail"))       # the next provisioning of n1 fails at its first task
    machines.drift("n1", "sysctl vm.swappiness", "1", "60")
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from providers.condition.values import Deviation, NodeCondition, ProvisionStamp
from providers.provisioning import (
    HostResult,
    OnProvisionEvent,
    ProvisionEvent,
    ProvisionTarget,
    StopRequested,
    TaskChange,
    ignore_event,
    never_stop,
)
from schemas.problems.errors.provisioning import NodeBusy

ProvisionMoment = Literal["before", "during", "after"]
NodeTrouble = Literal["fail", "unreachable", "busy", "half"]
"""`fail`: a task fails at once; `half`: it fails after something was changed; `busy`: somebody else is at
it."""


@dataclass(frozen=True, slots=True)
class NodeFault:
    """What goes wrong the next `times` times that `node` (None: any) is provisioned."""

    node: str | None = None
    trouble: NodeTrouble = "fail"
    times: int = 1
    why: str = "injected fault"


@dataclass(slots=True)
class FakeNode:
    """One machine: its stamp, and what was changed behind everybody's back since."""

    stamp: ProvisionStamp | None = None
    deviations: tuple[Deviation, ...] = ()
    os: str = "debian-12"
    boots: int = 1
    reboot_pending: str = ""
    provisioned: int = 0
    """How often it was brought to its end."""


@dataclass
class FakeNodes:
    """All nodes there are. `down`: node → why it cannot be reached. `restarts`: nodes that a profile's next
    provisioning reboots. `at(node, moment)` is called around and in the midst of each provisioning and may
    raise anything, for example a simulated kill."""

    names: Iterable[str] = ()
    clock: Callable[[], float] = lambda: 0.0
    down: dict[str, str] = field(default_factory=dict)
    restarts: set[str] = field(default_factory=set)
    at: Callable[[str, ProvisionMoment], None] = lambda node, moment: None
    busy: set[str] = field(default_factory=set)
    """Nodes that are being provisioned at this moment."""
    log: list[tuple[str, str]] = field(default_factory=list)
    """What was called, on which node."""

    def __post_init__(self) -> None:
        self.nodes = {name: FakeNode() for name in self.names}
        self.lock = threading.RLock()
        self._faults: list[NodeFault] = []

    def inject(self, fault: NodeFault) -> None:
        self._faults.append(fault)

    def drift(self, node: str, what: str, expected: str, found: str) -> None:
        """Somebody changes something by hand."""
        one = self.nodes[node]
        one.deviations = (*one.deviations, Deviation(what, expected, found))

    def take_fault(self, node: str) -> NodeFault | None:
        """The fault that comes now, if any."""
        for position, fault in enumerate(self._faults):
            if fault.node in (None, node):
                left = replace(fault, times=fault.times - 1)
                self._faults[position : position + 1] = [left] if left.times else []
                return fault
        return None


class FakeProvisioner:
    """A `Provisioner` on `FakeNodes`. Any number of handles may share them, from any thread."""

    def __init__(self, machines: FakeNodes) -> None:
        self.machines = machines

    def observe(
        self, targets: Sequence[ProvisionTarget]
    ) -> tuple[Mapping[str, NodeCondition], Mapping[str, str]]:
        world = self.machines
        with world.lock:
            world.log += [("observe", target.node) for target in targets]
            names = [target.node for target in targets]
            unreached = {name: world.down[name] for name in names if name in world.down}
            return {name: _condition(world, name) for name in names if name not in unreached}, unreached

    def check(
        self,
        targets: Sequence[ProvisionTarget],
        tell: OnProvisionEvent = ignore_event,
        stop: StopRequested = never_stop,
    ) -> Mapping[str, HostResult]:
        world = self.machines
        with world.lock:
            world.log += [("check", target.node) for target in targets]
            return {target.node: self._checked(target) for target in targets}

    def _checked(self, target: ProvisionTarget) -> HostResult:
        if target.node in self.machines.down:
            why = self.machines.down[target.node]
            return HostResult(target.node, ok=False, failed=why, unreachable=True)
        return HostResult(
            target.node, ok=True, changed=_expected_changes(self.machines.nodes[target.node], target)
        )

    def provision(
        self, target: ProvisionTarget, tell: OnProvisionEvent = ignore_event, stop: StopRequested = never_stop
    ) -> HostResult:
        world, name = self.machines, target.node
        with world.lock:
            world.log.append(("provision", name))
            world.at(name, "before")
            if name in world.busy:
                raise NodeBusy(node=name, why="another apply")
            if name in world.down:
                return HostResult(name, ok=False, failed=world.down[name], unreachable=True)
            fault = world.take_fault(name)
            if fault is not None and fault.trouble == "busy":
                raise NodeBusy(node=name, why=fault.why)
            world.busy.add(name)
            try:
                result = self._provisioned(target, fault, tell)
                world.at(name, "after")
                return result
            finally:
                world.busy.discard(name)

    def _provisioned(
        self, target: ProvisionTarget, fault: NodeFault | None, tell: OnProvisionEvent
    ) -> HostResult:
        world, name = self.machines, target.node
        node = world.nodes[name]
        tell(ProvisionEvent(name, "start"))
        if fault is not None and fault.trouble in ("fail", "unreachable"):
            tell(ProvisionEvent(name, "failed", message=fault.why))
            return HostResult(name, ok=False, failed=fault.why, unreachable=fault.trouble == "unreachable")
        changes = _expected_changes(node, target)
        if node.stamp is not None:
            node.stamp = replace(node.stamp, unfinished=True)
        for change in changes:
            tell(ProvisionEvent(name, "changed", change.role, change.task))
        world.at(name, "during")
        if fault is not None:
            return HostResult(name, ok=False, changed=changes, failed=fault.why)
        rebooted = name in world.restarts and target.reboot_allowed
        if rebooted:
            world.restarts.discard(name)
            node.boots += 1
            tell(ProvisionEvent(name, "reboot", message="a new kernel is installed"))
        node.stamp = ProvisionStamp(
            target.profile, target.fingerprint, dict(target.document), world.clock(), str(node.boots)
        )
        node.deviations, node.reboot_pending = (), ""
        node.provisioned += 1
        tell(ProvisionEvent(name, "sealed"))
        return HostResult(name, ok=True, changed=changes, rebooted=rebooted)


def _condition(world: FakeNodes, name: str) -> NodeCondition:
    node = world.nodes[name]
    return NodeCondition(
        name, node.stamp, node.deviations, node.os, "6.1.0", str(node.boots), node.reboot_pending
    )


def _expected_changes(node: FakeNode, target: ProvisionTarget) -> tuple[TaskChange, ...]:
    """One task for each role, where the node is not what it is to be, and one for each deviation."""
    if node.stamp is None or node.stamp.unfinished or node.stamp.fingerprint != target.fingerprint:
        return tuple(TaskChange(role, f"Set up {role}") for role in target.roles)
    return tuple(TaskChange("", f"Restore {each.what}", str(each)) for each in node.deviations)
