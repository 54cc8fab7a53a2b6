"""How many requests get the best NUMA nodes and devices of their machine while others come and go.

    python -m benchmarks.locality --topologies DIR --json FILE

Sessions with whole GPUs, parts of GPUs and without any arrive on one machine and leave again, so that it
stays about as full as each load says. For every one the placement is compared with the best there is at that
moment (`locality_optimum`, by trying all): fewest NUMA nodes, then least distance, then best links of GPUs.
Machines: even ones with 1, 2, 4 and 8 NUMA nodes, and every capture below DIR that `bai nodes import` reads;
what is refused is named with its reason. JSON: `optimal_share` and `requests` by topology and load, `misses`,
`refused`, `unasked` (machines on which nothing of this could run), `wall_s`.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.locality_optimum import Ask, Machine, Quality
from planner.model.types import (
    Fractional,
    GroupInfo,
    KernelPlacement,
    KernelRequest,
    NodeInfo,
    SessionRequest,
)
from planner.nodes.node_table import MapperCache, NodeTable
from planner.selection.concentrated import Concentrated
from planner.selection.gang import ShapeCache, try_place
from planner.selection.node_scorer import NodeScorer
from schemas.hardware.capture_reader import HardwareError, read_hardware
from schemas.hardware.model import Gpu, Hardware, Link, NumaNode

GIB = 1 << 30
LOADS = (50, 75, 90)
SYNTHETIC = (1, 2, 4, 8)
GROUP = GroupInfo("bench", fractional=Fractional(quantum=10))
MOST_SHOWN = 20

Place = Callable[[SessionRequest], KernelPlacement | None]


@dataclass(slots=True)
class Count:
    """One topology at one load. Requests that no mapping could carry are not counted, unless one was made."""

    requests: int = 0
    optimal: int = 0
    misses: list[str] = field(default_factory=list)

    @property
    def share(self) -> float | None:
        return self.optimal / self.requests if self.requests else None


def synthetic(numa: int) -> Hardware:
    """96 cores, 8 GPUs and 1 TiB, evenly over the NUMA nodes; GPUs of one pair linked by NVLink."""
    each = 96 // numa
    nodes = tuple(
        NumaNode(
            id=at,
            cpus=tuple(range(at * each, (at + 1) * each)),
            memory=1024 * GIB // numa,
            distances={
                other: 10 if other == at else 12 if other // 2 == at // 2 else 32 for other in range(numa)
            },
        )
        for at in range(numa)
    )
    gpus = tuple(
        Gpu(id=f"GPU-{at}", index=at, model="synthetic", numa_node=at * numa // 8, memory=80 * GIB)
        for at in range(8)
    )
    links = tuple(Link(a=f"GPU-{at}", b=f"GPU-{at ^ 1}", kind="NV", count=4) for at in range(0, 8, 2))
    return Hardware(numa_nodes=nodes, gpus=gpus, links=links)


def captures(folder: Path) -> Iterator[tuple[str, Hardware | str]]:
    """Every file below the folder: its machine, or why it is refused."""
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        name = str(path.relative_to(folder))
        try:
            yield name, read_hardware(name, path.read_bytes())
        except HardwareError as error:
            first = error.problems[0]
            yield name, f"{first.message}; {first.hint}" if first.hint else first.message
        except OSError as error:
            yield name, error.strerror or "cannot be read"


class Planner:
    """The planner on one machine: places sessions by its own rules, and takes them off."""

    def __init__(self, hardware: Hardware) -> None:
        self.table = NodeTable((NodeInfo("machine", hardware, GROUP.name),), MapperCache())
        self._scorer = NodeScorer(self.table, "concentrated", Concentrated(GROUP, self.table))
        self._shapes = ShapeCache(GROUP)

    def place(self, session: SessionRequest) -> KernelPlacement | None:
        placed = try_place(self._scorer, session, self._shapes.of(session))
        return placed.kernels[0] if placed else None

    def release(self, session: str) -> None:
        self.table.release({session})


def churn(machine: Machine, planner: Planner, load: int, requests: int, chance: random.Random) -> Count:
    """Let `requests` sessions arrive, and others leave before each, so that the machine stays that full."""
    count, held = Count(), dict[str, KernelPlacement]()
    slot = machine.family.slot.removesuffix(".device") if machine.family else "cuda"
    capacity = _left(machine)
    for number in range(requests):
        while held and _fullness(machine, capacity) >= load:
            gone = chance.choice(sorted(held))
            machine.change(held.pop(gone), 1)
            planner.release(gone)
        ask = draw(machine, chance)
        session = _session(f"s{number:05}", ask, slot)
        best, placed = machine.optimum(ask), planner.place(session)
        _judge(count, machine, ask, best, placed)
        if placed is not None:
            held[session.id] = placed
            machine.change(placed, -1)
    return count


def draw(machine: Machine, chance: random.Random) -> Ask:
    """A request in proportion to the machine: 45 % whole GPUs, 30 % parts, the rest without. Where a capture
    knows no CPUs, only GPUs are asked for."""
    cores = len(machine.topology.cores)
    if not cores:
        return Ask(0, 0, whole=chance.randint(1, max(1, machine.devices // 2)))
    domain = max(1, cores // len(machine.topology.domains))
    memory = sum(machine.topology.memory)
    kind = chance.random() if machine.devices else 1.0
    if kind >= 0.75:
        wanted = chance.choice([1, 2, max(1, domain // 4), max(1, domain // 2), domain])
        return Ask(min(wanted, cores), memory * wanted // cores // 2)
    share = max(1, cores // machine.devices)
    if kind >= 0.45:
        milli = chance.choice([100, 250, 330, 500, 700, 1500, 2250])
        return Ask(max(1, share * milli // 2000), memory * milli // (2000 * machine.devices), milli=milli)
    whole = min(chance.choice([1, 1, 2, 2, 3, 4, 8]), machine.devices)
    most = chance.choice([share * whole // 2, share * whole * 3 // 4, share * whole])
    return Ask(max(1, most), memory * whole // machine.devices // 2, whole=whole)


def _left(machine: Machine) -> tuple[int, int]:
    """Free milli of devices, and free cores."""
    return sum(machine.free), sum(machine.cores)


def _fullness(machine: Machine, capacity: tuple[int, int]) -> float:
    """Per cent that is taken of what there is least left of, devices or cores."""
    left = zip(_left(machine), capacity, strict=True)
    return max((100 * (1 - free / whole) for free, whole in left if whole), default=0.0)


def _session(name: str, ask: Ask, slot: str) -> SessionRequest:
    slots = {"cpu": 1000 * ask.cores, "mem": ask.memory}
    slots |= {f"{slot}.device": ask.whole} if ask.whole else {}
    slots |= {f"{slot}.shares": ask.milli} if ask.milli else {}
    return SessionRequest(name, GROUP.name, (KernelRequest("main1", "main", 1, slots),))


def _judge(
    count: Count, machine: Machine, ask: Ask, best: Quality | None, placed: KernelPlacement | None
) -> None:
    if best is None and placed is None:
        return
    count.requests += 1
    got = machine.quality(placed) if placed is not None else None
    if best is not None and got is not None and got <= best:
        count.optimal += 1
    else:
        count.misses.append(f"{asdict(ask)}: best is {best}, got {got}")


def measure(name: str, hardware: Hardware, requests: int, loads: Sequence[int]) -> dict[int, Count]:
    counts = {}
    for load in loads:
        planner = Planner(hardware)
        machine = Machine(planner.table.topologies[0])
        counts[load] = churn(machine, planner, load, requests, random.Random(f"{name} {load}"))
    return counts


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topologies", type=Path, help="a folder of captures")
    parser.add_argument("--json", type=Path, help="where the result goes")
    parser.add_argument("--requests", type=int, default=100, help="per topology and load (100)")
    given = parser.parse_args(arguments)
    if given.topologies is not None and not given.topologies.is_dir():
        parser.error(f"{given.topologies} is no folder")
    if given.requests < 1:
        parser.error("--requests must be at least 1")
    began = time.monotonic()
    machines: list[tuple[str, Hardware | str]] = [(f"{n} NUMA nodes", synthetic(n)) for n in SYNTHETIC]
    machines += captures(given.topologies) if given.topologies is not None else ()
    found = {
        name: measure(name, one, given.requests, LOADS) for name, one in machines if not isinstance(one, str)
    }
    refused = {name: why for name, why in machines if isinstance(why, str)}
    report = _report(found, refused, time.monotonic() - began)
    _print(found, refused)
    if given.json is not None:
        try:
            given.json.write_text(json.dumps(report, indent=1) + "\n")
        except OSError as error:
            print(f"{given.json}: {error.strerror}", file=sys.stderr)
            return 1
    return 0


def _report(found: dict[str, dict[int, Count]], refused: dict[str, str], wall: float) -> dict[str, object]:
    misses = [
        f"{name} at {load} %: {miss}"
        for name, counts in found.items()
        for load, count in counts.items()
        for miss in count.misses
    ]
    unasked = [name for name, counts in found.items() if not any(one.requests for one in counts.values())]
    return {
        "optimal_share": {
            name: {str(at): one.share for at, one in all_.items() if one.share is not None}
            for name, all_ in found.items()
            if name not in unasked
        },
        "requests": {
            name: {str(at): one.requests for at, one in all_.items()} for name, all_ in found.items()
        },
        "misses": misses[:MOST_SHOWN],
        "missed": len(misses),
        "refused": refused,
        "unasked": unasked,
        "wall_s": round(wall, 3),
    }


def _print(found: dict[str, dict[int, Count]], refused: dict[str, str]) -> None:
    width = max(map(len, found))
    print(
        f"{'topology':<{width}}  "
        + "  ".join(f"{load:>5} %" for load in LOADS)
        + "   share that got the optimum"
    )
    for name, counts in found.items():
        shares = (
            f"{100 * one.share:>6.1f}%" if one.share is not None else f"{'-':>7}" for one in counts.values()
        )
        print(f"{name:<{width}}  " + "  ".join(shares))
    asked = sum(one.requests for counts in found.values() for one in counts.values())
    missed = sum(len(one.misses) for counts in found.values() for one in counts.values())
    total = f"{asked} requests on {len(found)} machines, {missed} without the optimum"
    print(f"{total}; {len(refused)} files refused")
    for name, why in refused.items():
        print(f"  {name}: {why}")


if __name__ == "__main__":
    raise SystemExit(main())
