"""`bai nodes probe`: of this machine, or of the cluster's nodes, which is remembered."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bai.settings import Settings

if TYPE_CHECKING:
    from providers.machines.base import Endpoint
    from reconciler.workspace.workspace import Workspace
    from schemas.hardware.model import Hardware
    from schemas.kinds.node import Node

KUBERNETES = "kubernetes"


def probe_here(root: Path, out: Path | None) -> None:
    """This machine, or the one whose files were copied below `root`."""
    from providers.probe import probe_local

    _write_hardware(probe_local(root), out)


def probe_nodes(
    settings: Settings, names: Sequence[str], out: Path | None, *, every: bool, image: str = ""
) -> None:
    """The nodes now: one as JSON, several in a line each. `image`: of pods that look at nodes of a Kubernetes
    cluster. Exits with 1 when any fails."""
    from bai.cli.nodes.check import resolve_nodes
    from bai.render.humanize import clean

    with settings.reading_workspace() as workspace:
        nodes = resolve_nodes(workspace.desired(), names)
        if every and not names:
            nodes = [node for node in nodes if node.spec.hardware is None]
        if out is not None and len(nodes) != 1:
            raise typer.BadParameter("one file is for one node", param_hint="--out")
        if workspace.cluster.spec.provider == KUBERNETES:
            found, failed, changed = _look_inside(workspace, nodes, image)
        elif image:
            raise typer.BadParameter(
                f"only nodes of a {KUBERNETES} cluster are probed by an image", param_hint="--image"
            )
        else:
            found, failed = _probe_all(workspace.endpoints(), [node.name for node in nodes])
            changed = workspace.record_hardware(found)
    if len(nodes) == 1 and found:
        _write_hardware(found[nodes[0].name], out)
    else:
        for name, hardware in found.items():
            typer.echo(_probe_line(name, hardware, changed=name in changed))
    for name, why in failed.items():
        typer.echo(f"error: {clean(name)} could not be probed: {clean(why)}", err=True)
    if failed:
        raise typer.Exit(1)


def _look_inside(
    workspace: Workspace, nodes: Sequence[Node], image: str
) -> tuple[Mapping[str, Hardware], Mapping[str, str], Sequence[str]]:
    """What the nodes say that they are, why others say nothing, and which are not what they were. Documents
    that say otherwise are told."""
    from bai.render.humanize import clean
    from providers.abilities import ProbesOnRequest
    from reconciler.observe.hardware import complete_probed
    from schemas.hardware.completion import contradictions

    provider = workspace.provider
    assert isinstance(provider, ProbesOnRequest)
    found, failed = provider.probe(frozenset(node.name for node in nodes), image)
    undeclared = {node.name for node in nodes if node.spec.hardware is None}
    changed = workspace.record_hardware(
        {name: each for name, each in complete_probed(provider, found).items() if name in undeclared}
    )
    for node in nodes:
        if node.spec.hardware is not None and node.name in found:
            for doubt in contradictions(found[node.name], node.spec.hardware):
                typer.echo(f"warning: the document of {clean(node.name)} says {clean(doubt)}", err=True)
    return found, failed, [*changed, *(found.keys() - undeclared)]


def _probe_all(
    endpoints: Sequence[Endpoint], names: Sequence[str]
) -> tuple[dict[str, Hardware], dict[str, str]]:
    from functools import partial

    from providers.machines.connections import connect
    from providers.probe.remote import probe_all

    wanted = {each.name: each for each in endpoints if each.name in names}
    return probe_all({name: partial(connect, endpoint) for name, endpoint in wanted.items()})


def _probe_line(name: str, hardware: Hardware, *, changed: bool) -> str:
    from bai.render.nodes.hardware import hardware_summary

    return f"{name}: {hardware_summary(hardware)}{'' if changed else ' (as before)'}"


def _write_hardware(hardware: Hardware, out: Path | None) -> None:
    from schemas.files.atomic_files import write_atomically

    text = hardware.model_dump_json(by_alias=True, exclude_defaults=True, indent=2) + "\n"
    if out is None:
        sys.stdout.write(text)
        return
    write_atomically(out, text)
    typer.echo(f"Wrote {out}. A node document uses it with `hardwareFrom: {out.name}`.")
