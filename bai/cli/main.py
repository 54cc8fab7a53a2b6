"""`bai`: global options, the table of commands, and the one place where a run begins and ends."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from bai.cli.hoist import hoist
from bai.cli.lazy import LazyGroup, new_app
from bai.cli.settings import Settings

COMMANDS = {
    "init": ("bai.cli.commands.init", "Write a first working repository for this machine."),
    "validate": ("bai.cli.commands.validate", "Check every document and say where each mistake is."),
    "fmt": ("bai.cli.commands.fmt", "Bring documents into the one normal form."),
    "plan": ("bai.cli.commands.plan", "Show what apply would do, and why the rest waits."),
    "apply": ("bai.cli.commands.apply", "Make it so: carry out a plan."),
    "destroy": ("bai.cli.commands.destroy", "Remove everything that this repository runs."),
    "get": ("bai.cli.commands.get", "List sessions, nodes and other resources."),
    "describe": ("bai.cli.commands.describe", "Show everything about one resource."),
    "explain": ("bai.cli.commands.explain", "Say why a session is where it is, or why it waits."),
    "capacity": ("bai.cli.commands.capacity", "Show what is free, what still fits, and how it is scattered."),
    "simulate": ("bai.cli.commands.simulate", "Replay a trace under several policies, and compare them."),
    "logs": ("bai.cli.commands.logs", "Print a session's output."),
    "exec": ("bai.cli.commands.execute", "Run a command inside a session."),
    "events": ("bai.cli.commands.events", "Show what happened, when and why."),
    "nodes": ("bai.cli.commands.nodes", "List, probe, show and import nodes."),
    "doctor": ("bai.cli.commands.doctor", "Check that this machine can do what bai needs."),
    "schema": ("bai.cli.commands.schema", "Print the JSON Schema of a kind, or of all."),
    "state": ("bai.cli.commands.state", "Look after the store: list, backup, restore, rebuild, unlock."),
    "version": ("bai.cli.commands.version", "Print the version."),
}


class MainGroup(LazyGroup):
    """The top-level group."""

    modules = COMMANDS


app = new_app(cls=MainGroup, no_args_is_help=True, name="bai", add_completion=True)


@app.callback()
def options(
    ctx: typer.Context,
    directory: Annotated[
        Path, typer.Option("--directory", "-C", metavar="DIR", help="The repository (or a folder in it).")
    ] = Path("."),
    cluster: Annotated[
        str | None,
        typer.Option(metavar="NAME", envvar="BAI_CLUSTER", help="Which cluster, when there are several."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="BAI_STATE", help="The store; default DIR/.bai/store.db."),
    ] = None,
    revision: Annotated[
        str | None,
        typer.Option(metavar="COMMIT", help="Read documents of this git commit, not the working files."),
    ] = None,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colour, whatever the terminal.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show tracebacks of unexpected errors.")] = False,
) -> None:
    """Your GPU cluster is a git repository: plan and apply sessions onto exact nodes, cores and GPUs."""
    ctx.obj = Settings(
        directory=directory,
        cluster=cluster,
        state=state,
        revision=revision,
        color=False if no_color else None,
        verbose=verbose,
    )


def run(arguments: Sequence[str]) -> int:
    """Run one command line; gives its exit code. Nothing but SystemExit of shell completion escapes."""
    words = hoist(arguments)
    try:
        code = typer.main.get_command(app).main(args=words, prog_name="bai", standalone_mode=False)
        sys.stdout.flush()
    except BaseException as error:
        if isinstance(error, SystemExit):
            raise
        from bai.cli.failure import report

        return report(error, verbose="--verbose" in words, command=words)
    return code if isinstance(code, int) else 0


def main() -> None:
    """The console script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))
