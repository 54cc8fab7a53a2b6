"""What one plan does about the nodes that differ from their profiles. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.plan.nodes.occupants import Occupant, occupants, staying
from reconciler.plan.nodes.waves import Candidate, Wave, waves
from reconciler.provisioning.reasons import Cause, cause, unready
from reconciler.values.provision_status import Upkeep
from reconciler.values.state import Actual, Desired
from schemas.kinds.cluster import Cluster
from schemas.kinds.node import Node
from schemas.kinds.provisioning import Provisioning

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Rolling:
    """`causes`: every node that is to be provisioned, and why; `waits`: those that cannot be, and why not.

    Nodes of the first of `waves` are emptied and provisioned by this plan; `closed` ones take nothing new,
    because nothing but their sessions' end is waited for.
    """

    rules: Provisioning
    most: int
    causes: Mapping[str, Cause] = field(default_factory=dict)
    waves: tuple[Wave, ...] = ()
    waits: Mapping[str, str] = field(default_factory=dict)
    closed: frozenset[str] = frozenset()
    there: Mapping[str, tuple[Occupant, ...]] = field(default_factory=dict)

    @property
    def wave(self) -> Wave:
        return self.waves[0] if self.waves else ()

    def moves(self, node: str) -> tuple[str, ...]:
        """Sessions that go on elsewhere when it is the node's turn."""
        return tuple(sorted({one.who for one in self.there.get(node, ()) if one.moved}))


def rolling(
    desired: Desired, actual: Actual, touches: Callable[[str], bool], without: frozenset[str] = frozenset()
) -> Rolling | None:
    """None where no node is to be provisioned. `touches`: whether this plan may change a resource; `without`:
    those that are left alone for a while."""
    upkeep = actual.upkeep
    if upkeep is None:
        return None
    causes = {
        node: found for node in sorted(upkeep.targets) if (found := cause(upkeep, actual.standings, node))
    }
    if not causes:
        return None
    touched = frozenset(identity for identity in actual.existing if touches(identity))
    there = occupants(desired, actual, touched)
    view = _View(desired, actual, upkeep, causes, there, touches, without)
    rules = _rules(desired)
    most = rules.most_unavailable(len(desired.nodes))
    order, waits = view.waves(rules, most)
    closed = frozenset[str]() if order else view.closed(waits, most)
    return Rolling(rules, most, causes, order, waits, closed, there)


def _rules(desired: Desired) -> Provisioning:
    cluster = desired.resources.get(f"Cluster/{desired.cluster}")
    return cluster.spec.provisioning if isinstance(cluster, Cluster) else Provisioning()


@dataclass(frozen=True, slots=True)
class _View:
    desired: Desired
    actual: Actual
    upkeep: Upkeep
    causes: Mapping[str, Cause]
    there: Mapping[str, tuple[Occupant, ...]]
    touches: Callable[[str], bool]
    without: frozenset[str]

    def waves(self, rules: Provisioning, most: int) -> tuple[tuple[Wave, ...], dict[str, str]]:
        """The waves, and why nodes are in none."""
        nodes = {node.name: node for node in self.desired.nodes}
        down = self.down()
        waits = {name: why for name in self.causes if (why := self._kept(name))}
        free = [self._candidate(nodes[name], down) for name in self.causes if name not in waits]
        free = [one for one in free if self.touches(f"Node/{one.node}")]
        held = self._held()
        if held:
            waits |= dict.fromkeys((one.node for one in free if not one.resumed), f"{held} goes first")
            free = []
        proven = self._proven()
        found = waves(free, most=most, down=len(down), canary=rules.canary, proven=proven)
        taken = {name for wave in found for name in wave}
        full = f"{_names(sorted(down))} out of use already, and `maxUnavailable` allows {most}"
        waits |= {one.node: full for one in free if one.node not in taken}
        return found, waits

    def down(self) -> dict[str, str]:
        """Nodes that are out of use though they had joined, and why."""
        found: dict[str, str] = {}
        for node in self.desired.nodes:
            standing = self.actual.standings.get(node.name)
            contact = self.actual.contacts.get(node.name)
            known = self.upkeep.sealed(node.name) or bool(contact and contact.reached is not None)
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
        waiting = [name for name in waits if any(staying(self.there, name)) and self._mine(name)]
        waiting = [name for name in waiting if name not in self.upkeep.unreached]
        room = max(0, most - len(self.down()))
        return frozenset(sorted(waiting, key=lambda name: (len(self.there[name]), name))[:room])

    def _mine(self, name: str) -> bool:
        return self.touches(f"Node/{name}")

    def _kept(self, name: str) -> str:
        """Why a node cannot be provisioned now; empty when it can."""
        if self.upkeep.problem:
            return self.upkeep.problem
        if name in self.upkeep.unreached:
            return f"not reached: {self.upkeep.unreached[name]}"
        stays = list(staying(self.there, name))
        if not stays:
            return ""
        more = f"; and {len(stays) - _SHOWN} more" if len(stays) > _SHOWN else ""
        return "; ".join(f"{one.who} is there: {one.stays}" for one in stays[:_SHOWN]) + more

    def _held(self) -> str:
        """A node whose provisioning failed and that is left alone for a while: the others wait for it."""
        for name, found in self.causes.items():
            if found.resumed and f"Node/{name}" in self.without and not self._kept(name):
                return f"{name}, whose provisioning failed and is tried again later,"
        return ""

    def _candidate(self, node: Node, down: Mapping[str, str]) -> Candidate:
        name = node.name
        idle = bool(unready(self.upkeep, self.actual.standings, name)) and not self.there.get(name)
        return Candidate(
            name,
            self.upkeep.targets[name].profile,
            serves=not idle and name not in down,
            down=name in down,
            resumed=self.causes[name].resumed,
            moves=len({one.who for one in self.there.get(name, ()) if one.moved}),
        )

    def _proven(self) -> frozenset[str]:
        """Profiles that some node carries as they are now."""
        done = (name for name in self.upkeep.targets if name not in self.causes)
        return frozenset(self.upkeep.targets[name].profile for name in done)


def _names(names: list[str]) -> str:
    if not names:
        return "no node is"
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    return f"{shown} {'is' if len(names) == 1 else 'are'}"


def leaving(found: Rolling | None) -> Mapping[str, str]:
    """Nodes that sessions leave for this plan, and what they have become."""
    return {name: "to be provisioned" for name in found.wave} if found else {}


def closing(found: Rolling | None) -> Iterator[tuple[str, str]]:
    """Nodes that take nothing new for this plan, and why."""
    if found is not None:
        for name in found.wave:
            yield name, f"to be provisioned: {found.causes[name].why}"
        for name in sorted(found.closed):
            yield name, f"to be provisioned, {found.waits[name]}"
