"""Apps of a session as commands open and share them, here or at a server."""

from __future__ import annotations

import os
import re
import sys
import webbrowser
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from bai.cli.reading import read
from bai.queries.models import AppsQuery
from bai.queries.names.resource_names import suggest_names
from bai.render.humanize import clean, join_limited
from reconciler.values.session_phase import ENDED
from schemas.problems.errors.command import CommandError, NoSuchResource
from schemas.problems.errors.server import ServerError
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from bai.remote.cluster import RemoteCluster
    from bai.settings import Settings
    from reconciler.values.records import Recorded
    from schemas.kinds.app_proxy import AppProxy

_PROXY_EXAMPLE = (
    "add a document `{apiVersion: bai/v1, kind: AppProxy, metadata: {name: apps},"
    ' spec: {url: "https://*.apps.example"}}`'
)
_PORT_EXAMPLE = "add `ports: [{name: jupyter, port: 8888}]` to its spec"
_URL = re.compile(r"(https?|tcp)://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[\x21-\x7e]*)?", re.ASCII)
"""What is printed; but for `tcp`, it is handed to a browser, which would also take files and scripts."""


@dataclass(frozen=True, slots=True)
class FoundApp:
    """`session`: its identity; `phase`: of that; `protocol`: what its port speaks."""

    session: str
    name: str
    url: str
    phase: str
    protocol: str


def find_app(settings: Settings, session: str, name: str) -> FoundApp:
    """The app that is meant; the only one where none is named. Raises NoSuchResource, AmbiguousName,
    CommandError, ServerError."""
    facts = read(settings, AppsQuery.of(session=session, form="json")).document
    identity, phase = str(facts.get("session", "")), str(facts.get("phase", ""))
    ports, apps = _names(facts.get("ports")), _apps(facts.get("apps"))
    _require_ports(identity, ports)
    if name and name not in ports:
        raise NoSuchResource(
            what=f"app of {clean(identity)}", name=clean(name), hint=suggest_names(name, ports)
        )
    if not facts.get("hasProxy"):
        forward = f"bai port-forward {clean(ref_of(identity).qualified_name)} {clean(name or ports[0])}"
        here = f"`{forward}` makes it reachable here; for URLs, "
        raise CommandError(
            why=f"cluster {clean(str(facts.get('cluster', '')))} has no AppProxy, so that no app has a URL",
            hint=f"{here if ref_of(identity).kind == 'Session' else ''}{_PROXY_EXAMPLE}",
        )
    if not name and len(ports) > 1:
        raise CommandError(
            why=f"{clean(identity)} has several apps", hint=f"name one: {join_limited(map(clean, ports))}"
        )
    if phase in ENDED:
        raise CommandError(why=f"{clean(identity)} has ended: it is {phase}")
    chosen = name or ports[0]
    app = apps.get(chosen, {})
    if why := app.get("unmapped"):
        raise CommandError(
            why=f"{clean(chosen)} of {clean(identity)} has no port: {clean(str(why))}",
            hint="widen the range in spec.ports of the AppProxy, or use `bai port-forward`",
        )
    return FoundApp(identity, chosen, checked_url(app.get("url")), phase, str(app.get("protocol", "")))


@dataclass(frozen=True, slots=True)
class AppLink:
    """`session`: its identity; `until`: as the server says it."""

    session: str
    app: str
    url: str
    until: str


def make_link(remote: RemoteCluster, app: FoundApp, seconds: int) -> AppLink:
    """A link that opens the app for so long. Raises ServerError."""
    ref = ref_of(app.session)
    found = remote.share(ref.project, ref.name, app.name, seconds)
    return AppLink(app.session, app.name, checked_url(found.get("url")), clean(str(found.get("until", ""))))


def _require_ports(identity: str, ports: list[str]) -> None:
    if not ports:
        hint = f"{_PORT_EXAMPLE}, or reach any port with `bai port-forward`"
        lacks = "no port with protocol http, https or grpc, and no public one with tcp"
        raise CommandError(why=f"{clean(identity)} names {lacks}", hint=hint)


def checked_url(url: object) -> str:
    """Raises ServerError for what no browser is to be given."""
    if not isinstance(url, str) or not _URL.fullmatch(url):
        raise ServerError(server="the server", why="its answer has no URL of an app")
    return url


def _names(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def app_urls(value: object) -> dict[str, str]:
    """App to URL, of `apps` as JSON has them."""
    return {name: str(each.get("url")) for name, each in _apps(value).items() if each.get("url")}


def _apps(value: object) -> dict[str, dict[str, object]]:
    apps = [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
    return {str(each.get("name")): each for each in apps}


def show_in_browser(url: str) -> bool:
    """Whether a browser with windows has taken it."""
    return not url.startswith("tcp:") and _has_display() and webbrowser.open(url)


def _has_display() -> bool:
    """Without one, `webbrowser` would draw the page into this terminal."""
    names = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in names)


def print_app_urls(urls: Mapping[str, str]) -> None:
    """For people."""
    for name, url in urls.items():
        typer.echo(clean(f"{name}: {url}"), err=True)


def recorded_app_urls(proxy: AppProxy | None, record: Recorded, ports: Mapping[str, int]) -> dict[str, str]:
    """Of a session as it was applied: app to URL. `ports`: as the AppProxy's record has them."""
    from reconciler.values.apps.app import session_apps
    from reconciler.values.apps.ports import PortMap
    from reconciler.values.documents.recorded_documents import recorded_session

    session = recorded_session(record.document)
    if proxy is None or session is None:
        return {}
    return {app.name: app.url for app in session_apps(proxy, session, None, PortMap(ports)) if app.url}
