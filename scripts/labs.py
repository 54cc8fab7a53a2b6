"""Clusters on this machine, for examples; needs root.

    sudo make docker-lab            four Docker nodes, for examples/clusters/docker-lab
    sudo make bare-metal-lab        three bare machines, for examples/clusters/bare-metal-lab
    sudo make kubernetes-lab        a Kubernetes cluster of two nodes; the first time its programs are built
    sudo make docker-lab-down       takes them away, with all that runs there; bare-metal-lab-down,
                                    kubernetes-lab-down

A Docker node is a network namespace with a daemon and an SSH server, all in one Docker Swarm. A bare machine
is a booted Debian with systemd and an SSH server, and nothing else. A Kubernetes node is a kubelet and a
containerd in namespaces. What they need of this machine's packages is said when it is missing.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.lab import bare_metal_lab, docker, docker_lab  # noqa: E402
from tests.lab.cache import LabUnavailable  # noqa: E402
from tests.lab.kubernetes import kubernetes_lab  # noqa: E402
from tests.lab.kubernetes import needs as kubernetes_needs  # noqa: E402
from tests.lab.spaces import started  # noqa: E402

PATIENCE = 600.0
WORDS = """{up}

    {bai} -C examples/clusters/{name} --secret-stores /run/bai-{name}/secret-stores.yaml plan
    {bai} -C examples/clusters/{name} --secret-stores /run/bai-{name}/secret-stores.yaml apply
    {bai} -C examples/clusters/{name} --secret-stores /run/bai-{name}/secret-stores.yaml get sessions
    {bai} -C examples/clusters/{name} --secret-stores /run/bai-{name}/secret-stores.yaml destroy
    {sudo}make {name}-down
"""
KUBERNETES = """{up}

    {sudo}env KUBECONFIG=/run/bai-{name}/kubeconfig {program} -C examples/clusters/{name} plan
    {sudo}env KUBECONFIG=/run/bai-{name}/kubeconfig {program} -C examples/clusters/{name} apply
    {sudo}env KUBECONFIG=/run/bai-{name}/kubeconfig {program} -C examples/clusters/{name} get sessions
    {sudo}/run/bai-{name}/bin/kubectl --kubeconfig /run/bai-{name}/kubeconfig get pods --all-namespaces
    {sudo}env KUBECONFIG=/run/bai-{name}/kubeconfig {program} -C examples/clusters/{name} destroy
    {sudo}make {name}-down
"""


@dataclass(frozen=True)
class Lab:
    """One kind. `up` is said when it is there; its folder is at `link`."""

    name: str
    up: str
    why_not: Callable[[], str]
    open: Callable[[Path], AbstractContextManager[Any]]
    words: str = WORDS
    patience: float = PATIENCE

    @property
    def link(self) -> Path:
        return Path(f"/run/bai-{self.name}")

    @property
    def log(self) -> Path:
        return Path(f"{self.link}.log")


LABS = (
    Lab("docker-lab", "Four nodes are up, in one swarm: n1 to n4.", docker.why_not, docker_lab.docker_lab),
    Lab(
        "bare-metal-lab",
        "Three machines are up, with nothing on them: node1 to node3.",
        bare_metal_lab.why_not,
        bare_metal_lab.bare_metal_lab,
    ),
    Lab(
        "kubernetes-lab",
        "A cluster is up, with two nodes: n0 and n1.",
        kubernetes_needs.why_not,
        kubernetes_lab.kubernetes_lab,
        words=KUBERNETES,
        patience=6 * PATIENCE,
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("lab", choices=[lab.name for lab in LABS])
    parser.add_argument("what", choices=("up", "down", "keep"))
    given = parser.parse_args()
    lab = next(lab for lab in LABS if lab.name == given.lab)
    if reason := lab.why_not():
        print(f"{lab.name}: {reason}", file=sys.stderr)
        return 1
    return {"up": up, "down": down, "keep": keep}[given.what](lab)


def up(lab: Lab) -> int:
    """Start the keeper, which outlives this command, and wait for it."""
    if keeper(lab):
        print(words(lab))
        return 0
    lab.link.unlink(missing_ok=True)
    with lab.log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, __file__, lab.name, "keep"],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, cwd="/",
        )  # fmt: skip
    until = time.monotonic() + lab.patience
    while not keeper(lab) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.1)
    if keeper(lab):
        print(words(lab))
        return 0
    process.kill()
    print(lab.log.read_text(errors="replace") or "the lab did not start", file=sys.stderr)
    return 1


def words(lab: Lab) -> str:
    """What to type next, in this folder; as root again, for only root may read the lab's key."""
    sudo = "sudo " if "SUDO_USER" in os.environ else ""
    program = Path(sys.executable).with_name("bai")
    shown = program.relative_to(ROOT) if program.is_relative_to(ROOT) else program
    bai = f"{sudo}{shown}"
    return lab.words.format(up=lab.up, name=lab.name, bai=bai, program=shown, sudo=sudo)


def down(lab: Lab) -> int:
    pid = keeper(lab)
    if pid:
        since = started(pid)
        os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + PATIENCE
        while started(pid) == since and time.monotonic() < until:
            time.sleep(0.1)
    gone = "the lab is gone" if pid else "there is no lab here"
    if not keeper(lab):
        lab.log.unlink(missing_ok=True)
    print("the lab is still there" if keeper(lab) else gone)
    return 1 if keeper(lab) else 0


def keep(lab: Lab) -> int:
    """Hold the lab until told to end."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        with lab.open(lab.link):
            pid = os.getpid()
            (lab.link / "keeper").write_text(f"{pid} {started(pid)}")
            ended.wait()
    except LabUnavailable as error:
        print(f"{lab.name}: {error}", file=sys.stderr)
        return 1
    return 0


def keeper(lab: Lab) -> int:
    """Process id of who holds the lab; 0 when there is none."""
    try:
        pid, when = (lab.link / "keeper").read_text().split()
    except (OSError, ValueError):
        return 0
    return int(pid) if started(int(pid)) == when else 0


if __name__ == "__main__":
    sys.exit(main())
