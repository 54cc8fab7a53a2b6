"""A cluster of one node in a browser, over native processes or a Docker engine: `bai serve` as a process, and
somebody of each role who looks at it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bai.web.auth.static_tokens import hash_of
from tests.bai.web.browser.site import Visit
from tests.lab.browser import Chromium
from tests.lab.docker import IMAGE, Engines
from tests.lab.serve import TOKEN

PROVIDERS = ("process", "docker")
ROLES = ("viewer", "operator", "admin")
"""Their tokens are their names; `outsider` sees another project only, and a stranger has no token."""
OUTSIDER = "outsider"
_CLUSTER = """\
apiVersion: bai/v1
kind: Cluster
metadata: {{name: here}}
spec: {{provider: {provider}}}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {{name: all}}
---
apiVersion: bai/v1
kind: Project
metadata: {{name: demo}}
---
apiVersion: bai/v1
kind: Project
metadata: {{name: other}}
---
apiVersion: bai/v1
kind: Node
metadata: {{name: here1}}
spec: {node}
---
apiVersion: bai/v1
kind: Session
metadata: {{name: talks, project: demo}}
spec:
  {image}
  command: [sh, -c, "n=0; while :; do n=$((n + 1)); echo word $n; sleep 0.2; done"]
  resources: {{cpu: 100m, memory: 32MiB}}
  stop: {{grace: 0s}}
---
apiVersion: bai/v1
kind: Session
metadata: {{name: waits, project: demo}}
spec:
  {image}
  command: [sleep, inf]
  resources: {{cpu: 4096, memory: 1GiB}}
"""


@dataclass
class House:
    """`bai serve` with somebody to look at it."""

    address: str
    chromium: Chromium

    def visit(self, token: str = "") -> Visit:
        made = Visit(self.chromium.page(), self.address)
        if token:
            made.log_in(token)
        return made


def access_file(folder: Path) -> Path:
    lines: list[dict[str, Any]] = [
        {"name": name, "sha256": hash_of(name), "role": name if name in ROLES else "viewer"}
        for name in (*ROLES, OUTSIDER)
    ]
    lines[-1]["projects"] = ["other"]
    lines.append({"name": "lab", "sha256": hash_of(TOKEN), "role": "admin"})
    file = folder / "access.json"
    file.write_text(json.dumps({"tokens": lines}))
    return file


def node_of(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The node of the provider that a fixture is for: this machine, or an engine of its own."""
    node: dict[str, Any] = {"address": "localhost", "resourceGroup": "all"}
    if request.param == "docker":
        engines: Engines = request.getfixturevalue("engines")
        cores = {"numaNodes": [{"id": 0, "cpus": "0-1", "memory": "4GiB"}]}
        (engine,) = engines(1)
        node |= {"docker": {"socket": engine.socket}, "hardware": cores}
    return node


def documents(provider: str, node: dict[str, Any]) -> str:
    image = f"image: {IMAGE}" if provider == "docker" else "type: interactive"
    return _CLUSTER.format(provider=provider, node=json.dumps(node), image=image)


def without_sessions(text: str) -> str:
    return "---\n".join(each for each in text.split("---\n") if "kind: Session" not in each)


def environment_of(folder: Path) -> dict[str, str]:
    return {"BAI_PROCESS_ROOT": str(folder / "machine"), "BAI_STATE": os.devnull}
