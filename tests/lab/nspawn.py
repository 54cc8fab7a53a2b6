"""Booted Debian machines with systemd, sshd and apt, each in a container and a network namespace of its own.

    def test_something(nodes: Nodes) -> None:
        one, two = nodes(2)
        with nodes.inside():
            connect(one.endpoint()).run(["systemctl", "is-system-running"])

The tests' side is a node of that network as well: `inside()` puts the calling thread, and what it starts,
there. All tests of a process share `nodes(n)`; `fresh(n)` gives new ones that nobody has touched. Mark such
tests `@pytest.mark.xdist_group("nspawn-...")`: one group for each story of nodes, which run side by side.

Nodes reach each other and the tests' side, which serves Debian's packages, and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from providers.machines.base import Endpoint
from schemas.kinds.cluster import Ssh
from tests.harness.labs import spent
from tests.harness.processes import children
from tests.lab import cache, nspawn_layer
from tests.lab.apt_mirror import AptMirror
from tests.lab.cache import LabUnavailable, command, tool
from tests.lab.nspawn_base import Base
from tests.lab.spaces import (
    PATIENCE,
    Spaces,
    hierarchies,
    inside,
    make_group,
    started,
    what_lacks,
    with_us,
    within,
)
from tests.lab.sshd import make_key
from tests.lab.stores import NAME, declared, owner_file, secret_of

SHARED = "/srv/lab"
"""Where a node sees the lab's folder `shared`."""
_INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")
_MOST_INSTANCES = 8192
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
# Each boot is a process of its own; its word for a reboot is exit code 133.
_LOOP = """
for group in {groups}; do echo $$ >$group/cgroup.procs; done
while :; do
    "$@"
    [ $? = 133 ] || exit
    echo boot >>{folder}/boots
done
"""


@dataclass
class Node:
    """One machine. `folder` holds what it wrote (`changes`), its root as mounted (`root`), and its `log`."""

    name: str
    namespace: str
    address: str
    folder: Path
    nodes: Nodes = field(repr=False)
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def endpoint(self, **ssh: Any) -> Endpoint:
        """As a node of a cluster: root with the lab's key; `user="admin", sudo=True` works as well."""
        given = {"user": "root", "keyFrom": "lab/key", "knownHostsFrom": "lab/known_hosts"}
        return Endpoint(self.name, self.address, ssh=Ssh(**{**given, **ssh}), secret=self.nodes.secret)

    @property
    def root(self) -> Path:
        return self.folder / "root"

    def start(self) -> None:
        """Power on; `wait` for it."""
        if self.process is not None:
            return
        if not os.path.ismount(self.root):
            self._mount()
        groups = [top / self.nodes.spaces.prefix / self.name for top in hierarchies()]
        for group in groups:
            make_group(group)
        loop = _LOOP.format(groups=" ".join(map(str, groups)), folder=self.folder)
        # All of its processes, whatever they are, end with the first one of a namespace around it.
        own = [tool("unshare"), "--pid", "--fork", "--kill-child", "--mount-proc", "--"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*with_us("KILL"), *own, "/bin/sh", "-c", loop, "node", *self._machine()],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def _mount(self) -> None:
        for name in ("changes", "work", "root", "docker", "containerd"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        lower = f"{self.nodes.layer}:{self.nodes.base.path}"
        layers = f"lowerdir={lower},upperdir={self.folder}/changes,workdir={self.folder}/work"
        command(["mount", "-t", "overlay", "-o", layers, "overlay", str(self.root)])

    def _machine(self) -> list[str]:
        return [
            tool("systemd-nspawn"), "-q", "-b", "--keep-unit", "--register=no", "--console=pipe",
            f"--directory={self.root}", f"--machine={self.nodes.spaces.prefix}-{self.name}",
            f"--hostname={self.name}", f"--network-namespace-path=/run/netns/{self.namespace}",
            "--resolv-conf=off", "--link-journal=no", "--timezone=off",
            "--capability=all", "--drop-capability=CAP_SYS_RESOURCE,CAP_SYS_TIME",
            "--system-call-filter=add_key keyctl bpf",
            f"--bind={self.folder}/docker:/var/lib/docker",
            f"--bind={self.folder}/containerd:/var/lib/containerd",
            f"--bind-ro={self.nodes.shared}:{SHARED}",
        ]  # fmt: skip

    def wait(self) -> None:
        """Until it takes SSH connections and has come up. Raises LabUnavailable."""
        deadline = time.monotonic() + 4 * PATIENCE
        while not (self.greets() and self.is_up()):
            ended = "it is off" if self.process is None else self.process.poll()
            if ended is not None or time.monotonic() > deadline:
                why = "it takes too long" if ended is None else f"it ended ({ended})"
                raise LabUnavailable(f"{self.name} did not boot: {why}; {self.log().splitlines()[-1:]}")
            time.sleep(0.05)

    def greets(self) -> bool:
        try:
            with (
                self.nodes.inside(),
                socket.create_connection((self.address, 22), timeout=2) as connection,
            ):
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def is_up(self) -> bool:
        """Everything of its boot has been started, whether all of it works or not."""
        state = self.run("systemctl is-system-running").stdout.strip()
        return state in ("running", "degraded")

    def leader(self) -> int:
        """Process id of its systemd, seen from outside; 0 when it is off."""
        if self.process is None:
            return 0
        pids = [self.process.pid]
        for _ in range(3):  # The loop, nspawn, and the machine's first process.
            pids = [child for pid in pids for child in children(pid)]
        return pids[0] if pids else 0

    def run(self, line: str, *, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """A line for the shell, as root on the node, not over SSH; exit code 255 when it is off."""
        leader = self.leader()
        if not leader:
            return subprocess.CompletedProcess(line, 255, "", f"{self.name} is off")
        spaces = ["--target", str(leader), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]
        return subprocess.run(
            ["nsenter", *spaces, "--root", "--wd", "--", "/bin/sh", "-c", line],
            check=False, text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=timeout,
            env=_ENVIRONMENT,
        )  # fmt: skip

    def must(self, line: str, *, timeout: float = 120) -> str:
        """What that line prints; AssertionError when it fails."""
        done = self.run(line, timeout=timeout)
        assert done.returncode == 0, f"{self.name}: {line}: {done.stdout}{done.stderr}"
        return done.stdout

    def reboot(self) -> None:
        """As an administrator does it, and wait until it is back."""
        before = self.boots()
        with spent("boot"):
            self.run("systemctl reboot")
            deadline = time.monotonic() + 4 * PATIENCE
            while self.boots() == before and time.monotonic() < deadline:
                time.sleep(0.05)
            self.wait()

    def boots(self) -> int:
        """How often it was rebooted from inside since the lab made it."""
        file = self.folder / "boots"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def kill(self) -> None:
        """Power off, all at once. `start` and `wait` bring it back with what it had written."""
        if self.process is None:
            return
        self.process.kill()
        self.process.wait(PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while self._members() and time.monotonic() < deadline:
            time.sleep(0.01)
        self.process = None

    def _members(self) -> set[int]:
        found: set[int] = set()
        for top in hierarchies():
            for path, _, _ in os.walk(top / self.nodes.spaces.prefix / self.name):
                with contextlib.suppress(OSError):
                    found |= set(map(int, (Path(path) / "cgroup.procs").read_text().split()))
        return {pid for pid in found if started(pid)}

    def link(self, *, up: bool) -> None:
        """Cut its cable, or mend it: without a word to anybody."""
        self.nodes.spaces.link(self.namespace, up=up)

    def log(self) -> str:
        """What it wrote to its console."""
        return (self.folder / "log").read_text(errors="replace")

    def close(self) -> None:
        """Power off for good, and forget what it had written; the lab takes its network away."""
        self.kill()
        for name in ("root/var/lib/docker", "root/var/lib/containerd", "root"):
            subprocess.run(["umount", "-l", str(self.folder / name)], check=False, capture_output=True)
        subprocess.run(["rm", "-rf", str(self.folder)], check=False, capture_output=True)


class Nodes:
    """Calling it gives that many nodes, always the same ones. `whole`: with all of Debian's packages, not
    those alone that tests install. Raises LabUnavailable."""

    def __init__(self, *, whole: bool = False) -> None:
        self.spaces = Spaces()
        self._nodes: list[Node] = []
        self._count = 0
        try:
            self.client, self.address = self.spaces.add()
            self.mirror = AptMirror(self.client, self.address, whole=whole)
            self.base = Base(self.mirror, self.client)
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        _allow_many_nodes()
        self.folder = self.spaces.folder
        self.layer = self.folder / "layer"
        nspawn_layer.write(self.layer)
        self.shared = self.folder / "shared"
        self.shared.mkdir()
        self.key, self.host_key = self.folder / "key", self.folder / "host_key"
        make_key(self.key)
        make_key(self.host_key)
        self.known_hosts = self.folder / "known_hosts"
        self.known_hosts.touch()
        self.secret = secret_of(self.folder, "key", "known_hosts")
        self.stores = owner_file(self.folder / NAME, declared(self.folder, "key", "known_hosts"))
        self.home = self.folder / "home"
        (self.home / ".ssh").mkdir(parents=True, mode=0o700)

    def __call__(self, count: int = 1) -> list[Node]:
        for node in self._nodes[:count]:  # A test that failed may have left it dead.
            node.start()
            node.wait()
        self._nodes += self.fresh(max(0, count - len(self._nodes)))
        return self._nodes[:count]

    def fresh(self, count: int = 1) -> list[Node]:
        """Booted for the first time; `close` them when done."""
        return _booted([self._new() for _ in range(count)])

    def copies(self, node: Node, count: int) -> list[Node]:
        """Machines that have written what that one has, which is off; what Docker keeps is not among it."""
        assert node.process is None, f"{node.name} is on"
        return _booted([self._new(like=node) for _ in range(count)])

    def _new(self, like: Node | None = None) -> Node:
        self._count += 1
        namespace, address = self.spaces.add()
        name = f"node{self._count}"
        node = Node(name, namespace, address, self.folder / name, self)
        changes = node.folder / "changes"
        node.folder.mkdir()
        if like is not None:
            command(["cp", "-a", str(like.folder / "changes"), str(changes)])
        for home in ("root", "home/admin"):
            (changes / home).mkdir(parents=True, exist_ok=True)
            _put(changes / home / ".ssh/authorized_keys", self.key.with_suffix(".pub").read_bytes(), 0o600)
        _own(changes / "home/admin", self.base.path / "home/admin")
        (changes / "root").chmod(0o700)
        _put(changes / "etc/ssh/ssh_host_ed25519_key", self.host_key.read_bytes(), 0o600)
        _put(changes / "etc/hostname", f"{name}\n".encode(), 0o644)
        _put(changes / "etc/hosts", f"127.0.0.1 localhost\n{address} {name}\n".encode(), 0o644)
        with self.known_hosts.open("a") as file:
            file.write(f"{address} {self.host_key.with_suffix('.pub').read_text()}")
        return node

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """The calling thread, and what it starts meanwhile, are on the tests' own node."""
        with inside(self.client):
            yield

    def command(self, argv: Sequence[str]) -> list[str]:
        """`argv`, to be run on the tests' own node."""
        return within(self.client, argv)

    def close(self) -> None:
        for node in self._nodes:
            node.kill()
        if hasattr(self, "mirror"):
            self.mirror.close()
        self.spaces.close()
        if hasattr(self, "base"):
            self.base.close()


def _allow_many_nodes() -> None:
    """Each node has some ten instances of inotify, and systemd comes up with none less. They are root's, as
    those of the nodes of all runs on this machine, and the kernel allows root 128."""
    if int(_INSTANCES.read_text()) < _MOST_INSTANCES:
        _INSTANCES.write_text(str(_MOST_INSTANCES))


def _booted(nodes: list[Node]) -> list[Node]:
    with spent("boot"):
        for node in nodes:
            node.start()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(Node.wait, nodes))
    return nodes


def _put(path: Path, content: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def _own(folder: Path, like: Path) -> None:
    """Give a folder and what is in it to the owner of another."""
    found = like.stat()
    for path in (folder, *folder.rglob("*")):
        os.chown(path, found.st_uid, found.st_gid)


def why_not() -> str:
    """Why there can be no such nodes here; empty when there can."""
    making = ("mmdebstrap", "gpg", "gpgv", "ssh-keygen")
    running = ("systemd-nspawn", "unshare", "ip", "nsenter", "setpriv")
    return what_lacks(*running, *making) or ("" if hierarchies() else "no control groups are mounted")


@pytest.fixture(scope="session")
def nodes_lab() -> Iterator[Nodes]:
    if reason := why_not():
        pytest.skip(f"node lab: {reason}")
    try:
        made = Nodes()
    except LabUnavailable as error:
        pytest.skip(f"node lab: {error}")
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def nodes(nodes_lab: Nodes, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    """`nodes(2)`: two booted machines. The test is on their network, as a user without any keys, agent or SSH
    configuration but what it writes in `nodes.home`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.folder().parent))  # What the lab keeps stays where it is.
    monkeypatch.setenv("HOME", str(nodes_lab.home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    with nodes_lab.inside():
        yield nodes_lab
