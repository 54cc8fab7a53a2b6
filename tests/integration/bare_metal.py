"""The example of bare machines, as somebody has it who types commands: a lab of its own and a copy of the
folder, changed as one would change it in an editor."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from providers.ansible import open_provisioner, roles_path
from providers.condition.fingerprint import roles_digest
from providers.provisioning import Provisioner, ProvisionTarget
from reconciler.provisioning.targets import provision_targets
from reconciler.sources.source import open_source
from reconciler.workspace.workspace import Workspace
from tests.examples.user import EXAMPLES, User
from tests.harness.bai_process import BAI, Command, run_bai
from tests.harness.labs import spent
from tests.harness.ports import free_port
from tests.lab.bare_metal_lab import BareMetalLab
from tests.lab.nspawn import Node
from tests.lab.packages import Package, Repository

THING = "lab-thing"
"""A package of the lab's own, in versions 1.0-1 and 2.0-1."""


class Site:
    """`nodes`: name → machine. Commands run outside the lab's network, and reach it over the loopback."""

    def __init__(self, folder: Path) -> None:
        self.lab = BareMetalLab(folder / "lab", port=free_port())
        self.nodes: dict[str, Node] = {node.name: node for node in self.lab.nodes}
        self.folder = folder / "repository"
        shutil.copytree(EXAMPLES / "clusters/bare-metal-lab", self.folder)
        for path in self.folder.glob("*.yaml"):
            text = path.read_text().replace("/run/bai-bare-metal-lab", str(self.lab.folder))
            path.write_text(text.replace("port: 2222", f"port: {self.lab.port}"))
        chosen = {"BAI_PROCESS_ROOT": str(folder / "machine"), "NO_COLOR": "1", "COLUMNS": "160"}
        chosen["BAI_SECRET_STORES"] = str(self.lab.lab.stores)
        hidden = ("BAI_", "COV_")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
        self.user = User(self.folder, kept | chosen)
        self._things()

    def _things(self) -> None:
        repository = Repository(self.lab.lab.shared / "things")
        repository.add(*(Package(THING, f"{n}.0-1", files={"/opt/thing": f"{n}\n"}) for n in (1, 2)))
        repository.publish()
        source = {"name": "things", "uri": repository.file_uri, "suites": ["stable"], "components": ["main"]}

        def more(spec: dict[str, Any]) -> None:
            spec["repositories"]["apt"].append({**source, "trusted": True})
            spec["base"]["packages"][THING] = "2.0-1"

        self.edit_profile(more)

    def edit_profile(self, change: Any) -> None:
        """`change` is called with the profile's spec, and may change it."""
        path = self.folder / "profile.yaml"
        document = yaml.safe_load(path.read_text())
        change(document["spec"])
        path.write_text(yaml.safe_dump(document, sort_keys=False))

    def apply(self, *words: str) -> str:
        """What `bai apply` says, all of it."""
        with spent("provisioning"):
            all_words = ["apply", "--yes", *words]
            command = Command(all_words, self.user.environment, self.folder, stderr=subprocess.STDOUT)
            done = run_bai(command, timeout=1800)
        assert done.returncode == 0, done.stdout
        return done.stdout

    @contextlib.contextmanager
    def applying(self) -> Iterator[subprocess.Popen[str]]:
        """An apply that runs meanwhile, without check mode; what it says is read line by line."""
        with subprocess.Popen(
            [str(BAI), "apply", "--yes", "--no-check"],
            cwd=self.folder, env=self.user.environment, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                process.kill()

    def plan(self) -> str:
        """What `bai plan` prints, without asking the roles."""
        return self.user.bai("plan", "--no-check")

    def must_be_clean(self) -> None:
        """The plan has nothing to do; else what it would do is in the failure."""
        done = self.user.run("plan", "--detailed-exitcode")
        assert done.returncode == 0, done.stdout + done.stderr

    def runs(self) -> list[str]:
        """Every run of Ansible so far."""
        return sorted(path.name for path in (self.folder / ".bai/runs").iterdir())

    def sessions(self) -> Mapping[str, Mapping[str, Any]]:
        found = json.loads(self.user.bai("get", "sessions", "--format", "json"))["items"]
        return {each["id"].rpartition("/")[2]: each for each in found}

    def containers(self) -> dict[str, list[str]]:
        """Node → names of the containers that run there, asked without bai."""
        words = "docker ps --format '{{.Names}}'"
        return {name: node.must(words).split() for name, node in self.nodes.items() if node.process}

    def provisioner(self) -> tuple[Provisioner, dict[str, ProvisionTarget]]:
        """What provisions, and what each node is to be."""
        with Workspace.at(open_source(self.folder, stores=self.lab.lab.stores)) as workspace:

            def digest(roles: frozenset[str]) -> str:
                return roles_digest(roles_path(), roles)

            found = provision_targets(workspace.desired(), workspace.endpoints(), digest)
            return open_provisioner(self.folder / ".bai", lambda reference: reference), found

    def close(self) -> None:
        self.lab.close()


def waves(said: str) -> list[list[str]]:
    """The nodes of each wave, as `bai apply` names them."""
    found = re.findall(r"(?:this wave|Next wave): ([^.(\n]*)", said)
    return [re.findall(r"node\d", each) for each in found]
