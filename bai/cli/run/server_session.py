"""A session that a server's loop starts, watched from a machine that reaches nothing but the server."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import typer

from bai.cli.run.exit_code import await_exit_code
from bai.cli.sessions.apps import app_urls, print_app_urls
from bai.cli.sessions.remote_logs import MOST_LINES
from bai.remote.cluster import RemoteCluster
from bai.render.humanize import clean, join_limited
from reconciler.values.session_phase import ENDED
from schemas.problems.errors.command import CommandError
from schemas.problems.errors.server import NotOnServer
from schemas.values.resource_ref import ref_of

POLL = 1.0
"""Seconds between two questions."""


def follow_on_server(remote: RemoteCluster, identity: str, patience: float, *, batch: bool) -> int:
    """The exit code: the command's for a batch session, 0 for one that runs. `patience`: seconds until it
    must run. Raises ServerError, CommandError."""
    found = _wait_until_running(remote, identity, patience)
    if found.get("phase") == "RUNNING":
        print_app_urls(app_urls(found.get("apps")))
    if not batch:
        nodes = join_limited(dict.fromkeys(clean(str(each["node"])) for each in found.get("kernels", ())))
        typer.echo(f"{identity} runs on {nodes}: `bai attach` where that is reached.", err=True)
        return 0
    ref = ref_of(identity)
    try:
        for chunk in remote.logs(ref.project, ref.name, {"kernel": "main1", "tail": MOST_LINES}, follow=True):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
    except KeyboardInterrupt:
        return 0
    return await_exit_code(identity, lambda: _exit_code(remote, identity), POLL)


def _wait_until_running(remote: RemoteCluster, identity: str, patience: float) -> Mapping[str, Any]:
    end, last_reason = time.monotonic() + patience, ""
    while True:
        found = _ask(remote, identity)
        phase = found.get("phase", "")
        if phase == "RUNNING" or phase in ENDED:
            return found
        reason = _waiting_reason(found)
        if reason != last_reason:
            typer.echo(f"{identity}: {reason}", err=True)
            last_reason = reason
        if time.monotonic() > end:
            hint = "it stays in the queue; `bai explain` says more, --wait waits longer"
            raise CommandError(why=f"{identity} does not run yet: {reason}", hint=hint)
        time.sleep(POLL)


def _ask(remote: RemoteCluster, identity: str) -> Mapping[str, Any]:
    """As the server's last pass saw it; empty before one did."""
    try:
        return remote.session(identity)
    except NotOnServer:
        return {}


def _waiting_reason(found: Mapping[str, Any]) -> str:
    if not found.get("phase"):
        return "nobody has taken it up yet"
    waits = found.get("waits") or [found.get("reason", "")]
    return clean(f"{found['phase']}: {waits[0]}".rstrip(": "))


def _exit_code(remote: RemoteCluster, identity: str) -> int | None:
    code = _ask(remote, identity).get("exitCodes", {}).get("main1")
    return code if isinstance(code, int) else None
