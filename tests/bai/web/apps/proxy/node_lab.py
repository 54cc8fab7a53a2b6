"""The Caddy of a node as `roles/app_proxy` configures it, with its way in to an app's lab, without SSH."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx

from bai.web.apps.proxy.certificates import AcmeCertificates, InternalCertificates
from bai.web.apps.proxy.engine import find_engine
from bai.web.apps.proxy.node_config import NodeConfig, node_caddy_config
from tests.bai.web.apps.app_lab import PATTERN, AppLab, Gate, app_lab
from tests.harness.ports import free_port
from tests.waiting import until

APP = "web--lab--demo.apps.example"


@dataclasses.dataclass
class NodeLab:
    """`lab` asks the node; `way_in`: where bai is; `permission`: where the node asks itself."""

    lab: AppLab
    way_in: Path
    permission: int

    def certificate(self, name: str) -> int:
        url = f"http://127.0.0.1:{self.permission}/certificate"
        with httpx.Client(trust_env=False, timeout=60) as client:
            return client.get(url, params={"domain": name}).status_code


@contextlib.contextmanager
def node_lab(folder: Path, gate: Gate, *, tls: bool = False) -> Iterator[NodeLab]:
    """Without `tls`, certificates are by ACME, of which nothing but the question is tried."""
    permission = free_port()
    with (
        app_lab(folder / "bai", gate=gate) as lab,
        socket.create_server(("127.0.0.1", 0), backlog=512) as listener,
    ):
        way_in = lab.proxy.folder / "node"
        way_in.symlink_to(lab.proxy.entry)
        storage = folder / "node"
        certificates = InternalCertificates() if tls else AcmeCertificates("", "http://127.0.0.1/")
        config = NodeConfig(
            f"fd/{listener.fileno()}", f"http{'s' * tls}://{PATTERN}", certificates, storage,
            "" if tls else f"127.0.0.1:{permission}", str(way_in),
        )  # fmt: skip
        whole = node_caddy_config(config)
        if not tls:
            del whole["apps"]["http"]["servers"]["apps"]["tls_connection_policies"]
        (folder / "caddy.json").write_text(json.dumps(whole))
        caddy = subprocess.Popen(
            [find_engine(None), "run", "--config", folder / "caddy.json"],
            pass_fds=[listener.fileno()], env={"HOME": str(folder)}, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            asked = dataclasses.replace(lab, listener=listener, storage=storage)
            if tls:
                until(asked.is_trusted, "there is a certificate")
            yield NodeLab(asked, way_in, permission)
        finally:
            caddy.terminate()
            caddy.wait(30)
