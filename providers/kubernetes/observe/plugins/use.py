"""Who has how many of the devices that are counted, as numbers that plans can give away. Pure.

A number that a kernel of bai's has stays its own. Of the others as many are free as are left: the rest are
taken by others' pods, or not allocatable, whichever they are in the world.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from providers.kubernetes.objects.counted import CountedDevices
from providers.kubernetes.observe.devices import DeviceIndex
from providers.kubernetes.observe.foreign import ForeignPod
from providers.kubernetes.observe.nodes import ClusterNode
from providers.kubernetes.observe.plugins.offers import counted_ids, devices_given, parent_id
from providers.kubernetes.observe.pods import OwnPod
from schemas.hardware.anonymous import AnonymousDevice


@dataclass(frozen=True, slots=True)
class CountedUse:
    """Node → ids: `taken` by others' pods, and `offered` to whomever. Nodes without such devices are left
    out."""

    taken: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    offered: Mapping[str, frozenset[str]] = field(default_factory=dict)


NOTHING = CountedUse()


def counted_use(
    nodes: Iterable[ClusterNode],
    devices: DeviceIndex,
    own: Iterable[OwnPod],
    foreign: Iterable[ForeignPod],
) -> CountedUse:
    given = {
        node.name: found
        for node in nodes
        if node.counted and (found := devices_given(node, devices.of(node.name)))
    }
    if not given:
        return NOTHING
    asked: Counter[tuple[str, str]] = Counter()
    held: dict[tuple[str, str], set[int]] = {}
    others: Counter[tuple[str, str]] = Counter()
    for pod in own:
        where = pod.kernel.labels.node
        if pod.counted and where in given:
            asked.update({(where, name): amount for name, amount in pod.counted.items()})
            for each in pod.held:
                held.setdefault((where, each.resource), set()).add(each.number)
    for stranger in foreign:
        if stranger.counted and stranger.node in given:
            others.update({(stranger.node, name): amount for name, amount in stranger.counted.items()})
    taken: dict[str, tuple[str, ...]] = {}
    offered: dict[str, frozenset[str]] = {}
    for name, found in given.items():
        shared = [
            _share_out(name, each, held.get((name, each.resource), set()),
                       asked[name, each.resource], others[name, each.resource])
            for each in found
        ]  # fmt: skip
        gone = tuple(sorted(device for one, _ in shared for device in one))
        if gone:
            taken[name] = gone
        parents = {parent_id(name)} if any(each.profile for each in found) else set()
        offered[name] = frozenset(parents.union(*(two for _, two in shared)))
    return CountedUse(taken, offered)


def _share_out(
    node: str, given: CountedDevices, held: set[int], asked: int, others: int
) -> tuple[tuple[str, ...], frozenset[str]]:
    """What others have, and all that is offered. `held`: numbers of bai's kernels; `asked`: how many their
    pods ask for."""
    ours = max(asked, len(held))
    ids = counted_ids(node, given)
    rest = [name for number, name in enumerate(ids) if number not in held]
    free = max(0, given.allocatable - ours - others)
    strangers = others + ours - len(held)
    taken = rest[free : free + strangers]
    kept = {AnonymousDevice(node, given.resource, number).id for number in held}
    return tuple(taken), frozenset({*kept, *rest[:free], *taken})
