"""What the engines of a cluster can hold containers to: what all of them can, and why, where one cannot."""

from __future__ import annotations

from collections.abc import Mapping

from providers.base import Capabilities, Limit
from providers.docker.engine.errors import NAME
from providers.docker.engine.facts import EngineFacts
from providers.docker.fleet import Fleet
from providers.docker.swarm import Swarms

_NEVER = {
    Limit.FRACTION: "its group demands no enforcement",
    Limit.HUGEPAGES: "Docker has no limit on them",
}
IN_PLACE = frozenset({"cpus", "memory_nodes", "memory", "pids", "labels"})


def capabilities(fleet: Fleet, swarms: Swarms) -> Capabilities:
    """Of the nodes that can be reached."""
    answers, _ = fleet.ask_all(lambda engine: (engine.facts, engine.leaves_user_namespace))
    known = {node: facts for node, (facts, _) in answers.items()}
    missing = missing_limits(known)
    several = len(fleet.engines) > 1
    swarms.refresh()
    return Capabilities(
        NAME,
        frozenset(Limit) - missing.keys() - _NEVER.keys(),
        {**missing, **_NEVER},
        IN_PLACE,
        pulls=True,
        overlays=swarms.overlays() if several else {},
        no_overlay=swarms.no_overlay() if several else {},
        shared_root=frozenset(
            node for node, (facts, exempt) in answers.items() if exempt or not facts.remapped
        ),
        cautions=merge_cautions(known),
    )


def merge_cautions(known: Mapping[str, EngineFacts]) -> tuple[str, ...]:
    """Each once, with the nodes that it is about."""
    nodes: dict[str, list[str]] = {}
    for node, facts in known.items():
        for caution in facts.cautions:
            nodes.setdefault(caution, []).append(node)
    return tuple(f"{_name_nodes(names)}: {caution}" for caution, names in nodes.items())


def _name_nodes(nodes: list[str]) -> str:
    more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
    return f"node {nodes[0]}{more}"


def missing_limits(known: Mapping[str, EngineFacts]) -> dict[Limit, str]:
    """Limit → the first node that cannot enforce it, and why."""
    found: dict[Limit, str] = {}
    for node, facts in known.items():
        for limit, why in facts.missing.items():
            found.setdefault(limit, f"node {node}: {why}")
    return found
