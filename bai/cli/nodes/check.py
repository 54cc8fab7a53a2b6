"""`bai nodes check`: whether nodes let bai in, what runs sessions there answers, and how healthy they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from bai.cli.formats import Format
from bai.settings import Settings

if TYPE_CHECKING:
    from providers.health.values import Health
    from providers.machines.reachability import Reach
    from reconciler.workspace.workspace import Workspace
    from schemas.kinds.node import Node


def nodes_named(workspace: Workspace, names: Sequence[str]) -> list[Node]:
    """These nodes of the cluster; all without any names. Raises NoSuchResource."""
    from bai.cli.resource_names import resolve

    nodes = {f"Node/{node.name}": node for node in workspace.desired().nodes}
    wanted = dict.fromkeys(resolve(name, nodes, "Node") for name in names)
    return [nodes[identity] for identity in wanted] if wanted else list(nodes.values())


def check_nodes(settings: Settings, names: Sequence[str], format: Format) -> bool:
    """Print a line for each, and what to do about those that cannot be used; False when there are any."""
    with settings.workspace() as workspace:
        wanted = {node.name for node in nodes_named(workspace, names)}
        found, silent = reached(workspace, wanted)
        health = health_now(workspace, {one.node for one in found if not one.problem})
    if format is Format.json:
        _print_json(found, silent, health)
    else:
        _print(settings, found, silent, health)
        _print_findings(health, notes=bool(names))
    bad = any(one.problem or one.severity == "critical" for one in health.values())
    return not silent and not bad and not any(one.problem for one in found)


def health_now(workspace: Workspace, nodes: Collection[str]) -> Mapping[str, Health]:
    """The health of these nodes, asked now."""
    from reconciler.observe.health import look

    hardware = workspace.hardware(offline=True)
    now = workspace.clock.now()
    return look(
        nodes, workspace.desired(), workspace.cluster, workspace.endpoints(), hardware, now, fresh=0.0
    )


def settle_nodes(settings: Settings, names: Sequence[str]) -> None:
    """Mark the logs of these nodes. Raises ProviderError."""
    from providers.health.ask import settle
    from providers.machines.connections import connect

    with settings.workspace() as workspace:
        wanted = {node.name for node in nodes_named(workspace, names)}
        for endpoint in workspace.endpoints():
            if endpoint.name in wanted:
                settle(connect(endpoint))


def reached(workspace: Workspace, nodes: set[str]) -> tuple[tuple[Reach, ...], Mapping[str, str]]:
    """What came of logging in, and node → why the provider cannot ask it."""
    from providers.machines.reachability import reach_all
    from schemas.problems.errors import ProviderError

    native = (
        workspace.cluster.spec.provider == "process"
    )  # runs on this machine, whatever its nodes are called
    wanted = [
        dataclasses.replace(each, local=each.local or native)
        for each in workspace.endpoints()
        if each.name in nodes
    ]
    found = reach_all(wanted)
    try:
        silent = workspace.provider.observe().unreachable
    except ProviderError as error:
        silent = dict.fromkeys(nodes, error.message)
    return found, {node: why for node, why in silent.items() if node in nodes}


def _print_json(found: Sequence[Reach], silent: Mapping[str, str], health: Mapping[str, Health]) -> None:
    from bai.cli.output import print_json
    from bai.render.nodes.health import as_json
    from providers.health.metrics import health_metrics

    rows = [
        {
            **dataclasses.asdict(one),
            "provider": silent.get(one.node, ""),
            "health": as_json(health[one.node]) if one.node in health else None,
        }
        for one in found
    ]
    metrics = [dataclasses.asdict(metric) for metric in health_metrics(health.values())]
    print_json("bai.node-check/v1", nodes=rows, metrics=metrics)


def _print_findings(health: Mapping[str, Health], *, notes: bool) -> None:
    from bai.cli.output import emit
    from bai.render.nodes.health import lines

    for one in health.values():
        for text, hint in lines(one, notes=notes):
            emit(f"\n{text}")
            if hint:
                emit(f"  {hint}")


def _print(
    settings: Settings, found: Sequence[Reach], silent: Mapping[str, str], health: Mapping[str, Health]
) -> None:
    from bai.cli.output import emit, table
    from bai.render.humanize import clean

    rows = [
        [one.node, one.address, _login(one), "no" if one.node in silent else "yes", _word(one, health)]
        for one in found
    ]
    table(settings, ["node", "address", "login", "sessions", "health"], rows)
    for one in found:
        for what, hint in ((one.problem, one.hint), (silent.get(one.node, ""), "")):
            if what and not (one.problem and what != one.problem and one.problem in what):
                emit(f"\n{clean(one.node)}: {clean(what)}")
                if hint:
                    emit(f"  {clean(hint)}")


def _word(one: Reach, health: Mapping[str, Health]) -> str:
    from bai.render.nodes.health import word

    return word(health[one.node]) if one.node in health else "unknown"


def _login(one: Reach) -> str:
    if one.problem:
        return "failed"
    return "this machine" if one.local else f"{one.user}, {one.seconds:.2f} s"
