"""`bai serve` with apps on this machine: a real JupyterLab and a small program that says what it is asked, as
native sessions, behind the real Caddy.

Three people have tokens that are their names: `ada` operates the project, `vic` may look at it, `eve` at
another one.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from bai.web.auth.static_tokens import hash_of
from tests.harness.bai_process import Command, run_bai, start_bai
from tests.harness.ports import free_port
from tests.lab.jupyter import PYTHON, environment, jupyter_folder
from tests.waiting import until

TOKEN = "swordfish"
"""JupyterLab's own: other programs of this machine reach its port."""
PATIENCE = 120.0
_ROOT = Path(__file__).resolve().parents[2]
_ROLES = {"ada": ("operator", "demo"), "vic": ("viewer", "demo"), "eve": ("viewer", "other")}
_TELLER = """
import http.server, json, os

class Teller(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({name.lower(): value for name, value in self.headers.items()}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["BAI_PORT_TELLER"])), Teller).serve_forever()
"""
_SERVE_LAB = (
    f"exec {PYTHON} -m jupyterlab --no-browser --ip=127.0.0.1 --port=$BAI_PORT_JUPYTER"
    f" --ServerApp.port_retries=0 --IdentityProvider.token={TOKEN}"
    " --ServerApp.allow_remote_access=True --ServerApp.trust_xheaders=True"
)


def _documents(data: Path, apps_port: int) -> list[dict[str, Any]]:
    def document(kind: str, name: str, spec: dict[str, Any], project: str = "") -> dict[str, Any]:
        metadata = {"name": name, **({"project": project} if project else {})}
        return {"apiVersion": "bai/v1", "kind": kind, "metadata": metadata, "spec": spec}

    def session(name: str, command: list[str], cpu: str, **spec: Any) -> dict[str, Any]:
        resources = {"cpu": cpu, "memory": "2GiB"}
        return document("Session", name, {"resources": resources, "command": command, **spec}, "demo")

    lab_port, teller_port = free_port(), free_port()
    teller = [str(PYTHON), "-c", _TELLER]
    return [
        document("Cluster", "here", {"provider": "process"}),
        document("Node", "localhost", {"address": "localhost", "resourceGroup": "local"}),
        document("ResourceGroup", "local", {"queue": "fifo"}),
        document("Project", "demo", {}),
        document("Project", "other", {}),
        document("StorageHost", "disk", {"type": "local", "root": str(data)}),
        document("Volume", "jupyter", {"host": "disk", "path": "jupyter"}, "demo"),
        document("AppProxy", "apps", {"url": f"https://*.apps.localhost:{apps_port}"}),
        session(
            "lab", ["sh", "-c", _SERVE_LAB], "500m", env=environment("/jupyter"),
            mounts=[{"volume": "jupyter", "path": "/jupyter", "readOnly": True}],
            ports=[{"name": "jupyter", "port": lab_port}],
        ),
        session(
            "teller", teller, "100m", ports=[{"name": "teller", "port": teller_port}],
            apps={"teller": {"access": "project"}},
        ),
        session("later", teller, "100m", ports=[{"name": "teller", "port": teller_port}], hold=True),
    ]  # fmt: skip


@dataclass
class AppsWorld:
    """`panel`: where people log in; `apps_port`: where Caddy listens."""

    folder: Path
    panel_port: int
    apps_port: int

    @property
    def panel(self) -> str:
        return f"http://127.0.0.1:{self.panel_port}"

    @property
    def repository(self) -> Path:
        return self.folder / "repository"

    def host(self, app: str, session: str) -> str:
        return f"{app}--{session}--demo.apps.localhost:{self.apps_port}"

    def url(self, app: str, session: str) -> str:
        return f"https://{self.host(app, session)}"

    def environment(self, **more: str) -> dict[str, str]:
        own = {"BAI_PROCESS_ROOT": str(self.folder / "machine"), "XDG_STATE_HOME": str(self.folder / "state")}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("BAI_")}
        return {**inherited, **own, "BAI_CONTEXTS": str(self.folder / "contexts.yaml"), **more}

    def bai(self, *words: str, folder: Path | None = None) -> str:
        """What a command says; it must go well."""
        done = run_bai(Command(list(words), self.environment(), folder or self.repository), timeout=PATIENCE)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def ask(self, app: str, session: str, path: str = "/", **headers: str) -> httpx.Response:
        """As a program does that believes the proxy's authority."""
        host = self.host(app, session)
        trusted = ssl.create_default_context(cafile=str(self.authority))
        with httpx.Client(verify=trusted, trust_env=False, timeout=60) as client:
            return client.get(
                f"https://127.0.0.1:{self.apps_port}{path}", headers={"Host": host, **headers},
                extensions={"sni_hostname": host.partition(":")[0]},
            )  # fmt: skip

    @property
    def authority(self) -> Path:
        return self.folder / "state" / "bai" / "apps" / "pki" / "authorities" / "local" / "root.crt"

    def answers(self, app: str, session: str, path: str = "/") -> bool:
        """Whether the app itself has answered ada."""
        try:
            return self.ask(app, session, path, Authorization="Bearer ada").status_code == 200
        except (OSError, httpx.HTTPError):
            return False


@contextmanager
def apps_world(folder: Path) -> Iterator[AppsWorld]:
    """Raises LabUnavailable."""
    installed, data = jupyter_folder(), folder / "data"
    data.mkdir()
    shutil.copytree(installed, data / "jupyter", copy_function=_link_or_copy)
    world = AppsWorld(folder, free_port(), free_port())
    world.repository.mkdir()
    documents = _documents(data, world.apps_port)
    (world.repository / "all.yaml").write_text("\n---\n".join(map(json.dumps, documents)))
    access = folder / "access.yaml"
    tokens = [
        {"name": name, "sha256": hash_of(name), "role": role, "projects": [project]}
        for name, (role, project) in _ROLES.items()
    ]
    access.write_text(json.dumps({"tokens": tokens}))
    words = [
        "serve", ".", "--access", str(access), "--listen", f"127.0.0.1:{world.panel_port}",
        "--public-url", world.panel, "--apps-listen", f"127.0.0.1:{world.apps_port}",
        "--apps-tls", "internal", "--interval", "2s",
    ]  # fmt: skip
    with (folder / "serve.log").open("w") as log:
        served = start_bai(Command(words, world.environment(), world.repository, stdout=log, stderr=log))

    def answers(app: str, session: str, path: str = "/") -> bool:
        assert served.poll() is None, "bai serve has ended"
        return world.answers(app, session, path)

    try:
        until(lambda: answers("teller", "teller"), "the small app answers")
        until(lambda: answers("jupyter", "lab", f"/api?token={TOKEN}"), "JupyterLab answers")
        yield world
    except AssertionError as error:
        raise AssertionError(f"{error}: {(folder / 'serve.log').read_text()}") from None
    finally:
        served.send_signal(signal.SIGTERM)
        served.wait(PATIENCE)
        world.bai("destroy", "--yes")


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
