"""The gate of a lab's apps, asked as Caddy asks it; browsers that go between apps and the panel."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fastapi.testclient import TestClient

from bai.web.apps.gate import create_gate
from bai.web.auth.roles import Access, Principal, Role, RoleBinding, StaticAccess
from bai.web.auth.static_tokens import TokenAuthenticator, hash_of
from reconciler.values.apps.app import App
from tests.bai.web.lab import WHO, Lab, asking

PANEL = "https://panel.test"
HOST = "jupyter--own--p.apps.example"
OTHER = "jupyter--owned--p.apps.example"
ANOTHER_PROJECT = "jupyter--zebra--q.apps.example"
UNKNOWN = "jupyter--nobody--p.apps.example"
NAVIGATION = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
PAGES = {"Accept": "text/html,*/*;q=0.8"}
ACCESS = {
    **WHO,
    "ada": (RoleBinding(Role.viewer, frozenset({"p"})),),
    "ADA@lab.example": (RoleBinding(Role.viewer, frozenset({"p"})),),
    "of-q": (RoleBinding(Role.operator, frozenset({"q"})),),
    "eve": (RoleBinding(Role.viewer, frozenset({"q"})),),
    "nobody": (),
}
"""Their tokens are `bai_` and their names."""
PROXY = """
apiVersion: bai/v1
kind: AppProxy
metadata: {name: apps}
spec: {url: "https://*.apps.example", widest: public, longestLink: 1h}
---
apiVersion: bai/v1
kind: Project
metadata: {name: q}
spec: {}
---
apiVersion: bai/v1
kind: User
metadata: {name: ada}
spec: {projects: [p], email: Ada@lab.example}
---
apiVersion: bai/v1
kind: User
metadata: {name: jo}
spec: {projects: [p, q]}
"""
SESSION = """
apiVersion: bai/v1
kind: Session
metadata: {{name: {name}, project: {project}}}
spec:
  command: [sleep, inf]
  ports: [{{name: jupyter, port: 8888}}]
  resources: {{cpu: {cpu}}}
  owner: {owner}
  apps: {{jupyter: {{access: {access}}}}}
"""


def token(name: str) -> str:
    return f"bai_{name}"


def access(**roles: tuple[RoleBinding, ...]) -> StaticAccess:
    known = {**ACCESS, **roles}
    return StaticAccess(
        [TokenAuthenticator((hash_of(token(name)), Principal(name, given)) for name, given in known.items())]
    )


def app_session(
    name: str, project: str = "p", *, who: str = "operators", owner: str = "jo", cpu: int = 1
) -> str:
    return SESSION.format(name=name, project=project, access=who, owner=owner, cpu=cpu)


@dataclass(frozen=True)
class Told:
    """What the gate said."""

    status: int
    headers: Mapping[str, str]
    body: str
    raw: tuple[tuple[bytes, bytes], ...]

    @property
    def passed(self) -> bool:
        return self.status == 200 and "bai-upstream" in self.headers

    @property
    def detail(self) -> str:
        found: str = json.loads(self.body)["detail"]
        return found

    @property
    def cookies(self) -> dict[str, str]:
        """Those it sets."""
        found: dict[str, str] = {}
        for name, value in self.raw:
            if name == b"set-cookie":
                found |= {key: each.value for key, each in SimpleCookie(value.decode()).items()}
        return found


class AppLab(Lab):
    """Sessions with apps: `own` of p for operators, `owned` for its owner Ada, `shared` for the project,
    `open` for the public, `zebra` of another project."""

    def __init__(self, folder: Path, *, who: Access | None = None, proxy: str = PROXY) -> None:
        who = who or access()
        super().__init__(folder, access=who)
        self.access = who
        self.write("proxy", proxy)
        self.write("own", app_session("own", owner="ada@LAB.example"))
        self.write("owned", app_session("owned", who="owner", owner="ada"))
        self.write("shared", app_session("shared", who="project"))
        self.write("open", app_session("open", who="public"))
        self.write("zebra", app_session("zebra", "q"))
        self.sealer = self.app.state.panel.sealer
        self.gate = self.new_gate()

    def new_gate(self) -> Any:
        """As another replica has it, or this one after its end."""
        return create_gate(self.hub, self.access, self.sealer, PANEL, address_of)

    def ask(
        self,
        uri: str = "/",
        host: str = HOST,
        *,
        method: str = "GET",
        path: str = "/check",
        upgrade: str = "",
        peer: str = "192.0.2.7",
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        gate: Any = None,
    ) -> Told:
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        said = [
            ("X-Forwarded-Method", method), ("X-Forwarded-Uri", uri), ("X-Forwarded-Host", host),
            ("X-Forwarded-Proto", "https"), ("X-Forwarded-For", peer), ("Bai-Upgrade", upgrade), *pairs,
        ]  # fmt: skip
        raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in said]
        return call(gate or self.gate, path, raw)

    def browser(self) -> Browser:
        return Browser(self)

    def in_app(self, who: str, host: str = HOST) -> Browser:
        """Somebody who is logged in at the panel, and let in at an app's host."""
        made = self.browser()
        made.log_in(who)
        assert made.open(host).passed
        return made


def address_of(app: App) -> str:
    return f"unix//run/{app.kernel}-{app.port}.sock"


def call(gate: Any, path: str, raw: list[tuple[bytes, bytes]], query: str = "") -> Told:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "path": path, "query_string": query.encode(), "headers": raw, "method": "GET"}
    asyncio.run(gate(scope, None, send))
    start, body = sent
    headers = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
    return Told(start["status"], headers, body["body"].decode(), tuple(start["headers"]))


@dataclass
class Browser:
    """Cookies by host, and what a browser says of itself."""

    lab: AppLab
    jar: dict[str, dict[str, str]] = field(default_factory=dict)
    panel: TestClient = field(init=False)

    def __post_init__(self) -> None:
        self.panel = asking(self.lab.app, base_url=PANEL, follow_redirects=False)

    def log_in(self, who: str) -> None:
        said = {"Sec-Fetch-Site": "same-origin"}
        answer = self.panel.post("/login", data={"credential": token(who)}, headers=said)
        assert answer.status_code == 303, answer.text

    def ask(self, uri: str = "/", host: str = HOST, **options: Any) -> Told:
        """With this browser's cookies; of a page, unless `headers` say something else."""
        said = {**NAVIGATION, **PAGES} if "headers" not in options else dict(options.pop("headers"))
        held = "; ".join(f"{name}={value}" for name, value in self.jar.get(host, {}).items())
        told = self.lab.ask(uri, host, headers={**said, **({"Cookie": held} if held else {})}, **options)
        kept = {**self.jar.get(host, {}), **told.cookies}
        self.jar[host] = {name: value for name, value in kept.items() if value}
        return told

    def to_panel(self, told: Told) -> Any:
        """The panel's answer, after the gate has led there."""
        assert told.status == 302 and told.headers["location"].startswith(f"{PANEL}/"), told
        return self.panel.get(told.headers["location"].removeprefix(PANEL))

    def open(self, host: str = HOST, uri: str = "/", *, gate: Any = None) -> Told:
        """From the app to the panel and back; what the app's host says in the end."""
        answer = self.to_panel(self.ask(uri, host, gate=gate))
        assert answer.status_code == 200, answer.text
        told = self.ask(code_uri(answer, host), host, gate=gate)
        return self.ask(told.headers["location"], host, gate=gate) if told.status == 302 else told


def onward(answer: Any) -> str:
    """Where a page of the panel goes on to by itself."""
    found: str = answer.headers["refresh"].partition("url=")[2]
    return found


def code_uri(answer: Any, host: str) -> str:
    parts = urlsplit(onward(answer))
    assert (parts.scheme, parts.netloc) == ("https", host)
    return f"{parts.path}?{parts.query}"


def each_cookie(told: Told) -> Iterator[str]:
    return (value.decode() for name, value in told.raw if name == b"set-cookie")


def cookie_names(told: Told) -> set[str]:
    return {re.split("[=;]", each)[0] for each in each_cookie(told)}
