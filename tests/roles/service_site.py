"""The control plane's machine with this very bai, from an index that the machine serves itself; and a bare
machine that it is to look after."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import requests

from tests.lab import wheels
from tests.lab.nspawn import SHARED, Nodes
from tests.lab.packages import Package, Repository
from tests.lab.sshd import make_key
from tests.reconciler.gitops.repositories import git
from tests.roles.role_site import RoleSite, shut

PYTHON = "3.11"
"""Of the machines."""
PASSWORD = "sesame-open-9c1"
WEBHOOK = "a-message-of-the-forge-77d0"
TOKEN = "bai_the-token-of-somebody-31f"
HOME = "/var/lib/bai/service"
INDEX = "http://127.0.0.1:8080/pypi/simple"
ACCESS = f"tokens:\n  - {{name: ada, sha256: {hashlib.sha256(TOKEN.encode()).hexdigest()}, role: admin}}\n"
CLUSTER = """\
apiVersion: bai/v1
kind: Cluster
metadata: {{name: lab}}
spec:
  provider: declared
  ssh: {{user: root, keyFrom: service/id}}
  profile: worker
---
apiVersion: bai/v1
kind: Node
metadata: {{name: worker}}
spec: {{address: {address}}}
"""
STORES = f"""\
apiVersion: bai/v1
kind: SecretStore
metadata: {{name: service}}
spec:
  infrastructure: true
  entries: [id]
  directory: {{path: {HOME}/.ssh}}
"""
PROFILE = """\
apiVersion: bai/v1
kind: NodeProfile
metadata: {{name: worker}}
spec:
  os: debian-12
  base: {{sysctls: {{net.core.somaxconn: "{queue}"}}}}
"""


class Site(RoleSite):
    """`node` is the control plane's, `worker` the other one."""

    def __init__(self, nodes: Nodes, folder: Path) -> None:
        (folder / "built").mkdir()
        wheel = wheels.build(folder / "built")
        self.version = wheel.name.split("-")[1]
        shared = nodes.shared / "wheels"
        needed = wheels.needed(wheel, "provisioning,server", python=PYTHON)
        shutil.copytree(wheels.lean(needed), shared)
        shutil.copy(wheel, shared)
        super().__init__(nodes, folder / "state")
        [self.worker] = nodes.fresh(1)
        self.repository = Repository(nodes.shared / "machine")
        self.repository.add(*(Package("bai-tool", version) for version in ("1.0-1", "2.0-1")))
        self.repository.publish()
        self.key, self.work = folder / "key", folder / "work"
        make_key(self.key)
        self.access = ACCESS

    def secret(self, reference: str) -> str:
        found = {
            "lab/KEY": self.key.read_text(), "lab/PASSWORD": PASSWORD, "lab/ACCESS": self.access,
            "lab/WEBHOOK": WEBHOOK, "lab/STORES": STORES,
        }  # fmt: skip
        return found[reference]

    def own(self) -> dict[str, Any]:
        """The stand-ins that the mirror takes in."""
        source = {"name": "machine", "uri": self.repository.file_uri, "suites": ["stable"], "trusted": True}
        return {**source, "components": ["main"]}

    def repositories(self) -> dict[str, Any]:
        return {"apt": [self.own(), *self.debian()], "pypi": INDEX}

    def services(self) -> dict[str, Any]:
        """bai's own service with all that it needs, and the reservoir of packages."""
        return {
            "controlPlane": {
                "bai": {
                    "version": self.version, "repository": self.remote, "interval": "1h",
                    "knownHosts": self.nodes.known_hosts.read_text().splitlines(),
                    "api": {"listen": self.node.address, "port": 8081},
                },
                "sshKeyFrom": "lab/KEY", "databasePasswordFrom": "lab/PASSWORD",
                "accessFrom": "lab/ACCESS", "webhookSecretFrom": "lab/WEBHOOK",
                "secretStoresFrom": "lab/STORES",
                "postgresql": {"version": "15", "allow": ["10.0.0.0/8"]},
                "registry": {"version": "2.8.2", "port": 5000},
            },
            "mirror": {
                "apt": [{"name": "lab", "distribution": "stable", "folder": f"{SHARED}/machine/pool"}],
                "pypiFolder": f"{SHARED}/wheels", "registry": {"version": "2.8.2", "port": 5001},
            },
        }  # fmt: skip

    @property
    def remote(self) -> str:
        return f"ssh://git@{self.node.address}/home/git/cluster.git"

    def make_remote(self) -> None:
        """What people do by hand: an account for git with a repository, and logins for bai on both."""
        keys = f"{self.nodes.key.with_suffix('.pub').read_text()}{self.key.with_suffix('.pub').read_text()}"
        self.node.must("apt-get -qq -y install git >/dev/null", timeout=600)
        self.node.must("useradd --create-home --shell /usr/bin/git-shell git")
        self.node.must(
            "cd /home/git && install -d -o git -g git -m 700 .ssh && "
            f"printf %s '{keys}' >.ssh/authorized_keys && "
            "runuser -u git -- git init --quiet --bare --initial-branch=main cluster.git"
        )
        self.worker.must(f"printf %s '{keys}' >>/root/.ssh/authorized_keys")
        self.work.mkdir()
        git(self.work, "init", "--quiet")
        git(self.work, "remote", "add", "origin", self.remote)
        ssh = (
            f"ssh -F none -o BatchMode=yes -o UserKnownHostsFile={self.nodes.known_hosts} -i {self.nodes.key}"
        )
        git(self.work, "config", "core.sshCommand", ssh)
        self.write("cluster", CLUSTER.format(home=HOME, address=self.worker.address))

    def write(self, name: str, text: str) -> None:
        (self.work / f"{name}.yaml").write_text(text)

    def push(self, queue: int) -> str:
        """The worker's machine is to have that long a queue of connections; the commit."""
        self.write("profile", PROFILE.format(queue=queue))
        git(self.work, "add", "--all")
        git(self.work, "commit", "--quiet", "--message", f"A queue of {queue}")
        git(self.work, "push", "--quiet", "origin", "HEAD:main")
        return git(self.work, "rev-parse", "HEAD")

    def queue(self) -> str:
        """What the worker's kernel has."""
        return self.worker.must("sysctl -n net.core.somaxconn").strip()

    def ask(self, path: str, *, token: str = TOKEN) -> requests.Response:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return self._http().get(self._url(path), headers=headers, timeout=60)

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> requests.Response:
        return self._http().post(self._url(path), data=body, headers=headers, timeout=60)

    def _url(self, path: str) -> str:
        return f"http://{self.node.address}:8081{path}"

    @staticmethod
    def _http() -> requests.Session:
        session = requests.Session()
        session.trust_env = False  # no proxy stands between
        return session

    def log(self) -> str:
        """What bai's service said."""
        return self.node.must("journalctl --unit=bai.service --output=cat --no-pager --quiet")

    def close(self) -> None:
        shut(self.worker)
        super().close()
