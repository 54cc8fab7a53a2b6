"""Apps of pods through the real Caddy: an HTTP app with a WebSocket, and a service that is updated under
load."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from websockets.sync.client import connect

from tests.bai.conftest import PATIENCE, Repo
from tests.harness.ports import free_port
from tests.integration.kubernetes_documents import cluster_documents
from tests.integration.service_grounds import ProcessGround
from tests.integration.service_lab import service_document
from tests.integration.service_load import Load
from tests.lab.cache import LabUnavailable
from tests.lab.kubernetes.api import CORE
from tests.lab.kubernetes.lab import Kubernetes
from tests.lab.kubernetes.python_image import PYTHON, archive
from tests.waiting import until

pytestmark = [pytest.mark.xdist_group("kubernetes-sessions"), pytest.mark.slow]
_TALKER = """
import base64, hashlib, http.server, os

class Talker(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        key = self.headers.get("Sec-WebSocket-Key")
        if key is None:
            self.send_response(200)
            self.send_header("Content-Length", "10")
            self.end_headers()
            self.wfile.write(b"from a pod")
            return
        accept = hashlib.sha1(key.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(accept).decode())
        self.end_headers()
        self.close_connection = True
        while head := self.rfile.read(2):
            mask, size = self.rfile.read(4), head[1] & 127
            said = bytes(each ^ mask[at % 4] for at, each in enumerate(self.rfile.read(size)))
            if head[0] & 15 == 8:
                self.wfile.write(bytes([0x88, size]) + said)
                return
            self.wfile.write(bytes([0x81, 6 + size]) + b"heard " + said)

    def log_message(self, *words):
        pass

port = int(os.environ["BAI_PORT_HTTP"])
http.server.ThreadingHTTPServer(("127.0.0.1", port), Talker).serve_forever()
"""


class Site:
    """`bai serve` of pods, asked by Ada, who is its admin."""

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        self.panel, self.apps = free_port(), free_port()
        made = repo.ok("token", "ada", "--role", "admin", "--format", "json").json
        self.authorization = {"Authorization": f"Bearer {made['token']}"}
        self.access = repo.write(".access.yaml", yaml.safe_dump({"tokens": [made["line"]]}))
        url = f"http://*.apps.example:{self.apps}"
        proxy = {
            "apiVersion": "bai/v1",
            "kind": "AppProxy",
            "metadata": {"name": "apps"},
            "spec": {"url": url},
        }
        repo.write("apps.yaml", yaml.safe_dump(proxy))

    def headers(self, name: str) -> dict[str, str]:
        return {"Host": f"http--{name}--p.apps.example:{self.apps}", **self.authorization}

    def ask(self, name: str) -> requests.Response:
        return requests.get(f"http://127.0.0.1:{self.apps}/", headers=self.headers(name), timeout=60)

    def service(self) -> dict[str, Any]:
        path = "/api/v1/clusters/lab/resources/Service/p/web"
        answer = requests.get(f"http://127.0.0.1:{self.panel}{path}", headers=self.authorization, timeout=60)
        found: dict[str, Any] = answer.json() if answer.ok else {}
        return found

    def want(self, version: str) -> None:
        env = {"VERSION": version, "TELL": "127.0.0.1:9"}
        document = yaml.safe_load(
            service_document(ProcessGround(), env, 2, 8000, {"surge": 1, "unavailable": 0})
        )
        document["metadata"]["project"] = "p"
        document["spec"]["template"] |= {"image": PYTHON}
        self.repo.write(".next", yaml.safe_dump(document)).replace(self.repo.root / "service.yaml")

    def until_all_are(self, version: str) -> None:
        def is_complete() -> bool:
            status = self.service().get("status") or {}
            answers = {self.ask("web").text for _ in range(4)}
            return (
                status.get("phase") == "complete"
                and status.get("ready") == 2
                and answers == {json.dumps({"version": version})}
            )

        until(is_complete, lambda: f"all are {version}: {self.service()}", pause=0.5)


@contextmanager
def served(site: Site, log: Path) -> Iterator[None]:
    words = [
        "serve", "--listen", f"127.0.0.1:{site.panel}", "--apps-listen", f"127.0.0.1:{site.apps}",
        "--apps-tls", "off", "--access", str(site.access), "--interval", "1s",
    ]  # fmt: skip
    with log.open("w") as out:
        process = site.repo.stay(*words, out=out)
    try:
        until(lambda: "answers at" in log.read_text(), lambda: f"it answers: {log.read_text()}")
        yield
    except AssertionError as error:
        raise AssertionError(f"{error}\n{log.read_text()}") from None
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


@pytest.fixture
def site(kubernetes: Kubernetes, kube_namespace: str, tmp_path: Path) -> Iterator[Site]:
    try:
        image = archive()
    except LabUnavailable as error:
        pytest.skip(str(error))
    for node in kubernetes.pair():
        node.take(image)
    (tmp_path / "repository").mkdir()
    environment = {"KUBECONFIG": str(kubernetes.kubeconfig), "XDG_STATE_HOME": str(tmp_path / "state")}
    repo = Repo(tmp_path / "repository", environment)
    repo.write("lab.yaml", cluster_documents(kube_namespace))
    yield Site(repo)
    repo.ok("destroy", "--yes")
    left = kubernetes.api.get(f"{CORE}/namespaces/{kube_namespace}/pods")["items"]
    assert not left, [one["metadata"]["name"] for one in left]


def test_pods_by_url(site: Site, tmp_path: Path) -> None:
    talker = {
        "apiVersion": "bai/v1", "kind": "Session", "metadata": {"name": "talk", "project": "p"},
        "spec": {
            "image": PYTHON, "resources": {"cpu": "100m", "memory": "64MiB"}, "stop": {"grace": "1s"},
            "command": ["/usr/bin/python3", "-S", "-c", _TALKER], "ports": [{"name": "http", "port": 8000}],
        },
    }  # fmt: skip
    site.repo.write("talk.yaml", yaml.safe_dump(talker))
    site.want("v1")
    with served(site, tmp_path / "serve.log"):
        talks(site)
        site.until_all_are("v1")
        assert {each["node"] for each in site.service()["replicas"]} == {"n0", "n1"}
        with Load(site.apps, site.headers("web"), clients=4) as load:
            load.until_asked()
            begun = time.monotonic()
            site.want("v2")
            site.until_all_are("v2")
            load.until_asked()
        assert not load.problems(begun), Counter(each.problem for each in load.problems(begun))
        assert set(load.answered_by(begun)) == {"v1", "v2"}


def talks(site: Site) -> None:
    def answers() -> bool:
        # Caddy is begun anew once the documents are known, which cuts what is under way after some seconds.
        with suppress(requests.ConnectionError):
            return site.ask("talk").status_code == 200
        return False

    until(answers, lambda: f"it answers: {site.ask('talk').text}")
    assert site.ask("talk").text == "from a pod"
    nobody = {"Host": site.headers("talk")["Host"]}
    assert requests.get(f"http://127.0.0.1:{site.apps}/", headers=nobody, timeout=60).status_code == 401
    stream = socket.create_connection(("127.0.0.1", site.apps), timeout=60)
    address = f"ws://{nobody['Host']}/"
    # A handshake takes as long as it takes; and to a ping, after a while, the talker says what it heard.
    calm: dict[str, Any] = {"open_timeout": PATIENCE, "ping_interval": None, "proxy": None}
    with connect(address, sock=stream, additional_headers=site.authorization, **calm) as opened:
        for word in ("one", "two"):
            opened.send(word)
            assert opened.recv(timeout=60) == f"heard {word}"
