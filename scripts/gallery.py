"""Draws docs/gallery: the same request placed by each policy on captured machines; `--check` tells whether
what is there is what is drawn now.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bai.render.nodes.picture import HeldPlacement, NodePicture, node_picture
from bai.render.nodes.svg import render_nodes_svg
from planner.model.types import (
    Fractional,
    GroupInfo,
    KernelRequest,
    NodeInfo,
    Outcome,
    Placement,
    Running,
    SessionRequest,
    Snapshot,
)
from planner.place import place
from planner.policies import built_in_policies
from schemas.hardware.capture_reader import read_hardware
from schemas.hardware.model import Hardware

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "gallery"
CAPTURES = ROOT / "tests" / "data" / "topology"
EXAMPLES = ROOT / "examples" / "clusters"


@dataclass(frozen=True)
class Scene:
    """Machines with what runs there already, and one thing that is asked for."""

    name: str
    heading: str
    nodes: tuple[NodeInfo, ...]
    asked: tuple[SessionRequest, ...]
    policies: Mapping[str, GroupInfo]
    """Policies by the words that they are shown under; each makes a picture."""
    running: tuple[SessionRequest, ...] = ()
    """Placed before, in this order, on the node that each is designated to."""


def machine(path: Path) -> Hardware:
    return read_hardware(path.name, path.read_bytes())


def nodes(hardware: Hardware, group: str, *names: str, leaves: Sequence[str] = ()) -> tuple[NodeInfo, ...]:
    labels = [{"bai/leaf": leaf} for leaf in leaves] or [{} for _ in names]
    return tuple(
        NodeInfo(name, hardware, group, labels=label) for name, label in zip(names, labels, strict=True)
    )


def session(
    name: str, cpu: int, *, on: str = "", containers: int = 1, shared: bool = False, **slots: int
) -> SessionRequest:
    """`cpu` in milli-cores; `gpu` whole devices, `shares` thousandths of the user's unit."""
    words = {"gpu": "cuda.device", "shares": "cuda.shares"}
    wanted = {"cpu": cpu, **{words[word]: amount for word, amount in slots.items()}}
    kernels = tuple(
        KernelRequest("main1" if at == 0 else f"sub{at}", "main" if at == 0 else "sub", max(at, 1), wanted)
        for at in range(containers)
    )
    return SessionRequest(
        id=f"Session/demo/{name}",
        group="g",
        kernels=kernels,
        multi_node=containers > 1,
        exclusive_cpus=not shared,
        designated=frozenset({on} if on else ()),
    )


def group(selection: str = "concentrated", **fields: object) -> GroupInfo:
    return replace(GroupInfo(name="g", selection=selection), **fields)  # type: ignore[arg-type]


def by_selection() -> dict[str, GroupInfo]:
    return {name: group(name) for name in ("concentrated", "dispersed", "roundrobin", "least-fragmentation")}


def scenes() -> Iterator[Scene]:
    t4 = machine(CAPTURES / "hwloc-xml-mpibind/g4dnmetal.xml")
    trio = nodes(t4, "g", "t4-01", "t4-02", "t4-03")
    used = (
        session("eval", 12_000, on="t4-01", gpu=3),
        session("tune", 8_000, on="t4-02", gpu=2),
        session("prep", 20_000, on="t4-02"),
        session("serve", 4_000, on="t4-02", gpu=4),
    )
    ask = (session("train", 8_000, gpu=2),)
    yield Scene("nodes", "2 GPUs and 8 cores", trio, ask, by_selection(), used)

    a100 = nodes(machine(CAPTURES / "nccl-xml/azure-ndv4-topo.xml"), "g", "a100-01")
    numa = {
        "prefer-single-node": group(numa="prefer-single-node"),
        "interleaving": group(numa="interleaving"),
    }
    yield Scene("numa", "4 GPUs and 16 cores", a100, (session("train", 16_000, gpu=4),), numa)

    v100 = nodes(machine(CAPTURES / "hwloc-xml-mpibind/coral-lassen.xml"), "g", "v100-01")
    shares = tuple(session(name, 2_000, shares=3000) for name in ("ada", "bob"))
    rules = {
        "fill": group(fractional=Fractional(shares_per_device=2, spread="fill")),
        "even": group(fractional=Fractional(shares_per_device=2, spread="even")),
    }
    yield Scene("fractions", "twice 3 fGPU, where 2 make one device", v100, shares, rules)

    h100 = machine(EXAMPLES / "dgx-h100/hardware/dgx-h100.json")
    four = nodes(h100, "g", "h100-01", "h100-02", "h100-03", "h100-04", leaves=("a", "b", "a", "b"))
    yield Scene(
        "gang",
        "2 containers of 4 GPUs and 16 cores each",
        four,
        (session("train", 16_000, containers=2, gpu=4),),
        {name: group(name) for name in ("concentrated", "dispersed")},
        (session("serve", 16_000, on="h100-01", gpu=4), session("eval", 48_000, on="h100-02", gpu=6)),
    )


def placed(scene: Scene) -> tuple[Running, ...]:
    """What runs before, each placed on its own so that its node is the designated one."""
    found: list[Running] = []
    for one in scene.running:
        snapshot = Snapshot(scene.nodes, (group(),), running=tuple(found), pending=(one,))
        outcome = place(snapshot, built_in_policies())
        found.append(Running(one, outcome.placements[0]))
    return tuple(found)


def draw(scene: Scene, policy: str, rules: GroupInfo) -> str:
    before = placed(scene)
    snapshot = Snapshot(scene.nodes, (rules,), running=before, pending=scene.asked)
    outcome = place(snapshot, built_in_policies())
    if outcome.waits:
        raise ValueError(f"{scene.name}, {policy}: {outcome.waits[0].reasons[0].message}")
    held = [HeldPlacement(one.placement, new=False) for one in before]
    held += [HeldPlacement(placement) for placement in outcome.placements]
    pictures = [_titled(node_picture(replace(node, group=""), held), node) for node in scene.nodes]
    return render_nodes_svg(pictures, f"{policy}: {scene.heading}", _notes(outcome))


def _titled(drawn: NodePicture, node: NodeInfo) -> NodePicture:
    leaf = node.labels.get("bai/leaf")
    return replace(drawn, name=f"{node.name}, leaf switch {leaf}") if leaf else drawn


def _notes(outcome: Outcome) -> list[str]:
    return [f"{one.session.rpartition('/')[2]}: {_why(one)}" for one in outcome.placements]


def _why(placement: Placement) -> str:
    choice = placement.choice
    if choice is None:
        return ""
    spread = f", over {choice.numa_nodes} NUMA nodes" if choice.numa_nodes > 1 else ""
    runner = f", before {choice.runner_up}" if choice.runner_up else ""
    detail = f": {choice.notes}" if choice.notes else ""
    return f"{choice.score}{runner}{spread}{detail}"


def files() -> dict[str, str]:
    """File name → SVG."""
    return {
        f"{scene.name}-{policy}.svg": draw(scene, policy, rules)
        for scene in scenes()
        for policy, rules in scene.policies.items()
    }


def stale(made: Mapping[str, str]) -> list[str]:
    there = {path.name: path.read_text(encoding="utf-8") for path in PICTURES.glob("*.svg")}
    names = sorted({*made, *there})
    return [f"docs/gallery/{name} is not fresh" for name in names if made.get(name) != there.get(name)]


def main(arguments: list[str]) -> int:
    made = files()
    if "--check" in arguments:
        problems = stale(made)
        print("\n".join(problems) + "\nrun `make generate`" if problems else "the gallery is fresh")
        return 1 if problems else 0
    PICTURES.mkdir(exist_ok=True)
    for old in PICTURES.glob("*.svg"):
        old.unlink()
    for name, text in made.items():
        (PICTURES / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
