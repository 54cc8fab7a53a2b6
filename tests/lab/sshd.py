"""Nodes with a real OpenSSH server, each in a network namespace (and with processes) of its own.

    def test_something(sshd_nodes: SshdNodes) -> None:
        one, two = sshd_nodes(2)
        with sshd_nodes.inside():
            connect(one.endpoint()).run(["hostname"])

The tests' side is a node as well: `inside()` puts the calling thread, and threads it starts, there; `command`
does so for a program. All tests of a process share the nodes; whoever breaks one mends it, or asks for one of
its own with `private`. Mark such tests `@pytest.mark.xdist_group("sshd")`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from providers.machines.base import Endpoint
from schemas.kinds.cluster import Ssh
from tests.harness.processes import children
from tests.lab.cache import LabUnavailable, command, ran, tool
from tests.lab.lent import lent
from tests.lab.spaces import PATIENCE, Spaces, inside, started, what_lacks, with_us, within
from tests.lab.stores import NAME, declared, owner_file, secret_of
from tests.waiting import until

_CONFIG = """
Port {port}
ListenAddress 0.0.0.0
HostKey {folder}/host_key
PidFile none
AuthorizedKeysFile {keys}
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxSessions 200
MaxStartups 200
LogLevel VERBOSE
Subsystem sftp internal-sftp
SetEnv HOME={home}
"""


@dataclass
class SshdNode:
    """One node. `folder` holds its host key, configuration and log."""

    name: str
    namespace: str
    address: str
    folder: Path
    nodes: SshdNodes = field(repr=False)
    port: int = 22
    more: str = ""
    """Further lines of its sshd_config, which win over the usual ones."""
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def endpoint(self, **ssh: Any) -> Endpoint:
        """As a node of a cluster: root with the lab's key, known by the lab's file of known hosts."""
        given = {"user": "root", "keyFrom": "lab/key", "knownHostsFrom": "lab/known_hosts"}
        port = {} if self.port == 22 else {"port": self.port}
        return Endpoint(
            self.name, self.address, ssh=Ssh(**{**given, **port, **ssh}), secret=self.nodes.secret
        )

    @property
    def entry(self) -> str:
        """Its name in a file of known hosts."""
        return self.address if self.port == 22 else f"[{self.address}]:{self.port}"

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def new_host_key(self) -> str:
        """Make its host key anew; the line for a file of known hosts."""
        make_key(self.folder / "host_key")
        return f"{self.entry} {(self.folder / 'host_key.pub').read_text()}"

    def start(self) -> None:
        """Start the server, and wait until it greets. Raises LabUnavailable."""
        text = _CONFIG.format(
            folder=self.folder, keys=self.nodes.authorized, port=self.port, home=self.nodes.home
        )
        # sshd heeds the first mention of a setting.
        (self.folder / "config").write_text(f"{self.more}\n{text}")
        server = [tool("sshd"), "-D", "-f", f"{self.folder}/config", "-E", f"{self.folder}/log"]
        own = [tool("unshare"), "--pid", "--fork", "--kill-child", "--mount-proc", "--"]
        self.process = subprocess.Popen(
            [*with_us("KILL"), *within(self.namespace, [*own, *server])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + PATIENCE
        while not self.greets():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise LabUnavailable(f"sshd did not start: {self.log().splitlines()[-1:]}")
            time.sleep(0.02)

    def greets(self) -> bool:
        try:
            with (
                self.nodes.inside(),
                socket.create_connection((self.address, self.port), timeout=2) as connection,
            ):
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def kill(self) -> None:
        """End the server, and with it every connection and whatever was started over them."""
        if self.process is not None:
            # By number and beginning: numbers are given again.
            server = {pid: started(pid) for pid in children(self.process.pid)}
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(PATIENCE)
            self.process = None
            until(
                lambda: not any(then and started(pid) == then for pid, then in server.items()),
                "its port is free",
            )

    def link(self, *, up: bool) -> None:
        """Cut its cable, or mend it: without a word to anybody."""
        self.nodes.spaces.link(self.namespace, up=up)

    def run(self, argv: Sequence[str], *, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """A command in its network, not over SSH."""
        return ran(within(self.namespace, argv), timeout=timeout)


class SshdNodes:
    """Calling it gives that many nodes, always the same ones."""

    def __init__(self, spaces: Spaces | None = None) -> None:
        """`spaces`: somebody else's, who closes them; then nodes are made of namespaces that are there."""
        tool("sshd")
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self._own = spaces is None
        self.spaces = spaces or Spaces()
        self.folder = Path(tempfile.mkdtemp(prefix="ssh", dir=self.spaces.folder))
        self.client, self.address = self.spaces.add()
        self.key = self.folder / "key"
        make_key(self.key)
        self.authorized = self.folder / "authorized_keys"
        self.authorized.write_bytes((self.folder / "key.pub").read_bytes())
        self.known_hosts = self.folder / "known_hosts"
        self.known_hosts.touch()
        self.secret = secret_of(self.folder, "key", "known_hosts")
        self.stores = owner_file(self.folder / NAME, declared(self.folder, "key", "known_hosts"))
        self.home = self.folder / "home"
        (self.home / ".ssh").mkdir(parents=True, mode=0o700)
        self._nodes: list[SshdNode] = []
        self._private = 0

    def __call__(self, count: int = 1) -> list[SshdNode]:
        while len(self._nodes) < count:
            self._nodes.append(self._new(f"s{len(self._nodes) + 1}"))
        return self._nodes[:count]

    def private(self, more: str = "", *, port: int = 22) -> SshdNode:
        """One of its own for a test that breaks it, with more lines of sshd_config."""
        self._private += 1
        return self._new(f"sp{self._private}", more=more, port=port)

    def on(self, name: str, namespace: str, address: str) -> SshdNode:
        """A server in a namespace that is there already."""
        return self._new(name, place=(namespace, address))

    def _new(
        self, name: str, *, place: tuple[str, str] | None = None, more: str = "", port: int = 22
    ) -> SshdNode:
        namespace, address = place or self.spaces.add()
        node = SshdNode(name, namespace, address, self.folder / name, self, port, more)
        node.folder.mkdir()
        line = node.new_host_key()
        node.start()
        with self.known_hosts.open("a") as file:
            file.write(line)
        return node

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """The calling thread, and threads it starts meanwhile, are on the tests' own node."""
        with inside(self.client):
            yield

    def command(self, argv: Sequence[str]) -> list[str]:
        """`argv`, to be run on the tests' own node."""
        return within(self.client, argv)

    def close(self) -> None:
        if self._own:
            self.spaces.close()


def make_key(path: Path, *, passphrase: str = "") -> None:
    """A new key pair in `path` and `path`.pub."""
    for old in (path, path.with_suffix(".pub")):
        old.unlink(missing_ok=True)
    command([tool("ssh-keygen"), "-q", "-t", "ed25519", "-N", passphrase, "-C", "lab", "-f", str(path)])


def why_not() -> str:
    """Why there can be no such nodes here; empty when there can."""
    return what_lacks("sshd", "ssh-keygen", "ip", "nsenter", "unshare", "setpriv")


@pytest.fixture(scope="session")
def sshd_lab() -> Iterator[SshdNodes]:
    yield from lent("ssh", SshdNodes, why_not())


@pytest.fixture
def sshd_nodes(sshd_lab: SshdNodes, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshdNodes]:
    """`sshd_nodes(2)`: two nodes with sshd. The test is on their network, as a user without any keys, agent
    or SSH configuration but what it writes in `sshd_nodes.home`."""
    monkeypatch.setenv("HOME", str(sshd_lab.home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    with sshd_lab.inside():
        yield sshd_lab
