"""What `bai simulate` is about: the cluster as if nothing ran, the sessions of a trace, policies, replays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bai.settings import Settings
from schemas.values.resource_ref import identity_of

if TYPE_CHECKING:
    from planner.policies import Policies
    from planner.simulation.values import Cluster, Job, Replay
    from schemas.repository.repository import Repository


def read_simulation(
    settings: Settings, trace: Path, nodes: Path | None, group: str | None, load: float
) -> tuple[Cluster, list[Job]]:
    """The cluster, and the sessions of the trace in its groups."""
    from bai.traces.load import assign_group, check_groups, compress_arrivals, read_trace
    from schemas.problems.errors.command import CommandError

    if not 0 < load < 1e9:
        raise CommandError(why=f"--load: {load:g} is not a factor above 0")
    cluster, repository, default = (
        _cluster_of_repository(settings, group) if nodes is None else _cluster_of_file(nodes, group)
    )
    names = [one.name for one in cluster.groups]
    jobs = read_trace(trace, repository, group or default)
    if group is not None:
        jobs = assign_group(jobs, group)
    check_groups(jobs, names, str(trace))
    return cluster, compress_arrivals(jobs, load)


def _cluster_of_repository(settings: Settings, group: str | None) -> tuple[Cluster, Repository, str]:
    """The repository's cluster as if nothing ran, and the group of sessions that name none."""
    from bai.queries.names.resource_names import resolve_name
    from planner.simulation.values import Cluster
    from reconciler.plan.place.snapshot import make_snapshot, node_infos
    from schemas.problems.errors.command import CommandError

    with settings.workspace() as workspace:
        desired, actual = workspace.desired(), workspace.actual(offline=True)
        default = workspace.cluster.spec.defaults.resource_group
    infos, warnings = node_infos(desired, actual)
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)
    if not infos:
        hint = "declare the hardware, give --nodes, or run `bai plan` where the nodes can be probed"
        raise CommandError(why="no node's hardware is known", hint=hint)
    if group is not None:
        resolve_name(group, [identity_of("ResourceGroup", name) for name in desired.groups], "ResourceGroup")
    empty = make_snapshot(desired, actual, infos, (), (), 0.0)
    only = next(iter(desired.groups)) if len(desired.groups) == 1 else ""
    return Cluster(empty.nodes, empty.groups, empty.quotas), desired.repository, default or only


def _cluster_of_file(nodes: Path, group: str | None) -> tuple[Cluster, Repository, str]:
    """The nodes of a list, all in one group with default rules."""
    from bai.traces.load import read_nodes
    from planner.model.types import GroupInfo
    from planner.simulation.values import Cluster
    from schemas.repository.repository import Repository

    name = group or "trace"
    return Cluster(read_nodes(nodes, name), (GroupInfo(name),)), Repository({}, {}), name


def replay_trials(
    cluster: Cluster,
    jobs: Sequence[Job],
    queue: str | None,
    selection: str | None,
    numa: str | None,
    *,
    until: float | None,
) -> list[tuple[str, Replay]]:
    """What became of the jobs under each combination of policies that is named. Raises CommandError."""
    from bai.traces.policies import policy_trials
    from planner.simulation.replay import replay
    from planner.simulation.values import Cluster

    policies, known = _load_policies(cluster, queue, selection)
    return [
        (
            trial.name,
            replay(Cluster(cluster.nodes, trial.groups, cluster.quotas), jobs, policies, until=until),
        )
        for trial in policy_trials(cluster.groups, queue, selection, numa, known)
    ]


def _load_policies(
    cluster: Cluster, queue: str | None, selection: str | None
) -> tuple[Policies, dict[str, list[str]]]:
    """The policies that groups and options name, and the names of all that are installed."""
    from reconciler.workspace.placement_policies import load_policies, policy_names

    queues = {name.strip().partition(":")[0] for name in (queue or "").split(",")}
    queues |= {one.queue for one in cluster.groups}
    chosen = {name.strip() for name in (selection or "").split(",")}
    chosen |= {one.selection for one in cluster.groups}
    return load_policies(queues, chosen), policy_names()
