"""A booted node with Debian's own packages and stand-ins for others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.lab.nspawn import Nodes
from tests.lab.packages import Package, Repository
from tests.roles.role_site import RoleSite

_DCGM = """#!/usr/bin/python3
import http.server, sys
port = int([word for word in sys.argv if word.startswith("--address=")][0].rpartition(":")[2])
fields = [line.split(",") for line in open("/etc/bai/dcgm-counters.csv") if line.startswith("DCGM_FI_")]
text = "".join(f'{name}{{gpu="0",UUID="GPU-0"}} 0\\n' for name, kind, _ in fields if kind.strip() != "label")
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())
    def log_message(self, *words): pass
http.server.HTTPServer(("", port), Handler).serve_forever()
"""
_UNIT = "[Service]\nExecStart={}\n[Install]\nWantedBy=multi-user.target\n"


class Site(RoleSite):
    """Debian's packages, and stand-ins beside them."""

    def __init__(self, nodes: Nodes, folder: Path) -> None:
        super().__init__(nodes, folder)
        self.repository = Repository(nodes.shared / "machine")
        for version in ("1.0-1", "2.0-1"):
            self.repository.add(Package("bai-tool", version, files={"/usr/share/bai-tool": version}))
        self.repository.add(
            Package(
                "datacenter-gpu-manager-4-core", "1:4.2.3-1",
                files=_service("nvidia-dcgm", "/bin/sleep infinity"),
            ),
            Package(
                "datacenter-gpu-manager-exporter", "4.1.0-1",
                files={**_service("nvidia-dcgm-exporter", "/bin/false"), "/usr/bin/dcgm-exporter": _DCGM},
            ),
        )  # fmt: skip
        self.repository.publish()

    def own(self) -> dict[str, Any]:
        """The stand-ins."""
        source = {"name": "machine", "uri": self.repository.file_uri, "suites": ["stable"], "trusted": True}
        return {**source, "components": ["main"]}

    def repositories(self) -> dict[str, Any]:
        return {"apt": [self.own(), *self.debian()]}


def _service(name: str, command: str) -> dict[str, str]:
    return {f"/lib/systemd/system/{name}.service": _UNIT.format(command)}
