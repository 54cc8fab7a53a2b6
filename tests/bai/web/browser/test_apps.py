"""Apps of real sessions in a real browser: `bai serve --apps-listen`, Caddy with certificates of its own,
logins at the panel, and another app of the same site that means no good."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

import httpx
import pytest
import yaml
from playwright.sync_api import Page, expect

from tests.bai.conftest import PATIENCE, Repo
from tests.harness.ports import free_port
from tests.lab.browser import Chromium
from tests.waiting import until

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]
PROGRAM = """
import base64, hashlib, http.server, json, sys, urllib.parse

SEEN = []
PAGE = '''<!doctype html><title>an app</title><p id="said">nothing</p><p id="cookie"></p><script>
document.getElementById("cookie").textContent = document.cookie;
const socket = new WebSocket(location.origin.replace("http", "ws") + "/talk");
socket.onmessage = (event) => { document.getElementById("said").textContent = event.data; };
</script>'''
EVIL = '''<!doctype html><title>evil</title><p id="done">not yet</p><script>
const at = %s;
const ended = (make) => new Promise((resolve) => make(resolve));
const element = (name, address) => ended((resolve) => {
  const made = document.createElement(name);
  made.onload = made.onerror = resolve;
  made.src = at + address;
  document.body.append(made);
});
Promise.allSettled([
  fetch(at + "/evil-post", {method: "POST", mode: "no-cors", credentials: "include"}),
  fetch(at + "/evil-get", {mode: "no-cors", credentials: "include"}),
  fetch(at + "/evil-cors", {credentials: "include"}),
  fetch(at + "/.bai/leave", {method: "POST", mode: "no-cors", credentials: "include"}),
  element("img", "/evil-image"), element("script", "/evil-script"), element("iframe", "/evil-frame"),
  ended((resolve) => {
    const socket = new WebSocket(at.replace("http", "ws") + "/evil-socket");
    socket.onopen = socket.onerror = resolve;
  }),
]).then(() => { document.getElementById("done").textContent = "done"; });
</script>'''


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path, _, query = self.path.partition("?")
        if path == "/seen":
            return self.say(json.dumps(SEEN), "application/json")
        SEEN.append([self.command, self.path, dict(self.headers)])
        if self.headers.get("Upgrade") == "websocket":
            return self.talk()
        self.say(EVIL % json.dumps(urllib.parse.unquote(query)) if path == "/evil" else PAGE, "text/html")

    do_POST = do_GET

    def say(self, text, kind):
        data = text.encode()
        self.send_response(200)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(data))),
                            ("Set-Cookie", "own=1; Domain=apps.localhost; Path=/")):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def talk(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        for name, value in (("Upgrade", "websocket"), ("Connection", "Upgrade"),
                            ("Sec-WebSocket-Accept",
                             base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(bytes([0x81, 5]) + b"hello")
        self.close_connection = True
        self.rfile.read(1)

    def log_message(self, *words):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Answers).serve_forever()
"""
DOCUMENTS = """
apiVersion: bai/v1
kind: AppProxy
metadata: {{name: apps}}
spec: {{url: "https://*.apps.localhost:{port}"}}
"""
TOKENS = {"ada": "operator", "eve": "viewer"}


@dataclass
class Served:
    """A server with two apps, `lab` and `bad`."""

    panel: str
    port: int
    tokens: dict[str, str]
    chromium: Chromium

    def app(self, session: str = "lab") -> str:
        return f"https://web--{session}--demo.apps.localhost:{self.port}"

    @contextlib.contextmanager
    def page(self) -> Iterator[Page]:
        made = self.chromium.page(ignore_https_errors=True)
        try:
            yield made
        finally:
            made.context.close()

    def ask(self, session: str, path: str, who: str = "ada") -> httpx.Response:
        """As a program does."""
        name = f"web--{session}--demo.apps.localhost"
        headers = {"Host": f"{name}:{self.port}", "Authorization": f"Bearer {self.tokens[who]}"}
        with httpx.Client(verify=False, timeout=PATIENCE) as client:
            return client.get(
                f"https://127.0.0.1:{self.port}{path}", headers=headers, extensions={"sni_hostname": name}
            )

    def seen(self, session: str = "lab") -> list[tuple[str, str, dict[str, str]]]:
        """What an app was asked."""
        return [(method, path, headers) for method, path, headers in self.ask(session, "/seen").json()]

    def log_in(self, page: Page, who: str) -> None:
        """Where a page has led to the login."""
        expect(page).to_have_url(re.compile(rf"{re.escape(self.panel)}/login\?next="))
        page.get_by_label("Token").fill(self.tokens[who])
        page.get_by_role("button", name="Log in").click()


@pytest.fixture
def served(repo: Repo, chromium: Chromium) -> Iterator[Served]:
    made = {
        name: repo.ok("token", name, "--role", role, "--format", "json").json for name, role in TOKENS.items()
    }
    access = repo.write(".access.yaml", yaml.safe_dump({"tokens": [each["line"] for each in made.values()]}))
    port, panel = free_port(), free_port()
    repo.write("apps.yaml", DOCUMENTS.format(port=port))
    for name in ("lab", "bad"):
        inside = free_port()
        ports = f"  ports: [{{name: web, port: {inside}, protocol: http}}]\n"
        repo.session(name, "python3", "-c", PROGRAM, str(inside), extra=ports)
    address = f"http://localhost:{panel}"
    words = [
        "--listen", f"127.0.0.1:{panel}", "--apps-listen", f"127.0.0.1:{port}", "--public-url", address,
        "--access", str(access), "--interval", "1s",
    ]  # fmt: skip
    log = repo.root.parent / "serve.log"
    with log.open("w") as out:
        server = repo.start("serve", *words, stdout=out, stderr=subprocess.STDOUT)
    try:
        found = Served(address, port, {name: each["token"] for name, each in made.items()}, chromium)
        for name in ("lab", "bad"):
            until(
                lambda name=name: server.poll() is None and _answers(found, name),
                lambda name=name: f"{name} answers; {_last_answer(found, name)}\n{log.read_text()}",
            )
        with chromium.reaching(port), chromium.reaching(panel):
            yield found
        server.terminate()
        assert server.wait(PATIENCE) == 0, log.read_text()
    finally:
        server.kill()
        server.wait()


def _answers(served: Served, session: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return served.ask(session, "/seen").status_code == 200
    return False


def _last_answer(served: Served, session: str) -> str:
    try:
        return str(served.ask(session, "/seen"))
    except httpx.TransportError as error:
        return str(error)


def test_an_app_is_opened_by_login_and_by_link_and_by_nobody_else(served: Served) -> None:
    with served.page() as page:
        page.goto(f"{served.app()}/tree?a=1")
        served.log_in(page, "ada")
        expect(page).to_have_url(f"{served.app()}/tree?a=1")
        expect(page.locator("#said")).to_have_text("hello")
        expect(page.locator("#cookie")).to_have_text("own=1")
        kept = {each["name"]: each for each in page.context.cookies(served.app())}
        login = kept["__Host-bai-app"]
        assert login["httpOnly"] and login["secure"] and login["domain"] == urlsplit(served.app()).hostname
        assert kept["own"]["domain"] == urlsplit(served.app()).hostname
        # Another app, of the same site and with a login of its own, is open beside it.
        page.goto(f"{served.app('bad')}/evil?{quote(served.app())}")
        expect(page.locator("#done")).to_have_text("done")
        page.goto(served.app())
        expect(page.locator("#said")).to_have_text("hello")
    asked = [path for _, path, _ in served.seen()]
    assert "/tree?a=1" in asked and "/talk" in asked
    assert not [path for path in asked if "evil" in path or ".bai" in path]
    for _, _, headers in (*served.seen(), *served.seen("bad")):
        assert "bai" not in headers.get("Cookie", "") and "Authorization" not in headers


def test_who_may_not_is_refused_and_who_has_a_link_is_let_in(served: Served) -> None:
    with served.page() as page:
        page.goto(served.app())
        served.log_in(page, "eve")
        expect(page.locator("h1")).to_contain_text("403")
        assert not [each for each in page.context.cookies(served.app()) if each["name"] == "__Host-bai-app"]
    where = f"{served.panel}/api/v1/clusters/here/apps/demo/lab/web/links"
    said = {"Authorization": f"Bearer {served.tokens['ada']}"}
    shared = httpx.post(where, headers=said, json={"for": 600}, timeout=PATIENCE)
    assert shared.status_code == 200, shared.text
    with served.page() as page:
        page.goto(shared.json()["url"])
        expect(page).to_have_url(f"{served.app()}/")
        expect(page.locator("#said")).to_have_text("hello")
        page.goto(f"{served.app()}/.bai/leave")
        page.get_by_role("button", name="Log out of this app").click()
        expect(page.locator("h1")).to_have_text("You are logged out of this app")
        page.goto(served.app())
        expect(page).to_have_url(re.compile(rf"{re.escape(served.panel)}/login"))
    assert json.dumps(served.seen()).count("token=") == 0
