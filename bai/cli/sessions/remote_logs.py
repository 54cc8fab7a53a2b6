"""What a session's containers write, as a server passes it on."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from bai.cli.sessions.logs import LogRequest
from bai.queries.names.resource_names import suggest_names
from bai.remote.cluster import RemoteCluster
from bai.render.humanize import clean
from schemas.problems.errors.command import CommandError, NoSuchResource
from schemas.problems.errors.server import NotOnServer
from schemas.values.resource_ref import ref_of

MOST_LINES = 100_000
"""Lines that a server passes on at most."""


def read_remote_logs(
    remote: RemoteCluster, name: str, wanted: LogRequest, *, all: bool
) -> dict[str, Iterator[bytes]]:
    """Containers' names and output. Raises ServerError, NoSuchResource, CommandError."""
    session, kernel = _find_session(remote, name)
    identity = str(session["id"])
    kernels = [str(each["name"]) for each in session.get("kernels", ()) if isinstance(each, dict)]
    if not kernels:
        raise CommandError(
            why=f"{clean(identity)} has no kernel: it is {session.get('phase', 'not running')}"
        )
    if not all and kernel not in kernels:
        hint = suggest_names(kernel, kernels)
        raise NoSuchResource(what=f"kernel in {clean(identity)}", name=clean(kernel), hint=hint)
    ref, params = ref_of(identity), log_params(wanted)
    return {
        each: remote.logs(ref.project, ref.name, {**params, "kernel": each}, follow=wanted.follow)
        for each in (kernels if all else [kernel])
    }


def _find_session(remote: RemoteCluster, name: str) -> tuple[Mapping[str, Any], str]:
    """As the server has it, and the container that is meant. A name that means a session as a whole wins."""
    try:
        return remote.session(name), "main1"
    except NotOnServer:
        head, slash, kernel = name.rpartition("/")
        if not slash:
            raise
        try:
            return remote.session(head), kernel
        except NotOnServer:
            pass
        raise


def log_params(wanted: LogRequest) -> dict[str, Any]:
    if wanted.since is not None:
        from bai.queries.names.moments import parse_time

        return {"since": parse_time(wanted.since, time.time()).timestamp()}
    return {"tail": MOST_LINES if wanted.tail is None else min(wanted.tail, MOST_LINES)}
