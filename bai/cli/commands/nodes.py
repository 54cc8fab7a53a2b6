"""`bai nodes`: list, probe, show."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bai.cli.formats import Format, ListFormat
from bai.cli.lazy import new_app
from bai.cli.settings import settings_of

app = new_app(help="List, probe and show nodes.", invoke_without_command=True)


@app.callback()
def nodes(ctx: typer.Context) -> None:
    """List, probe and show nodes; `bai nodes` alone lists them."""
    if ctx.invoked_subcommand is None:
        list_(ctx)


@app.command("list")
def list_(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[NODE]")] = None,
    format: Annotated[ListFormat, typer.Option("--format", "-o", help="How to print it.")] = ListFormat.table,
    offline: Annotated[bool, typer.Option("--offline", help="Ask no provider, probe nothing.")] = False,
) -> None:
    """List the cluster's nodes with what they have and what is taken."""
    from bai.cli.node_list import list_nodes

    settings = settings_of(ctx)
    with settings.workspace() as workspace:
        desired, actual = workspace.desired(), workspace.actual(offline=offline)
    list_nodes(settings, desired, actual, name, format)


@app.command()
def probe(
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write it to FILE, for `hardwareFrom`.")
    ] = None,
    root: Annotated[
        Path, typer.Option("--root", metavar="DIR", help="Read a copy of /sys and /proc below DIR.")
    ] = Path("/"),
) -> None:
    """Read what this machine is and print it as JSON."""
    from bai.cli.files import write_whole
    from providers.probe import probe_local

    hardware = probe_local(root)
    text = hardware.model_dump_json(by_alias=True, exclude_defaults=True, indent=2) + "\n"
    if out is None:
        sys.stdout.write(text)
        return
    write_whole(out, text)
    typer.echo(f"Wrote {out}. A node document uses it with `hardwareFrom: {out.name}`.")


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
    from bai.cli.hardware_files import imported, print_all, together, write_all

    found = [(files[0], together(files))] if one else imported(files)
    if out is not None:
        write_all(found, out)
    else:
        print_all(settings_of(ctx), found, format)


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
    format: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.text,
    offline: Annotated[bool, typer.Option("--offline", help="Ask no provider, probe nothing.")] = False,
) -> None:
    """Draw a node: NUMA nodes, cores and GPUs, and who has them."""
    from bai.cli.node_show import show_node

    show_node(settings_of(ctx), node, svg=svg, nccl=nccl, format=format, offline=offline)
