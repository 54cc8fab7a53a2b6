"""`bai nodes check`: whether nodes let bai in, what runs sessions there answers, and how healthy they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from bai.cli.formats import Format
from bai.settings import Settings
from schemas.values.resource_ref import identity_of

if TYPE_CHECKING:
    from providers.health.values import NodeHealth
    from providers.machines.base import Endpoint
    from providers.machines.reachability import Reachability
    from reconciler.values.state import Desired
    from reconciler.workspace.workspace import Workspace
    from schemas.kinds.node import Node


def resolve_nodes(desired: Desired, names: Sequence[str]) -> list[Node]:
    """These nodes of the cluster; all without any names. Raises NoSuchResource."""
    from bai.queries.names.resource_names import resolve_name

    nodes = {identity_of("Node", node.name): node for node in desired.nodes}
    wanted = dict.fromkeys(resolve_name(name, nodes, "Node") for name in names)
    return [nodes[identity] for identity in wanted] if wanted else list(nodes.values())


def check_nodes(settings: Settings, names: Sequence[str], format: Format) -> bool:
    """Print a line for each, and what to do about those that cannot be used; False when there are any."""
    with settings.reading_workspace() as workspace:
        wanted = {node.name for node in resolve_nodes(workspace.desired(), names)}
        found, silent = check_reachability(workspace, wanted)
        health = observe_health(workspace, {one.node for one in found if not one.problem})
    if format is Format.json:
        _print_json(found, silent, health)
    else:
        _print(settings, found, silent, health)
        _print_findings(health, notes=bool(names))
    bad = any(one.problem or one.severity == "critical" for one in health.values())
    return not silent and not bad and not any(one.problem for one in found)


def observe_health(workspace: Workspace, nodes: Collection[str]) -> Mapping[str, NodeHealth]:
    """The health of these nodes, asked now."""
    from reconciler.observe.health import check_health

    if workspace.cluster.spec.provider in WITHOUT_LOGIN:
        return {}
    hardware = workspace.hardware(offline=True)
    now = workspace.clock.now()
    return check_health(
        nodes, workspace.desired(), workspace.cluster, workspace.endpoints(), hardware, now, fresh=0.0
    )


def settle_nodes(settings: Settings, names: Sequence[str]) -> None:
    """Mark the logs of these nodes. Raises ProviderError."""
    from providers.health.query import settle_log
    from providers.machines.connections import connect

    with settings.reading_workspace() as workspace:
        wanted = {node.name for node in resolve_nodes(workspace.desired(), names)}
        for endpoint in workspace.endpoints():
            if endpoint.name in wanted:
                settle_log(connect(endpoint))


WITHOUT_LOGIN = frozenset({"kubernetes"})
"""Providers that nobody needs a login on a node for."""


def _asked(wanted: Sequence[Endpoint]) -> tuple[Reachability, ...]:
    from providers.machines.reachability import Reachability

    return tuple(Reachability(each.name, "") for each in wanted)


def check_reachability(
    workspace: Workspace, nodes: set[str]
) -> tuple[tuple[Reachability, ...], Mapping[str, str]]:
    """What came of logging in, and node → why the provider cannot ask it."""
    from providers.machines.reachability import check_nodes
    from schemas.problems.errors.provider import ProviderError

    native = (
        workspace.cluster.spec.provider == "process"
    )  # runs on this machine, whatever its nodes are called
    wanted = [
        dataclasses.replace(each, local=each.local or native)
        for each in workspace.endpoints()
        if each.name in nodes
    ]
    found = check_nodes(wanted) if workspace.cluster.spec.provider not in WITHOUT_LOGIN else _asked(wanted)
    try:
        silent = workspace.provider.observe().unreachable
    except ProviderError as error:
        silent = dict.fromkeys(nodes, error.message)
    return found, {node: why for node, why in silent.items() if node in nodes}


def _print_json(
    found: Sequence[Reachability], silent: Mapping[str, str], health: Mapping[str, NodeHealth]
) -> None:
    from bai.cli.output import print_json
    from bai.render.nodes.health import health_json
    from providers.health.metrics import health_metrics

    rows = [
        {
            **dataclasses.asdict(one),
            "provider": silent.get(one.node, ""),
            "health": health_json(health[one.node]) if one.node in health else None,
        }
        for one in found
    ]
    metrics = [dataclasses.asdict(metric) for metric in health_metrics(health.values())]
    print_json("bai.node-check/v1", nodes=rows, metrics=metrics)


def _print_findings(health: Mapping[str, NodeHealth], *, notes: bool) -> None:
    from bai.cli.output import print_line
    from bai.render.nodes.health import health_lines

    for one in health.values():
        for text, hint in health_lines(one, notes=notes):
            print_line(f"\n{text}")
            if hint:
                print_line(f"  {hint}")


def _print(
    settings: Settings,
    found: Sequence[Reachability],
    silent: Mapping[str, str],
    health: Mapping[str, NodeHealth],
) -> None:
    from bai.cli.output import print_line, print_table
    from bai.render.humanize import clean

    rows = [
        [
            one.node,
            one.address,
            _login_text(one),
            "no" if one.node in silent else "yes",
            _health_text(one, health),
        ]
        for one in found
    ]
    print_table(settings, ["node", "address", "login", "sessions", "health"], rows)
    for one in found:
        for what, hint in ((one.problem, one.hint), (silent.get(one.node, ""), "")):
            if what and not (one.problem and what != one.problem and one.problem in what):
                print_line(f"\n{clean(one.node)}: {clean(what)}")
                if hint:
                    print_line(f"  {clean(hint)}")


def _health_text(one: Reachability, health: Mapping[str, NodeHealth]) -> str:
    from bai.render.nodes.health import health_summary

    return health_summary(health[one.node]) if one.node in health else "unknown"


def _login_text(one: Reachability) -> str:
    if one.problem:
        return "failed"
    if one.local or not one.address:
        return "this machine" if one.local else "not needed"
    return f"{one.user}, {one.seconds:.2f} s"
