"""`bai run`."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.lazy_commands import new_app
from bai.cli.options import Branch, Push, parse_seconds

app = new_app()
Command = Annotated[
    list[str] | None,
    typer.Argument(metavar="[COMMAND]...", help="After `--`; default: a shell."),
]
Named = Annotated[str, typer.Option("--name", "-n", help="Of the session; default: made up.")]
Project = Annotated[str, typer.Option("--project", "-p", help="Default: the only one.")]
Gpus = Annotated[float, typer.Option("--gpus", "-g", min=0, help="Whole ones, or a part of one.")]
Cpu = Annotated[str, typer.Option("--cpu", help="Cores of its own, or `500m` of a shared one; default 1.")]
Memory = Annotated[str, typer.Option("--memory", "-m", help="`64GiB`; default 4GiB.")]
Image = Annotated[str, typer.Option("--image", help="Default: the cluster's.")]
Group = Annotated[str, typer.Option("--group", help="Resource group; default: the only one.")]
Env = Annotated[list[str] | None, typer.Option("--env", "-e", metavar="NAME=VALUE", help="May be repeated.")]
Mounts = Annotated[list[str] | None, typer.Option("--mount", metavar="VOLUME:PATH", help="May be repeated.")]
Template = Annotated[str, typer.Option("--template", "-t", help="A SessionTemplate, for all the rest.")]
Values = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Of the template; may be repeated.")
]
Batch = Annotated[bool, typer.Option("--batch", help="It computes and ends; its output is shown.")]
Detach = Annotated[bool, typer.Option("--detach", "-d", help="Do not wait until it runs.")]
Remove = Annotated[bool, typer.Option("--rm", help="Take it out of git when it or you are done.")]
Wait = Annotated[str, typer.Option("--wait", metavar="DURATION", help="How long it may take until it runs.")]


@app.command()
def run(
    ctx: typer.Context,
    command: Command = None,
    name: Named = "",
    project: Project = "",
    gpus: Gpus = 0,
    cpu: Cpu = "",
    memory: Memory = "",
    image: Image = "",
    group: Group = "",
    env: Env = None,
    mount: Mounts = None,
    template: Template = "",
    values: Values = None,
    batch: Batch = False,
    branch: Branch = "",
    push: Push = True,
    detach: Detach = False,
    remove: Remove = False,
    wait: Wait = "10m",
) -> None:
    """Write a session into git, push it, and be in it as soon as it runs.

    With a loop on the remote (`bai reconcile`, `bai serve`) the push starts it; where nothing is pushed,
    it is applied from here. While it waits, the reasons are shown.

    \b
    bai run --gpus 1                                  a shell beside a GPU
    bai run --gpus 8 --batch -- python train.py       its output until it ends
    bai run -t trainer --set lr=3e-4 --batch          a template's command
    bai run --gpus 4 --branch try -- python x.py      a pull request instead
    """
    from bai.cli.documents.commit import CommitOptions
    from bai.cli.run.run_session import RunOptions, run_session
    from bai.cli.run.session_request import RunRequest

    request = RunRequest(
        name, project, tuple(command or ()), gpus, cpu, memory, image, group, tuple(env or ()),
        tuple(mount or ()), template, tuple(values or ()), batch,
    )  # fmt: skip
    options = RunOptions(CommitOptions(branch, push), detach, remove, parse_seconds(wait, "--wait"))
    raise typer.Exit(run_session(settings_of(ctx), request, options))
