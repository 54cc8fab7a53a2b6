"""`bai port-forward`."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.completion import sessions
from bai.cli.lazy_commands import new_app
from bai.settings import settings_of

if TYPE_CHECKING:
    from bai.cli.sessions.port_forwarding import Way
    from planner.model.types import Placement

app = new_app()


@app.command("port-forward")
def port_forward(
    ctx: typer.Context,
    session: Annotated[
        str,
        typer.Argument(
            metavar="SESSION[/KERNEL]", help="main1 when no kernel is named.", autocompletion=sessions
        ),
    ],
    ports: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[[LOCAL:]PORT]...",
            help="Numbers or names from the session's `ports`; all of those when none is given.",
        ),
    ] = None,
    address: Annotated[
        str, typer.Option("--address", metavar="IP", help="Where to listen on this machine.")
    ] = "127.0.0.1",
) -> None:
    """Make ports of a session reachable on this machine, until Ctrl-C.

    The local port is the same number unless another is given; 0 takes any that is free.

    \b
    bai port-forward lab                   every port that the session names
    bai port-forward lab jupyter 8080:80   one by name, one under another number
    bai port-forward lab/sub1 0:6006       of one container, on any free port
    """
    from bai.cli.sessions.find import find_kernel, what_runs
    from bai.cli.sessions.port_forwarding import Forwarder
    from bai.cli.sessions.provider_abilities import forwards

    with settings_of(ctx).workspace() as workspace, contextlib.ExitStack() as stack:
        provider = forwards(workspace)
        found, kernel = find_kernel(what_runs(workspace), session)
        for way in ways(ports or (), _named(found.recorded.document)):
            port = _listening(found.recorded.placement, kernel.labels.kernel, way.port)
            forwarder = Forwarder(address, way, partial(provider.dial, kernel.id, port), _say)
            stack.enter_context(forwarder)
            name = f" ({way.name})" if way.name else ""
            typer.echo(f"{forwarder.address}:{forwarder.local} -> {session}:{way.port}{name}")
        _until_interrupted()


def _listening(placement: Placement | None, kernel: str, port: int) -> int:
    """The port where the container listens in truth."""
    parts = placement.kernels if placement else ()
    return next((part.listening(port) for part in parts if part.kernel == kernel), port)


def ways(asked: Sequence[str], named: dict[str, int]) -> list[Way]:
    """What to forward. Raises CommandError for what is neither a port nor the name of one."""
    from bai.cli.sessions.port_forwarding import Way
    from schemas.problems.errors import CommandError

    if not asked:
        if not named:
            raise CommandError(why="the session names no ports", hint="give one or more port numbers")
        return [Way(port, port, name) for name, port in named.items()]
    found = []
    for text in asked:
        local, colon, wanted = text.rpartition(":")
        port = named[wanted] if wanted in named else _number(wanted, named, least=1)
        own = _number(local, {}, least=0) if local else 0 if colon else port
        found.append(Way(own, port, wanted if wanted in named else ""))
    return found


def _named(document: Mapping[str, object]) -> dict[str, int]:
    """The TCP ports that the session's document names."""
    spec = document.get("spec")
    ports = spec.get("ports") if isinstance(spec, Mapping) else None
    if not isinstance(ports, Sequence):
        return {}
    return {str(port["name"]): int(port["port"]) for port in ports if port.get("protocol") != "udp"}


def _number(text: str, named: dict[str, int], *, least: int) -> int:
    from bai.render.humanize import clean, listed
    from schemas.problems.errors import CommandError

    if text.isascii() and text.isdigit() and least <= int(text) <= 65535:
        return int(text)
    hint = f"the session names {listed(sorted(named))}" if named else "ports are 1 to 65535"
    raise CommandError(why=f"{clean(text)!r} is not a port", hint=hint)


def _say(why: str) -> None:
    typer.echo(f"a connection failed: {why}", err=True)


def _until_interrupted() -> None:
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()
