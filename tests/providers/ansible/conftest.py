"""Nodes of the lab, brought by the real site play to what small roles of the tests' own say."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from providers.ansible import open_provisioner, roles_path
from providers.provisioning import Provisioner, ProvisionTarget
from tests.lab.nspawn import Node, Nodes

SECRET = "sesame-open-7f3"


class Work:
    """A provisioner with the roles `greeting`, `restless` and `secretive`, and targets for it."""

    def __init__(self, nodes: Nodes, folder: Path) -> None:
        self.nodes = nodes
        self.folder = folder
        self.state = folder / "state"
        self.roles = folder / "roles"
        shutil.copytree(Path(__file__).parent / "roles", self.roles)
        shutil.copy(roles_path() / "site.yml", self.roles)
        self.provisioner: Provisioner = open_provisioner(self.state, lambda _: SECRET, roles=self.roles)

    def target(self, node: Node, *roles: str, **variables: Any) -> ProvisionTarget:
        """Small letters with an underscore are role variables; `ssh` and fields of the target are those."""
        own = {
            name: variables.pop(name)
            for name in tuple(variables)
            if name in ProvisionTarget.__dataclass_fields__
        }
        endpoint = node.endpoint(**variables.pop("ssh", {}))
        values = {"greeting_text": "hello {{ world }}", "restless_generation": 1, **variables}
        secrets = {"secretive_token": "env/TOKEN"} if "secretive" in roles else {}
        usual: dict[str, Any] = {"fingerprint": "f1", "os": "debian-12", "reboot_timeout": 300}
        return ProvisionTarget(node.name, endpoint, "p", roles, values, secrets, **{**usual, **own})

    def kept(self) -> str:
        """All text in all that is kept of runs."""
        files = (path for path in self.state.rglob("*") if path.is_file())
        return "\n".join(path.read_text(errors="replace") for path in files)


@pytest.fixture
def work(nodes: Nodes, tmp_path: Path) -> Work:
    return Work(nodes, tmp_path)
