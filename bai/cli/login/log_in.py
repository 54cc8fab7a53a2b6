"""From an address to a context: who one is there, by a token or an identity provider, and which cluster."""

from __future__ import annotations

import getpass
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import typer

from bai.cli.output import is_terminal
from bai.remote.addresses import check_address
from bai.remote.client import ApiClient
from bai.remote.contexts import Context, OidcLogin, load_contexts, locked_contexts, save_contexts
from bai.remote.identity_provider import DeviceCode, IdentityProvider
from bai.render.humanize import clean, join_limited
from bai.settings import LOCAL_CONTEXT, Settings
from schemas.problems.errors.command import CommandError
from schemas.problems.errors.server import ServerError

_LONGEST_TOKEN = 16_384
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class LoginRequest:
    """What the command line says; empty and None: nothing."""

    server: str
    name: str
    token: str
    ca: Path | None
    issuer: str
    issuer_ca: Path | None


def log_in(settings: Settings, request: LoginRequest) -> None:
    """Raises CommandError, ServerError; nothing is kept then."""
    server = _checked_address(request.server)
    name = _context_name(request, server)
    ca = _absolute(request.ca)
    if request.token:
        context = Context(server=server, ca=ca, token=_token(request.token))
    else:
        context = _ask_how(request, ApiClient(server, ca=ca), server, ca)
    shown = context.token or (context.oidc.idToken if context.oidc else "")
    client = ApiClient(server, ca=ca, token=lambda: shown)
    user = _user(client)
    cluster = _choose_cluster(client, settings.cluster)
    with locked_contexts():
        contexts = load_contexts()
        before = contexts.contexts.get(name)
        if before is not None and before.server != server:
            why = f"there is a context {name} of {before.server}"
            raise CommandError(why=why, hint="give another --name, or log out of that one")
        found = context.model_copy(update={"cluster": cluster})
        save_contexts(contexts.with_context(name, found))
    about = f", cluster {clean(cluster)}" if cluster else "; give --cluster with each command"
    typer.echo(f"Logged in to {server} as {user}. Context {name}{about}.")


def _checked_address(url: str) -> str:
    try:
        return check_address(url)
    except ValueError as error:
        raise CommandError(why=clean(str(error))) from None


def _context_name(request: LoginRequest, server: str) -> str:
    name = request.name or (urlsplit(server).hostname or "").replace(":", "-").strip("-")
    if not _NAME.fullmatch(name) or name == LOCAL_CONTEXT:
        hint = "letters, digits, dots and dashes, and not `local`"
        raise CommandError(why=f"{clean(name)!r} is no name of a context", hint=hint)
    return name


def _absolute(path: Path | None) -> str | None:
    """As it is written down: the command may run elsewhere next time."""
    return None if path is None else os.path.abspath(path.expanduser())


def _token(reference: str) -> str:
    """Not on the command line itself, where every process sees it."""
    from reconciler.secrets.operator_values import resolve_reference

    if reference == "-":
        text = sys.stdin.read(_LONGEST_TOKEN + 1) if sys.stdin else ""
    else:
        text = resolve_reference(reference)
    return _plain_token(text)


def _plain_token(text: str) -> str:
    found = text.strip()
    if not found or len(found) > _LONGEST_TOKEN or not found.isascii() or not found.isprintable():
        raise CommandError(why="this is no token", hint="one line, as `bai token` prints it")
    return found


def _ask_how(request: LoginRequest, client: ApiClient, server: str, ca: str | None) -> Context:
    """By the provider that the server names; by a token where it names none."""
    answer = client.get("/api/v1/login")
    listed = answer.get("oidc") if isinstance(answer, dict) else None
    providers = {
        str(each.get("issuer")): str(each.get("clientId"))
        for each in (listed if isinstance(listed, list) else ())
        if isinstance(each, dict)
    }
    if not providers and not request.issuer:
        if not (sys.stdin and sys.stdin.isatty()):
            hint = "give --token file:/path, env:NAME or - for standard input"
            raise CommandError(why=f"{server} names no identity provider to log in at", hint=hint)
        return Context(server=server, ca=ca, token=_plain_token(getpass.getpass("Token: ")))
    issuer = _choose_issuer(providers, request.issuer)
    issuer_ca = _absolute(request.issuer_ca)
    tokens = IdentityProvider(issuer, providers[issuer], ca=issuer_ca).log_in(_show_code)
    login = OidcLogin(
        issuer=issuer, clientId=providers[issuer], ca=issuer_ca, idToken=tokens.id,
        refreshToken=tokens.refresh or None,
    )  # fmt: skip
    return Context(server=server, ca=ca, oidc=login)


def _choose_issuer(providers: Mapping[str, str], wanted: str) -> str:
    names = join_limited(map(clean, providers)) or "none"
    if wanted:
        if wanted not in providers:
            raise CommandError(why=f"the server does not name {clean(wanted)}", hint=f"it names {names}")
        found = wanted
    elif len(providers) > 1:
        raise CommandError(why="the server names several identity providers", hint=f"--issuer: {names}")
    else:
        found = next(iter(providers))
    try:
        check_address(found)
    except ValueError as error:
        raise CommandError(
            why=f"the server names a provider that cannot be used: {clean(str(error))}"
        ) from None
    return found


def _show_code(code: DeviceCode) -> None:
    typer.echo(f"Open {clean(code.address)} and enter {clean(code.user_code)}", err=True)
    if code.complete_address:
        typer.echo(f"or open {clean(code.complete_address)}", err=True)
    if is_terminal(sys.stderr):
        typer.echo("Waiting for the login there; Ctrl-C gives up.", err=True)


def _user(client: ApiClient) -> str:
    """`ada, operator`, as the server knows whoever shows this token."""
    found = client.get("/api/v1/whoami")
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        raise ServerError(server=client.server, why="it does not say who one is; is this `bai serve`?")
    roles = found.get("roles")
    words = [_role_text(each) for each in roles if isinstance(each, dict)] if isinstance(roles, list) else []
    return clean(f"{found['name']} ({', '.join(words) or 'no role'})")


def _role_text(role: Mapping[str, Any]) -> str:
    projects = role.get("projects")
    where = f" of {join_limited(map(str, projects))}" if isinstance(projects, list) else ""
    return f"{role.get('role')}{where}"


def _choose_cluster(client: ApiClient, wanted: str | None) -> str | None:
    """The one that is named, or the only one."""
    listed = client.get("/api/v1/clusters")
    names = [
        each["name"]
        for each in (listed if isinstance(listed, list) else ())
        if isinstance(each, dict) and isinstance(each.get("name"), str)
    ]
    if wanted and wanted not in names:
        raise CommandError(
            why=f"the server has no cluster {clean(wanted)}", hint=f"it has {join_limited(map(clean, names))}"
        )
    return wanted or (names[0] if len(names) == 1 else None)
