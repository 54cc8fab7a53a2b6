"""Whether sessions on several nodes of the cluster can have a network of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bai.cli.doctor.check import Finding, Status

if TYPE_CHECKING:
    from bai.settings import Settings
    from providers.base import Capabilities

NAME = "overlay"
_SWARM_HINT = (
    "docker swarm init on one node and join on the others; without, sessions use their nodes' network"
)


def networks(settings: Settings) -> Iterator[Finding]:
    """Only where the provider is docker, has several nodes, and its cluster does not say `network: host`."""
    from schemas.problems.errors.base import BaiError

    try:
        with settings.reading_workspace() as workspace:
            spec = workspace.cluster.spec
            nodes = [node.name for node in workspace.repository.nodes_of(workspace.cluster.name)]
            if spec.provider != "docker" or spec.docker.network == "host" or len(nodes) < 2:
                yield Finding(NAME, "skipped", "sessions here need none")
                return
            can = workspace.provider.capabilities()
    except BaiError as error:
        yield Finding(NAME, "skipped", f"not asked: {error.message}", error.hint)
        return
    yield from swarm_findings(can, nodes, demanded=spec.docker.network == "overlay")


def swarm_findings(can: Capabilities, nodes: list[str], *, demanded: bool) -> Iterator[Finding]:
    """One finding per swarm, and one for each node that is in none."""
    from bai.render.humanize import plural

    bad: Status = "failed" if demanded else "warning"
    swarms: dict[str, list[str]] = {}
    for node in nodes:
        if node in can.overlays:
            swarms.setdefault(can.overlays[node], []).append(node)
        else:
            why = can.no_overlay.get(node, "does not answer")
            yield Finding(f"{NAME} {node}", bad, why, _SWARM_HINT)
    for members in swarms.values():
        what = f"{plural(len(members), 'node')} in one swarm"
        several = len(swarms) > 1
        yield Finding(
            NAME,
            bad if several else "ok",
            what + (f" of {len(swarms)}: {', '.join(members)}" if several else ""),
        )
