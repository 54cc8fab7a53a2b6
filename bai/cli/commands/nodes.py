"""`bai nodes`: list, probe, show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import Format, ListFormat, form_of
from bai.cli.lazy_commands import new_app
from bai.cli.options import FormatOption, ListFormatOption

app = new_app(help="List, check, probe and show nodes.", invoke_without_command=True)


@app.callback()
def nodes(ctx: typer.Context) -> None:
    """List, check, probe and show nodes; `bai nodes` alone lists them."""
    if ctx.invoked_subcommand is None:
        list_(ctx)


@app.command("list")
def list_(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[NODE]")] = None,
    format: ListFormatOption = ListFormat.table,
    offline: Annotated[bool, typer.Option("--offline", help="Ask no provider, probe nothing.")] = False,
) -> None:
    """List the cluster's nodes with what they have and what is taken."""
    from bai.cli.output import print_printout
    from bai.cli.reading import read
    from bai.queries.models import NodesQuery

    settings = settings_of(ctx)
    query = NodesQuery.of(name=name or "", form=form_of(format))
    print_printout(settings, read(settings, query, offline=offline))


@app.command()
def probe(
    ctx: typer.Context,
    node: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NODE...]", help="Nodes of the cluster; without any, this machine."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="All nodes of the cluster that declare no hardware.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write it to FILE, for `hardwareFrom`.")
    ] = None,
    root: Annotated[
        Path, typer.Option("--root", metavar="DIR", help="Read a copy of /sys and /proc below DIR.")
    ] = Path("/"),
    image: Annotated[
        str,
        typer.Option(
            "--image",
            metavar="IMAGE",
            help="Of a Kubernetes cluster: the image, with python3, of the pods that look at the nodes;"
            " `probeImage` of the cluster when left out.",
        ),
    ] = "",
) -> None:
    """Read what machines are now. Of this machine or of one node, print it as JSON; remember it of nodes."""
    from bai.cli.nodes.probe import probe_here, probe_nodes

    if not node and not every:
        if image:
            raise typer.BadParameter("name the nodes, or --all", param_hint="--image")
        probe_here(root, out)
        return
    if root != Path("/"):
        raise typer.BadParameter("--root is of this machine", param_hint="--root")
    probe_nodes(settings_of(ctx), node or [], out, every=every, image=image)


@app.command()
def check(
    ctx: typer.Context,
    node: Annotated[
        list[str] | None, typer.Argument(metavar="[NODE...]", help="Nodes of the cluster; without any, all.")
    ] = None,
    settle: Annotated[
        bool,
        typer.Option(
            "--settle", help="GPU errors (Xid) that their logs have count no more: they are dealt with."
        ),
    ] = False,
    enforcement: Annotated[
        bool,
        typer.Option(
            "--enforcement",
            help="Take a part of a free GPU by each means that a node has (MPS, HAMi-core, MIG), and see"
            " whether it holds; nothing else is checked.",
        ),
    ] = False,
    format: FormatOption = Format.text,
) -> None:
    """Log in to nodes, ask what runs sessions there, and look at their health. Exits with 1 when any cannot
    be used or anything critical was found; with `--enforcement`, when parts of GPUs do not hold as their
    group demands."""
    from bai.cli.nodes.check import check_nodes, settle_nodes
    from bai.cli.nodes.enforcement import check_parts

    settings = settings_of(ctx)
    if enforcement:
        if settle:
            raise typer.BadParameter("either this or --settle", param_hint="--enforcement")
        if not check_parts(settings, node or [], format):
            raise typer.Exit(1)
        return
    if settle:
        if not node:
            raise typer.BadParameter("name the nodes whose errors are dealt with", param_hint="--settle")
        settle_nodes(settings, node)
    if not check_nodes(settings, node or [], format):
        raise typer.Exit(1)


@app.command("import")
def import_(
    ctx: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Captures of machines.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Write NAME.json for each into DIR.")
    ] = None,
    one: Annotated[
        bool, typer.Option("--together", help="All FILEs are of one machine and complete each other.")
    ] = False,
    format: Annotated[
        Format, typer.Option("--format", help="How to print it; JSON is for `hardwareFrom`.")
    ] = Format.text,
) -> None:
    """Read captured hardware and print what was understood, and what a capture leaves out."""
    from bai.cli.nodes.hardware_files import merge_captures, print_hardware, read_captures, write_hardware

    found = [(files[0], merge_captures(files))] if one else read_captures(files)
    if out is not None:
        write_hardware(found, out)
    else:
        print_hardware(settings_of(ctx), found, format)


@app.command()
def show(
    ctx: typer.Context,
    node: Annotated[
        str, typer.Argument(metavar="NODE", help="A node of the cluster, or `.` for this machine.")
    ],
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Draw it into an SVG file as well.")
    ] = None,
    nccl: Annotated[
        Path | None,
        typer.Option("--nccl", metavar="FILE", help="Write its `NCCL_TOPO_FILE` as well."),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan", metavar="FILE", help="Draw it as this plan, saved by `bai plan --out`, leaves it."
        ),
    ] = None,
    format: FormatOption = Format.text,
    offline: Annotated[bool, typer.Option("--offline", help="Ask no provider, probe nothing.")] = False,
) -> None:
    """Draw a node: NUMA nodes, cores and GPUs, and who has them."""
    from bai.cli.nodes.show import show_node
    from bai.cli.plans.show_plan import read_plan

    saved = read_plan(plan) if plan is not None else None
    show_node(settings_of(ctx), node, svg=svg, nccl=nccl, plan=saved, format=format, offline=offline)
