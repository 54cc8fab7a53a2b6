"""`bai logs`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.completion import complete_sessions
from bai.cli.context import settings_of
from bai.cli.lazy_commands import new_app

if TYPE_CHECKING:
    from bai.cli.services.replica_logs import ReplicaSource
    from bai.cli.sessions.logs import LogRequest
    from bai.remote.cluster import RemoteCluster
    from reconciler.workspace.kernel_access import KernelAccess

app = new_app()


@app.command()
def logs(
    ctx: typer.Context,
    session: Annotated[
        str,
        typer.Argument(
            metavar="SESSION[/KERNEL]",
            help="main1 when no kernel is named; or service/NAME.",
            autocompletion=complete_sessions,
        ),
    ],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the kernel ends.")] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", min=0, metavar="LINES", help="Only the last.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only of the last 10m, 2h or 1d, or since 2026-01-31T12:00:00Z."),
    ] = None,
    all: Annotated[
        bool, typer.Option("--all", "-a", help="Of all containers, each line with its container's name.")
    ] = False,
) -> None:
    """Print what a session's kernel wrote, byte for byte.

    \b
    bai logs -f llama                 until it ends, or Ctrl-C
    bai logs --all --since 10m llama  of all containers, the last ten minutes
    bai logs -n 100 llama/sub3        the last lines of one container
    bai logs -f service/chat          of all replicas, each line with its replica's name
    """
    from bai.cli.reading import remote_cluster
    from bai.cli.sessions.logs import LogRequest

    if tail is not None and since is not None:
        raise typer.BadParameter("give --tail or --since, not both", ctx=ctx)
    settings, wanted = settings_of(ctx), LogRequest(follow, tail, since)
    remote = remote_cluster(settings)
    try:
        if remote is not None:
            if there := _remote_replicas(remote, session, wanted, all=all):
                _print_replicas(there, wanted)
            else:
                from bai.cli.sessions.remote_logs import read_remote_logs

                _print_parts(read_remote_logs(remote, session, wanted, all=all), wanted, all=all)
        else:
            with settings.kernel_access() as access:
                if here := _local_replicas(access, session, wanted, all=all):
                    _print_replicas(here, wanted)
                else:
                    _print_parts(_read_here(access, session, wanted, all=all), wanted, all=all)
    except KeyboardInterrupt:
        if not follow:
            raise


def _remote_replicas(
    remote: RemoteCluster, name: str, wanted: LogRequest, *, all: bool
) -> ReplicaSource | None:
    """None for what names no service. Raises ServerError."""
    from bai.queries.names.service_names import service_part

    if not service_part(name):
        return None
    from bai.cli.services.log_choice import LogChoice
    from bai.cli.services.remote_replicas import RemoteReplicas

    return RemoteReplicas.find(remote, name, LogChoice(wanted, all))


def _local_replicas(
    access: KernelAccess, name: str, wanted: LogRequest, *, all: bool
) -> ReplicaSource | None:
    """None for what names no service. Raises NoSuchResource, AmbiguousName."""
    from bai.queries.names.service_names import service_part

    if not service_part(name):
        return None
    from bai.cli.services.local_replicas import LocalReplicas
    from bai.cli.services.log_choice import LogChoice

    return LocalReplicas.find(access, name, LogChoice(wanted, all))


def _read_here(
    access: KernelAccess, session: str, wanted: LogRequest, *, all: bool
) -> dict[str, Iterator[bytes]]:
    """Containers' names and output. Raises NoSuchResource, AmbiguousName, ProviderError."""
    from bai.cli.sessions.find import find_kernel, find_kernels, observe_sessions
    from bai.cli.sessions.logs import read_logs

    actual = observe_sessions(access)
    kernels = find_kernels(actual, session) if all else [find_kernel(actual, session)[1]]
    return {
        each.labels.kernel: read_logs(access.provider, access.cluster, each.id, wanted) for each in kernels
    }


def _print_replicas(replicas: ReplicaSource, wanted: LogRequest) -> None:
    from bai.cli.services.replica_logs import print_replicas

    print_replicas(replicas, live=wanted.follow)


def _print_parts(parts: Mapping[str, Iterator[bytes]], wanted: LogRequest, *, all: bool) -> None:
    if all:
        from bai.cli.sessions.interleaved_output import print_interleaved

        print_interleaved(parts, live=wanted.follow)
    else:
        for chunks in parts.values():
            _print(chunks)


def _print(chunks: Iterator[bytes]) -> None:
    out = sys.stdout.buffer
    for chunk in chunks:
        out.write(chunk)
        out.flush()
