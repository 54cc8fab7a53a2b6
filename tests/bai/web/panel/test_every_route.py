"""What is true of every route there is, those that are added later among them: who sees one project is told
nothing of another one, in pages, data and streams; nothing is changed for another site, or without the form
of one's own login; every answer has the headers that keep it from being framed, guessed at and kept."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Literal

import httpx
import pytest
from fastapi import FastAPI, Query, Response, WebSocket
from fastapi.testclient import TestClient
from pydantic import BaseModel
from starlette.websockets import WebSocketDisconnect

from providers.storage.nodes import NodeStorage
from tests.bai.web.lab import PATIENCE, Lab, asking, bearer, serving
from tests.bai.web.panel.rendering import HOSTILE, LABELLED_NODE, SECRET, theirs, two_projects
from tests.bai.web.route_walk import (
    UNSAFE,
    UnknownParameter,
    Values,
    addresses,
    answers_to,
    hostile_addresses,
    routes_of,
    sockets_of,
)
from tests.reconciler.lab import session
from tests.waiting import until

SAME, CROSS = {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "cross-site"}
EVERYWHERE: Values = {"cluster": ("here",), "number": ("0",), "group": ("default",), "commit": ("HEAD",)}
OURS: Values = {
    **EVERYWHERE,
    "project": ("p",),
    "name": ("own", "waiting", "n1", "p", "default", "ada", "data"),
    "session": ("p/own", "own", "lent", "labelled"),
    "identity": (
        "Session/p/own",
        "Session/p/waiting",
        "Session/p/lent",
        "Project/p",
        "Volume/p/data",
        "Service/p/web",
        "Node/n1",
        "Cluster/here",
    ),
    "resource": ("Session/p/own", "Node/n1"),
    "kind": ("Session", "Node", "Project", "Quota", "Service"),
    "service": ("web",),
    "node": ("n1",),
    "user": ("ada",),
    "volume": ("data",),
    "kernel": ("main1",),
    "action": ("end",),
    "target": ("Session/p/own",),
    "path": ("kept.txt",),
    "app": ("jupyter",),
    "to": ("https://jupyter--served--p.apps.example/tree",),
    "browser": ("b" * 43,),
}
"""By the names of parameters, what of them leads somewhere."""
THEIRS: Values = {
    **OURS,
    "project": (SECRET,),
    "name": (
        f"{SECRET}-run",
        f"{SECRET}-waits",
        SECRET,
        f"{SECRET}-quota",
        f"{SECRET}-user",
        f"{SECRET}-volume",
    ),
    "session": (f"{SECRET}/{SECRET}-run", f"{SECRET}-run"),
    "identity": (
        f"Session/{SECRET}/{SECRET}-run",
        f"Project/{SECRET}",
        f"Quota/{SECRET}-quota",
        f"Service/{SECRET}/{SECRET}-web",
    ),
    "service": (f"{SECRET}-web",),
    "resource": (f"Session/{SECRET}/{SECRET}-run", f"Project/{SECRET}"),
    "user": (f"{SECRET}-user",),
    "target": (f"Session/{SECRET}/{SECRET}-run",),
    "volume": (f"{SECRET}-volume",),
    "app": (SECRET,),
    "to": (f"https://{SECRET}--{SECRET}-full--{SECRET}.apps.example/",),
}
"""The same of the other project: whoever asks knows these words, and is told no more."""
OPEN = ("/login", "/assets/", "/healthz", "/readyz", "/openapi.json", "/api/v1/login")
"""Where nobody has to say who they are."""
MORE = f"""
apiVersion: bai/v1
kind: User
metadata: {{name: ada}}
spec: {{projects: [p]}}
---
apiVersion: bai/v1
kind: User
metadata: {{name: {SECRET}-user, annotations: {{note: {SECRET}-user-note}}}}
spec: {{projects: [{SECRET}], email: {SECRET}-mail@{SECRET}.example}}
---
apiVersion: bai/v1
kind: AppProxy
metadata: {{name: apps, annotations: {{note: {SECRET}-apps-note}}}}
spec: {{url: "https://*.apps.example"}}
---
apiVersion: bai/v1
kind: Session
metadata: {{name: served, project: p}}
spec:
  command: [sleep, inf]
  ports: [{{name: jupyter, port: 8888}}]
  resources: {{cpu: 1}}
  placement: {{nodeSelector: {{rack: none}}}}
---
apiVersion: bai/v1
kind: Service
metadata: {{name: web, project: p}}
spec: {{template: {{command: [sleep, inf], placement: {{nodeSelector: {{rack: none}}}}}}}}
---
apiVersion: bai/v1
kind: Service
metadata: {{name: {SECRET}-web, project: {SECRET}, annotations: {{note: {SECRET}-web-note}}}}
spec: {{template: {{command: [{SECRET}-command], placement: {{nodeSelector: {{rack: none}}}}}}}}
---
apiVersion: bai/v1
kind: Quota
metadata: {{name: {SECRET}-quota, annotations: {{note: {SECRET}-quota-note}}}}
spec: {{subject: {{project: {SECRET}}}, total: {{cpu: 100}}}}
---
apiVersion: bai/v1
kind: SessionTemplate
metadata: {{name: {SECRET}-template, project: {SECRET}}}
spec: {{session: {{command: [{SECRET}-template-command]}}}}
---
apiVersion: bai/v1
kind: Session
metadata:
  name: {SECRET}-full
  project: {SECRET}
  labels: {{a: {SECRET}-label}}
  annotations: {{b: {SECRET}-annotation}}
spec:
  command: [run, {SECRET}-word]
  image: registry.example/{SECRET}-image:1
  env: {{{SECRET.upper()}_NAME: {SECRET}-value}}
  ports: [{{name: {SECRET}, port: 8080}}]
  resources: {{cpu: 1, memory: 1GiB}}
"""
LENDING = f"""
apiVersion: bai/v1
kind: Quota
metadata: {{name: p-cores}}
spec: {{subject: {{project: p}}, total: {{cpu: 4}}, cohort: lab}}
---
apiVersion: bai/v1
kind: Quota
metadata: {{name: {SECRET}-cores}}
spec: {{subject: {{project: {SECRET}}}, total: {{cpu: 1}}, cohort: lab}}
"""
"""Of the other project more runs than is its own, so that a session of ours waits for it."""
VOLUMES = f"""
apiVersion: bai/v1
kind: StorageHost
metadata: {{{{name: disk}}}}
spec: {{{{root: {{root}}, node: n1}}}}
---
apiVersion: bai/v1
kind: Volume
metadata: {{{{name: data, project: p}}}}
spec: {{{{}}}}
---
apiVersion: bai/v1
kind: Volume
metadata: {{{{name: {SECRET}-volume, project: {SECRET}}}}}
spec: {{{{}}}}
---
apiVersion: bai/v1
kind: Volume
metadata: {{{{name: data}}}}
spec: {{{{}}}}
"""
KEPT = re.compile(r"no-store|private, no-cache|public, max-age=31536000, immutable")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two projects, of which one has its name in every field of its documents."""
    folder = tmp_path_factory.mktemp("walk")
    lab = Lab(folder, node=LABELLED_NODE)
    lab.world.files_of = lambda kernel: {"kept.txt": kernel.spec.id.encode()}
    lab.workspace.storage = NodeStorage(lambda name: None)
    (folder / "disk").mkdir()
    lab.write("volumes", VOLUMES.format(root=folder / "disk"))
    two_projects(lab)
    for part in ("p/data", f"{SECRET}/{SECRET}-volume", "data"):
        (folder / "disk" / part).mkdir(parents=True, exist_ok=True)
        (folder / "disk" / part / "kept.txt").write_bytes(part.encode())
    (folder / "disk" / SECRET / f"{SECRET}-volume" / f"{SECRET}-file").write_text(f"{SECRET}-inside")
    lab.write("more", MORE)
    assert lab.once(), lab.lines
    lab.once()
    with contextlib.closing(sqlite3.connect(lab.folder.parent / "state" / "store.db")) as store, store:
        store.execute(
            "UPDATE events SET cause = ?, actor = ? WHERE resource = 'Session/p/own'",
            (f"made room for Session/{SECRET}/{SECRET}-run", f"session {SECRET}/{SECRET}-run"),
        )
    lab.write("one-more", session("one-more", "resources: {cpu: 1}"))
    lab.once()
    lab.write("lending", LENDING)
    lab.write("lent", session("lent", "resources: {cpu: 1}"))
    lab.write("labelled", session("labelled", "placement: {nodeSelector: {rack: none}}"))
    lab.once()
    yield lab
    lab.close()


@dataclass
class Walker:
    """Somebody who asks for everything. Streams go on in threads of their own until the server ends."""

    client: httpx.Client
    answers: list[tuple[str, httpx.Response, str]] = field(default_factory=list)
    streams: list[tuple[str, httpx.Response, list[str]]] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)
    opened: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def ask(self, address: str) -> None:
        answer = self.opened.enter_context(self.client.stream("GET", address))
        if "content-length" in answer.headers or answer.status_code in (204, 304):
            self.answers.append((address, answer, answer.read().decode()))
            return
        told: list[str] = []
        self.streams.append((address, answer, told))
        self.threads.append(threading.Thread(target=self._listen, args=(answer, told)))
        self.threads[-1].start()

    def _listen(self, answer: httpx.Response, told: list[str]) -> None:
        with contextlib.suppress(httpx.HTTPError):  # The server ends.
            for text in answer.iter_text():
                told.append(text)  # Each as it comes: somebody waits for it.

    def hears(self, word: str) -> bool:
        """Whether one of the streams has said it."""
        return any(word in "".join(told) for _, _, told in self.streams)

    def end(self) -> None:
        """After the server."""
        for each in self.threads:
            each.join(PATIENCE)
            assert not each.is_alive()
        self.opened.close()

    def all(self) -> Iterator[tuple[str, httpx.Response, str]]:
        yield from self.answers
        yield from ((address, answer, "".join(told)) for address, answer, told in self.streams)


def walker(address: str, who: str) -> Walker:
    """With a login, and with a token for the API; `who` is empty for somebody who has neither."""
    limits = httpx.Limits(max_connections=None)
    headers = bearer(who) if who else {}
    client = httpx.Client(base_url=address, headers=headers, timeout=PATIENCE, limits=limits, verify=False)
    if who:
        assert client.post("/login", data={"credential": who}, headers=SAME).status_code == 303
    return Walker(client)


def made_there(lab: Lab) -> Values:
    """What parameters may be that only this world knows."""
    [*_, last] = (each.apply for each in lab.workspace.store.audit("here") if each.apply)
    return {"apply": (last,)}


def walked(lab: Lab, who: str, values: Values, *, vary: bool = True) -> Walker:
    """Every GET route was asked, and something happened to both projects while streams were open."""
    values = {**values, **made_there(lab)}
    with serving(lab.app) as address:
        made = walker(address, who)
        try:
            for route in routes_of(lab.app, "GET"):
                for each in addresses(route, values, vary=vary):
                    made.ask(each)
            news = f"news-{who}-{'all' if vary else 'some'}"
            for name, text in (("their-news", theirs(f"{SECRET}-{news}", "resources: {cpu: 1}")),
                               ("our-news", session(news, "resources: {cpu: 1}"))):  # fmt: skip
                lab.write(name, text)
            lab.once()
            if made.streams:
                until(lambda: made.hears(news), "who listens hears of it before the server ends")
        except BaseException:
            made.opened.close()
            raise
    made.end()
    return made


@pytest.fixture(scope="module")
def of_admin(world: Lab) -> Walker:
    """What somebody who sees everything was answered."""
    return walked(world, "admin", OURS)


def told(address: str, text: str, values: Values) -> str:
    """An answer without the words that whoever asked for this address has written themselves."""
    for word in sorted({word for words in values.values() for word in words if SECRET in word}, key=len)[
        ::-1
    ]:
        if word in address or word.replace("/", "%2F") in address:
            text = re.sub(rf"(?<![\w-]){re.escape(word)}(?![\w-])", "", text)
    return text


@pytest.mark.parametrize(
    ("who", "vary"),
    [
        ("ours", False),
        pytest.param("ours", True, marks=pytest.mark.slow),
        pytest.param("operator-of-p", True, marks=pytest.mark.slow),
    ],
)
def test_who_sees_one_project_is_told_nothing_of_another_one_by_any_route(
    world: Lab, who: str, vary: bool
) -> None:
    made = walked(world, who, OURS, vary=vary)
    assert len(made.answers) > (100 if vary else 60) and len(made.streams) >= 2
    for address, answer, text in made.all():
        assert answer.status_code != 500, address
        assert SECRET not in text + json.dumps(dict(answer.headers)), address
    assert made.hears(f"news-{who}")
    lent = [address for address, _, text in made.answers if "what is left is lent" in text]
    telling = {answers_to(world.app, address) for address in lent}
    assert telling >= TELL_WAITS or (not vary and len(telling & TELL_WAITS) > 1)


TELL_WAITS = {
    "/api/v1/clusters/{cluster}/queue",
    "/api/v1/clusters/{cluster}/resources",
    "/api/v1/clusters/{cluster}/commands/explain",
    "/clusters/{cluster}/queue",
}
"""Some of the routes that say of a session of ours that it waits for what is lent to others."""


@pytest.mark.slow
def test_nor_by_any_that_is_about_the_other_one(world: Lab) -> None:
    made = walked(world, "ours", THEIRS)
    for address, answer, text in made.all():
        assert answer.status_code != 500, address
        assert SECRET not in told(address, text, THEIRS), address


@pytest.mark.slow
def test_who_sees_everything_is_told_so_by_the_same_walk(world: Lab, of_admin: Walker) -> None:
    """Else the walks above would find nothing since there is nothing; and each route answers to somebody."""
    own, other = of_admin, walked(world, "admin", THEIRS)
    telling = {answers_to(world.app, address) for address, _, text in own.all() if SECRET in text}
    telling |= {answers_to(world.app, address) for address, _, text in other.all() if SECRET in text}
    assert len(telling) > 15, telling
    alive = {
        answers_to(world.app, address)
        for address, answer, _ in own.all()
        if answer.status_code not in (404, 422)
    }
    asked = {route.path for route in routes_of(world.app, "GET")} - NEEDS_MORE
    assert asked <= alive, f"say in OURS what leads somewhere: {asked - alive}"


NEEDS_MORE = {
    "/assets/{name}",  # test_files_are_kept_for_ever_under_their_contents_name
    "/login/oidc/{number:int}",  # tests/bai/web/panel/login
    "/login/oidc/{number:int}/leave",
    "/login/oidc/{number:int}/logout",
    # There is no git here: tests/bai/web/panel/proposals.
    "/api/v1/clusters/{cluster}/review",
    "/api/v1/clusters/{cluster}/commands/review",
    "/clusters/{cluster}/change",
    "/clusters/{cluster}/changes/{commit}",
}
"""Routes of which nothing in this world answers otherwise than 404."""


def test_who_is_not_logged_in_is_told_nothing_at_all(world: Lab) -> None:
    made = walked(world, "", OURS, vary=False)
    assert made.streams == []
    for address, answer, text in made.answers:
        if answers_to(world.app, address) and not address.startswith(OPEN):
            assert answer.status_code in (303, 401), address
            assert answer.headers.get("location", "/login").startswith("/login"), address
        assert SECRET not in text and "p/own" not in text and "Node/n1" not in text, address


def test_every_route_has_the_headers_that_keep_it_ours(world: Lab) -> None:
    keeps_its_answers_ours(world, walked(world, "admin", OURS, vary=False))


@pytest.mark.slow
def test_every_answer_has_the_headers_that_keep_it_ours(world: Lab, of_admin: Walker) -> None:
    keeps_its_answers_ours(world, of_admin)


def keeps_its_answers_ours(world: Lab, made: Walker) -> None:
    with serving(world.app) as address:
        assets = walker(address, "")
        pages = "".join(text for _, _, text in made.answers)
        for asset in set(re.findall(r'"(/assets/[^"#]+)"', pages)):
            assets.ask(asset)
        assets.ask("/nothing/at/all")
    assets.end()
    assert len(assets.answers) > 4
    for address, answer, _ in (*made.all(), *assets.all()):
        headers = answer.headers
        policy = dict(
            part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";")
        )
        assert policy["default-src"] == "'none'" and policy["frame-ancestors"] == "'none'", address
        assert "unsafe" not in policy.get("script-src", "") and "http" not in str(policy), address
        if headers.get("content-type", "").startswith("text/html"):
            assert policy["form-action"] == "'self'" and policy["base-uri"] == "'none'", address
            assert {"Cookie"} <= set(re.split(r", *", headers["vary"])), address
        assert headers["x-frame-options"] == "DENY" and headers["x-content-type-options"] == "nosniff", (
            address
        )
        assert headers["referrer-policy"] in ("no-referrer", "same-origin"), address
        assert headers["cross-origin-opener-policy"] == "same-origin", address
        assert headers["cross-origin-resource-policy"] == "same-origin", address
        assert KEPT.fullmatch(headers["cache-control"]), (address, headers["cache-control"])
        assert ("immutable" in headers["cache-control"]) == (
            address.startswith("/assets/") and answer.is_success
        )
        assert not any(name.startswith("access-control-") for name in headers), address


APPS_OWN = re.escape("//jupyter--served--p.apps.example/.bai/open?code=")
"""Where alone a page leads that is not of this server."""


AWAY, SPLIT = "//evil.test/%2e%2e", "a\r\nX-Injected: yes\r\n\r\n"


@pytest.mark.parametrize(
    "word",
    [
        f"{AWAY}{SPLIT}{HOSTILE}/x",
        # Each for itself: one may be refused for what another is.
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in (f"{HOSTILE}/x", f"{SPLIT}<img src=x>", AWAY)
        ),
    ],
)
def test_what_an_address_says_is_text_and_no_header(world: Lab, word: str) -> None:
    """Names of sessions, files, branches and users that come by a link; split answers; open redirects."""
    with serving(world.app) as address:
        made = walker(address, "admin")
        for route in routes_of(world.app, "GET"):
            for each in hostile_addresses(route, {**OURS, **made_there(world)}, word):
                made.ask(each)
    made.end()
    assert len(made.answers) > 60
    for asked, answer, text in made.all():
        assert answer.status_code != 500, asked
        assert "x-injected" not in answer.headers and "set-cookie" not in answer.headers, asked
        assert re.match(r"/(?!/)|$", answer.headers.get("location", "")), asked
        if answer.headers.get("content-type", "").startswith("text/html"):
            assert "<img" not in text and "60481729" not in text, asked
            assert not re.search(rf"""(href|src|action)="?(https?:(?!{APPS_OWN})|//)""", text), asked


@dataclass
class Poster:
    """An admin's browser, and the token of its forms."""

    client: TestClient
    form_token: str


def poster(lab: Lab, who: str = "admin") -> Poster:
    client = asking(lab.app, base_url="http://panel.test", follow_redirects=False)
    assert client.post("/login", data={"credential": who}, headers=SAME).status_code == 303
    found = re.search(r'name="token" value="([0-9a-f]{64})"', client.get("/clusters/here/nodes").text)
    assert found
    return Poster(client, found[1])


def changing(app: FastAPI) -> Iterator[tuple[str, str]]:
    """Method and address of each route that may change something."""
    for method in UNSAFE:
        for route in routes_of(app, method):
            for each in addresses(route, OURS, vary=False):
                yield method, each


def test_nothing_is_changed_for_another_site_or_without_the_form_of_ones_own_login(world: Lab) -> None:
    admin, other, nobody = poster(world), poster(world, "viewer"), poster(world).client
    nobody.cookies.clear()
    revision, asked = world.workspace.store.revision("here"), 0
    for method, address in changing(world.app):
        if address.startswith(("/api/", "/hooks/")):
            for headers in (SAME, CROSS, {}):
                answer = admin.client.request(method, address, json={}, headers=headers)
                assert answer.status_code in (401, 403, 404), (address, "a cookie is worth nothing here")
            continue
        forged = [(CROSS, admin.form_token), ({"Sec-Fetch-Site": "same-site"}, admin.form_token)]
        forged += [({"Origin": "http://evil.test"}, admin.form_token), ({"Origin": "null"}, admin.form_token)]
        forged += [({}, admin.form_token)]
        for headers, token in forged:
            answer = admin.client.request(method, address, data={"token": token}, headers=headers)
            assert answer.status_code == 403 and "set-cookie" not in answer.headers, (
                method,
                address,
                headers,
            )
        for token in ("", other.form_token, "0" * 64) if address != "/login" else ():
            answer = admin.client.request(method, address, data={"token": token}, headers=SAME)
            assert answer.status_code in (400, 403, 415, 422), (method, address, token)
            assert "set-cookie" not in answer.headers
        stranger = nobody.request(method, address, data={"token": admin.form_token}, headers=SAME)
        assert stranger.status_code in (303, 401, 403), (method, address)
        assert stranger.headers.get("location", "/login").startswith("/login")
        asked += 1
    assert asked >= 2 and world.workspace.store.revision("here") == revision
    assert admin.client.get("/clusters/here/nodes").status_code == 200, "the login is as it was"


OWN_ORIGIN = {"Origin": "http://panel.test"}


def socket_addresses(lab: Lab, values: Values) -> list[str]:
    return [
        each
        for route in sockets_of(lab.app)
        for each in addresses(route, values, vary=False)  # type: ignore[arg-type]
    ]


def test_a_web_socket_opens_to_pages_of_ours_alone(world: Lab) -> None:
    admin = poster(world)
    for address in socket_addresses(world, OURS):
        for headers in ({"Origin": "http://evil.test"}, {"Origin": "null"}, {}):
            refused(admin, address, headers)
        for token in ("", poster(world, "viewer").form_token, "0" * 64):
            refused(Poster(admin.client, token), address, OWN_ORIGIN)


def test_a_web_socket_opens_to_operators_of_its_project_alone(world: Lab) -> None:
    nobody, operator = poster(world, "operator-of-p"), poster(world, "operator-of-p")
    nobody.client.cookies.clear()
    for address in socket_addresses(world, OURS):
        for who in (nobody, poster(world, "viewer"), poster(world, "ours")):
            refused(who, address, OWN_ORIGIN)
    theirs_too = socket_addresses(world, THEIRS)
    for address in theirs_too:
        refused(operator, address, OWN_ORIGIN)
    assert theirs_too


def test_each_web_socket_opens_to_who_may(world: Lab) -> None:
    """Else the walks above would find nothing since nobody is let in."""
    for route in sockets_of(world.app):
        let_in = 0
        for address in addresses(route, OURS, vary=False):  # type: ignore[arg-type]
            with contextlib.suppress(WebSocketDisconnect):
                let_in += is_let_in(poster(world, "operator-of-p"), address, OWN_ORIGIN)
        assert let_in, route


def refused(who: Poster, address: str, headers: dict[str, str]) -> None:
    """Before it is opened."""
    with pytest.raises(WebSocketDisconnect):
        is_let_in(who, address, headers)


def is_let_in(who: Poster, address: str, headers: dict[str, str]) -> bool:
    """Raises WebSocketDisconnect where the upgrade is refused."""
    protocols = ["bai-terminal", f"form.{who.form_token}"]
    where = f"ws://panel.test{address}"  # With its cookies.
    with who.client.websocket_connect(where, subprotocols=protocols, headers=dict(headers)):
        return True


# --- the walk itself ---------------------------------------------------------------------------------------


def test_a_route_that_takes_what_nobody_knows_is_found() -> None:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

    class Asked(BaseModel):
        strange: str

    @app.get("/path/{unheard}")
    def of_a_path(unheard: str) -> str:
        return unheard

    @app.get("/query")
    def of_a_query(unheard: str) -> str:
        return unheard

    @app.get("/model")
    def of_a_model(asked: Annotated[Asked, Query()]) -> str:
        return asked.strange

    for route in routes_of(app, "GET"):
        with pytest.raises(UnknownParameter):
            list(addresses(route, OURS))


def test_every_choice_of_a_query_is_walked() -> None:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

    @app.get("/{cluster}/{project:path}")
    def of_choices(
        cluster: str, project: str, by: Literal["a", "b"] | None = None, whole: bool = False, other: str = ""
    ) -> Response:
        return Response()

    [route] = routes_of(app, "GET")
    assert list(addresses(route, OURS)) == [
        "/here/p", "/here/p?by=a", "/here/p?by=b", "/here/p?whole=true", "/here/p?whole=false",
        "/here/p?path=kept.txt",
    ]  # fmt: skip


def test_a_socket_that_opens_to_everybody_is_found() -> None:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

    @app.websocket("/{cluster}/talk")
    async def talk(socket: WebSocket, cluster: str) -> None:
        await socket.accept()
        await socket.send_text(cluster)

    [route] = sockets_of(app)
    [address] = addresses(route, OURS, vary=False)  # type: ignore[arg-type]
    with pytest.raises(BaseException, match="DID NOT RAISE"):
        refused(Poster(TestClient(app), ""), address, {"Origin": "http://evil.test"})
