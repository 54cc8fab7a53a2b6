"""`bai import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bai.cli.context import waiting_settings
from bai.cli.lazy_commands import new_app
from bai.cli.options import Yes

app = new_app(no_args_is_help=True, help="Write documents for a cluster that is there already.")


@app.callback()
def import_() -> None:
    """Write documents for a cluster that is there already."""


@app.command()
def kubernetes(
    ctx: typer.Context,
    directory: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="Where; made when missing. Default: here."),
    ] = None,
    context: Annotated[
        str,
        typer.Option("--context", metavar="NAME", help="Context of the kubeconfig; default: its current."),
    ] = "",
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace",
            metavar="NAME",
            help="Where sessions' pods are: one namespace, or `team-{project}`. Default: bai.",
        ),
    ] = "",
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Of the Cluster; default: like the context.")
    ] = "",
    group_by: Annotated[
        str,
        typer.Option(
            "--group-by",
            metavar="LABEL",
            help="A label of nodes whose value names their resource group; default: by their GPUs' product.",
        ),
    ] = "",
    store: Annotated[
        str,
        typer.Option(
            "--secrets-from",
            metavar="STORE",
            help="The SecretStore that has the cluster's secrets, as entries `<secret>.<key>`.",
        ),
    ] = "",
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Running pods of these namespaces become sessions.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Write a repository for a Kubernetes cluster: nodes, groups, projects, quotas, and with --adopt its
    pods as sessions. Overwrites nothing, and touches nothing in the cluster but the pods that it adopts."""
    from bai.cli.imports.kubernetes import KubernetesImport, import_kubernetes

    settings = waiting_settings(ctx)
    root = directory if directory is not None else settings.directory
    if not import_kubernetes(
        settings, KubernetesImport(root, context, namespace, name, group_by, store, adopt, yes)
    ):
        raise typer.Exit(1)
