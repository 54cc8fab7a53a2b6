"""How long `bai plan` takes to find that a cluster is as its profile says, against Ansible's own check mode.

    python -m benchmarks.provisioning --nodes 20 --json result.json

Booted machines of the lab (root only). `bai apply` provisions the first one; the others are copies of its
disk, seal included, which a second `bai apply` takes up (`--each`: it provisions every one, which takes
longer). Then, on the same machines and in turn:

- plan: the whole command `bai plan`, which reads every node's seal and compares. No Ansible is started: that
  is checked, and so is that the plan is empty.
- check: plain `ansible-playbook --check` with the same roles, variables, SSH settings and as many forks as
  nodes.
- drift: `bai plan --no-check` when one node's setting was changed by hand.

Seconds on the wall and of CPU on this side (commands and all they start here; what nodes spend is not in it).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.results import keep
from providers.ansible import files, roles_path
from providers.condition.fingerprint import roles_digest
from providers.provisioning import ProvisionTarget
from reconciler.provisioning.targets import provision_targets
from reconciler.workspace.workspace import Workspace
from tests.lab.cache import LabUnavailable
from tests.lab.nspawn import Node, Nodes, why_not

ROOT = Path(__file__).resolve().parent.parent
WATCHES = Path("/proc/sys/fs/inotify/max_user_instances")
SETTING = "net.core.somaxconn"
PROFILE = """\
apiVersion: bai/v1
kind: Cluster
metadata: {{name: bench}}
spec:
  provider: declared
  ssh: {{user: root, keyFrom: lab/key, knownHostsFrom: lab/known_hosts}}
  profile: worker
  provisioning: {{maxUnavailable: "100%"}}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {{name: all}}
spec: {{}}
---
apiVersion: bai/v1
kind: NodeProfile
metadata: {{name: worker}}
spec:
  os: debian-12
  repositories:
    apt:
      - name: debian
        uri: {mirror}/debian
        suites: [bookworm]
        components: [main]
        keyring: /usr/share/keyrings/debian-archive-keyring.gpg
  base:
    packages: {{kmod: null, procps: null}}
    unattendedUpgrades: "off"
    timezone: Etc/UTC
    limits:
      - {{item: memlock, value: unlimited}}
      - {{item: nofile, value: "1048576"}}
    sysctls: {{{setting}: "4096", vm.swappiness: "1", net.ipv4.tcp_keepalive_time: "600"}}
"""
NODE = """\
---
apiVersion: bai/v1
kind: Node
metadata: {{name: {name}}}
spec:
  address: {address}
  hardware: {{numaNodes: [{{id: 0, cpus: 0-1, memory: 2GiB}}]}}
"""


@dataclass(frozen=True)
class Measured:
    """One row: seconds on the wall and of CPU here, medians of `runs`."""

    what: str
    nodes: int
    seconds: float
    cpu_seconds: float
    runs: int


class Bench:
    """A repository in a folder of its own, for machines of the lab."""

    def __init__(self, lab: Nodes, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        self.nodes: list[Node] = []
        self.repository = folder / "repository"
        self.repository.mkdir()
        self.env = os.environ | {"PYTHONPATH": str(ROOT), "NO_COLOR": "1", "HOME": str(lab.home)}
        self.env["BAI_SECRET_STORES"] = str(lab.stores)

    def provision(self, nodes: list[Node]) -> None:
        """Write documents of these nodes, and apply them."""
        self.nodes = nodes
        lab = self.lab
        text = PROFILE.format(mirror=lab.mirror.url, setting=SETTING)
        text += "".join(NODE.format(name=node.name, address=node.address) for node in nodes)
        (self.repository / "all.yaml").write_text(text)
        self.bai("apply", "--yes", "--no-check")

    def copies(self, count: int) -> list[Node]:
        """The first node and copies of it."""
        first = self.nodes[0]
        first.must("sync")
        first.kill()
        made = self.lab.copies(first, count - 1)
        first.start()
        first.wait()
        return [first, *made]

    def bai(self, *words: str, code: int = 0) -> str:
        """One command, which must end with that code."""
        return self._run([sys.executable, "-m", "bai", *words], self.repository, code)

    def _run(
        self, argv: list[str], folder: Path, code: int = 0, more: Mapping[str, str] | None = None
    ) -> str:
        done = subprocess.run(
            self.lab.command(argv),
            cwd=folder, env=self.env | dict(more or {}), stdin=subprocess.DEVNULL, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        if done.returncode != code:
            sys.exit(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stdout}")
        return done.stdout

    def runs(self) -> int:
        """How often Ansible ran so far."""
        return len(list((self.repository / ".bai/runs").iterdir()))

    def playbook(self) -> Callable[[], object]:
        """Plain check mode: the command, ready to be run."""
        work = self.folder / "ansible"
        work.mkdir()
        found = list(self._targets().values())
        ways, _ = files.ssh_routes(found)
        inventory = files.Inventory(found, ways, {})
        files.write_run_files(work, work, inventory, roles=roles_path(), forks=len(found))
        argv = [sys.executable, "-m", "ansible", "playbook", "--check", "-i", str(work / files.INVENTORY)]
        argv.append(str(roles_path() / "site.yml"))
        config = {
            "ANSIBLE_CONFIG": str(work / "ansible.cfg"),
            # Plain Ansible, with what makes it quick.
            "ANSIBLE_STRATEGY": "linear",
            "ANSIBLE_PIPELINING": "True",
            "ANSIBLE_SSH_ARGS": f"-F {work}/ssh_config -o ControlMaster=auto -o ControlPersist=120s",
            "ANSIBLE_HOME": str(work / "home"),
            "LC_ALL": "C.UTF-8",
        }

        def check() -> None:
            said = self._run(argv, work, more=config)
            if said.count("changed=0 ") != len(found):
                sys.exit(f"check mode would change something:\n{said}")

        return check

    def _targets(self) -> dict[str, ProvisionTarget]:
        with Workspace.open(self.repository) as workspace:
            digest = roles_path()
            return provision_targets(
                workspace.desired(), workspace.endpoints(), lambda roles: roles_digest(digest, roles)
            )


def timed(what: str, nodes: int, runs: int, job: Callable[[], object]) -> Measured:
    walls, cpus = [], []
    for _ in range(runs):
        begin, used = time.perf_counter(), _cpu()
        job()
        walls.append(time.perf_counter() - begin)
        cpus.append(_cpu() - used)
    return Measured(what, nodes, statistics.median(walls), statistics.median(cpus), runs)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextlib.contextmanager
def many_watches() -> Iterator[None]:
    """Every systemd needs some of them, and all machines count as one user."""
    before = WATCHES.read_text()
    if int(before) < 1024:
        WATCHES.write_text("1024")
    try:
        yield
    finally:
        WATCHES.write_text(before)


def measure(bench: Bench, count: int, runs: int, *, each: bool) -> list[Measured]:
    first = bench.lab(count if each else 1)
    rows = [timed("bai apply, from bare machines", len(first), 1, lambda: bench.provision(first))]
    if not each:
        bench.provision(bench.copies(count))
    before = bench.runs()
    rows.append(
        timed("bai plan, all as sealed", count, runs, lambda: bench.bai("plan", "--detailed-exitcode"))
    )
    if bench.runs() != before:
        sys.exit("the plan of a converged cluster called Ansible")
    rows.append(timed("ansible-playbook --check", count, runs, bench.playbook()))
    bench.nodes[-1].must(f"sysctl -w {SETTING}=128")
    drift = ("plan", "--no-check", "--detailed-exitcode")
    rows.append(timed("bai plan, one setting drifted", count, runs, lambda: bench.bai(*drift, code=2)))
    if SETTING not in bench.bai("plan", "--no-check"):
        sys.exit("the plan does not show what drifted")
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if reason := why_not():
        print(f"provisioning: {reason}", file=sys.stderr)
        return 1
    try:
        with many_watches(), contextlib.closing(Nodes()) as lab, tempfile.TemporaryDirectory() as folder:
            rows = measure(Bench(lab, Path(folder)), given.nodes, given.runs, each=given.each)
    except LabUnavailable as error:
        print(f"provisioning: {error}", file=sys.stderr)
        return 1
    for row in rows:
        print(f"{row.what:32} {row.nodes:3} nodes  {row.seconds:7.2f} s  CPU {row.cpu_seconds:6.2f} s")
    times = {row.what: row.seconds for row in rows}
    ratio = times["ansible-playbook --check"] / times["bai plan, all as sealed"]
    print(f"the plan is {ratio:.1f} times as fast as plain check mode")
    keep({"rows": [asdict(row) for row in rows], "ratio": ratio}, given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
