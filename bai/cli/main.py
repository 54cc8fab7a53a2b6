"""`bai`: global options, the table of commands, and the one place where a run begins and ends."""

from __future__ import annotations

import functools
import gc
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, cast

import typer
from typer.core import TyperCommand, TyperGroup

from bai.cli.global_options import move_global_options_first
from bai.cli.lazy_commands import LazyGroup, new_app
from bai.settings import Settings

COMMANDS = {
    "init": ("bai.cli.commands.init", "Write a first working repository for this machine."),
    "import": ("bai.cli.commands.import_", "Write documents for a cluster that is there already."),
    "validate": ("bai.cli.commands.validate", "Check every document and say where each mistake is."),
    "fmt": ("bai.cli.commands.fmt", "Bring documents into the one normal form."),
    "plan": ("bai.cli.commands.plan", "Show what apply would do, and why the rest waits."),
    "review": ("bai.cli.commands.review", "Show what a pull request does, and say so in a comment of it."),
    "apply": ("bai.cli.commands.apply", "Make it so: carry out a plan."),
    "reconcile": ("bai.cli.commands.reconcile", "Keep it so: observe, plan and apply, again and again."),
    "serve": ("bai.cli.commands.serve", "Keep it so, with an HTTP API, metrics and webhooks."),
    "token": ("bai.cli.commands.token", "Make a token for the API, and the line that lets it in."),
    "login": ("bai.cli.commands.login", "Log in to a server, and ask it from now on."),
    "logout": ("bai.cli.commands.logout", "Forget a server and the login there."),
    "context": ("bai.cli.commands.context", "List servers one is logged in to; choose one."),
    "rollback": ("bai.cli.commands.rollback", "Bring a cluster to an earlier commit, and hold it there."),
    "rollout": ("bai.cli.commands.rollout", "Watch a service's rollout, and go back to before it."),
    "suspend": ("bai.cli.commands.suspend", "Have the loop change nothing for a while."),
    "resume": ("bai.cli.commands.resume", "Have the loop go on."),
    "approve": ("bai.cli.commands.approve", "Let the loop carry out a commit that waits for it."),
    "destroy": ("bai.cli.commands.destroy", "Remove everything that this repository runs."),
    "status": ("bai.cli.commands.status", "Show a cluster on one screen: loop, queue, what is free."),
    "get": ("bai.cli.commands.get", "List sessions, nodes and other resources."),
    "describe": ("bai.cli.commands.describe", "Show everything about one resource."),
    "explain": ("bai.cli.commands.explain", "Say why a session or service is as it is, or why it waits."),
    "capacity": ("bai.cli.commands.capacity", "Show what is free, what still fits, and how it is scattered."),
    "simulate": ("bai.cli.commands.simulate", "Replay a trace under several policies, and compare them."),
    "run": ("bai.cli.commands.run", "Write a session into git, push it, and be in it."),
    "cancel": ("bai.cli.commands.cancel", "Take sessions out of git: they are stopped."),
    "hold": ("bai.cli.commands.hold", "Keep sessions that have not started out of their queue."),
    "release": ("bai.cli.commands.release", "Let held sessions into their queue again."),
    "priority": ("bai.cli.commands.priority", "Set a session's priority."),
    "template": ("bai.cli.commands.template", "List session templates, and fill them in."),
    "logs": ("bai.cli.commands.logs", "Print a session's output."),
    "exec": ("bai.cli.commands.execute", "Run a command inside a session."),
    "attach": ("bai.cli.commands.attach", "Connect this terminal to a session's main process."),
    "cp": ("bai.cli.commands.copy", "Copy files into or out of a session."),
    "port-forward": ("bai.cli.commands.port_forward", "Make ports of a session reachable here."),
    "open": ("bai.cli.commands.open_", "Open an app of a session in the browser."),
    "share": ("bai.cli.commands.share", "Make a link that opens an app for a while."),
    "top": ("bai.cli.commands.top", "Show what sessions use, live."),
    "events": ("bai.cli.commands.events", "Show what happened, when and why."),
    "report": ("bai.cli.commands.report", "Report hours that were held, and what was used of them."),
    "nodes": ("bai.cli.commands.nodes", "List, probe, show and import nodes."),
    "images": ("bai.cli.commands.images", "List images, ask registries, bring images to nodes."),
    "volumes": ("bai.cli.commands.volumes", "List volumes with what they hold; undo or finish deletions."),
    "history": ("bai.cli.commands.history", "Show what was applied, from which commits."),
    "show": ("bai.cli.commands.show", "Show a plan that was carried out."),
    "diff": ("bai.cli.commands.diff", "Show what lies between two commits."),
    "doctor": ("bai.cli.commands.doctor", "Check that this machine can do what bai needs."),
    "schema": ("bai.cli.commands.schema", "Print the JSON Schema of a kind, or of all."),
    "state": (
        "bai.cli.commands.state",
        "Look after the store: list, backup, restore, move, rebuild, unlock.",
    ),
    "notify": ("bai.cli.commands.notify", "See who is told what happens, and try it."),
    "audit": ("bai.cli.commands.audit", "Show who changed what, from which commit, by which plan."),
    "version": ("bai.cli.commands.version", "Print the version."),
}


class MainGroup(LazyGroup):
    """The top-level group."""

    modules = COMMANDS


app = new_app(cls=MainGroup, no_args_is_help=True, name="bai", add_completion=True)


ContextOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Ask this server (see `bai login`); `local`: the repository here. Default: $BAI_CONTEXT, else"
        " the current one.",
    ),
]


def _version(wanted: bool) -> None:
    if wanted:
        from bai import __version__

        typer.echo(f"bai {__version__}")
        raise typer.Exit


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
        str | None,
        typer.Option(
            metavar="STORE",
            envvar="BAI_STATE",
            help="The store: a file, or postgresql://...; default: DIR/.bai/store.db.",
        ),
    ] = None,
    context: ContextOption = None,
    revision: Annotated[
        str | None,
        typer.Option(metavar="COMMIT", help="Read documents of this git commit, not the working files."),
    ] = None,
    secret_stores: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="BAI_SECRET_STORES",
            help="The owner's secret stores; default: ~/.config/bai/secret-stores.yaml, else"
            " /etc/bai/secret-stores.yaml.",
        ),
    ] = None,
    trust: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="BAI_TRUST",
            help="The owner's words on whose commits are followed; default: ~/.config/bai/trust.yaml, else"
            " /etc/bai/trust.yaml.",
        ),
    ] = None,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colour, whatever the terminal.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show tracebacks of unexpected errors.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version, and end.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """Your GPU cluster is a git repository: plan and apply sessions onto exact nodes, cores and GPUs."""
    ctx.obj = Settings(
        directory=directory,
        cluster=cluster,
        context=context,
        names_repository=directory != Path(".") or any((state, revision)),
        state=state,
        revision=revision,
        stores=secret_stores,
        trust=trust,
        color=False if no_color else None,
        verbose=verbose,
        notify_user=functools.cache(functools.partial(typer.echo, err=True)),
    )


@functools.cache
def _command() -> TyperCommand | TyperGroup:
    return cast("TyperCommand | TyperGroup", typer.main.get_command(app))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; gives its exit code. Nothing but SystemExit of shell completion escapes."""
    words = move_global_options_first(arguments)
    try:
        code = _command().main(args=words, prog_name="bai", standalone_mode=False)
        sys.stdout.flush()
    except BaseException as error:
        if isinstance(error, SystemExit):
            raise
        from bai.cli.error_messages import report_error

        return report_error(error, verbose="--verbose" in words, command=words)
    return code if isinstance(code, int) else 0


def start_lightly() -> None:
    """Without what a command of half a second does not need: looking for garbage again and again while
    modules are imported, and for plugins of Pydantic in every installed package."""
    gc.set_threshold(50_000, 20, 20)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def main() -> None:
    """The console script."""
    start_lightly()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))
