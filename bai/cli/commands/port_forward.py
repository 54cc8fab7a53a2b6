"""`bai port-forward`."""

from __future__ import annotations

import contextlib
import threading
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.completion import complete_sessions
from bai.cli.context import settings_of
from bai.cli.lazy_commands import new_app

if TYPE_CHECKING:
    pass

app = new_app()


@app.command("port-forward")
def port_forward(
    ctx: typer.Context,
    session: Annotated[
        str,
        typer.Argument(
            metavar="SESSION[/KERNEL]",
            help="main1 when no kernel is named.",
            autocompletion=complete_sessions,
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
    from bai.cli.sessions.find import find_kernel, observe_sessions
    from bai.cli.sessions.port_arguments import listening_port, named_ports, port_mappings
    from bai.cli.sessions.port_forwarding import Forwarder
    from providers.required_abilities import require_port_forward

    with settings_of(ctx).kernel_access() as access, contextlib.ExitStack() as stack:
        provider = require_port_forward(access.provider, access.cluster)
        found, kernel = find_kernel(observe_sessions(access), session)
        # Whoever has read a line may have seen enough.
        stack.enter_context(contextlib.suppress(KeyboardInterrupt))
        for mapping in port_mappings(ports or (), named_ports(found.recorded.document)):
            port = listening_port(found.recorded.placement, kernel.labels.kernel, mapping.port)
            forwarder = Forwarder(address, mapping, partial(provider.dial, kernel.id, port), _say)
            stack.enter_context(forwarder)
            name = f" ({mapping.name})" if mapping.name else ""
            typer.echo(f"{forwarder.address}:{forwarder.local} -> {session}:{mapping.port}{name}")
        threading.Event().wait()


def _say(why: str) -> None:
    typer.echo(f"a connection failed: {why}", err=True)
