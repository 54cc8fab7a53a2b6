"""A cluster of Docker engines on one machine: every node a network namespace with a daemon and an SSH server.

Nodes are called n1, n2, ... The machine reaches node number n by SSH at 127.0.2.n, as root, with the key in
the lab's folder; nodes reach each other at 10.213.0.n. Nothing listens anywhere else, and nothing outside is
reached.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.harness.ports import free_port
from tests.lab import docker, sshd
from tests.lab.cache import tool
from tests.lab.docker import Engine, Engines
from tests.lab.lent import lent
from tests.lab.spaces import PATIENCE, within
from tests.lab.sshd import make_key
from tests.lab.stores import NAME, declared, owner_file, secret_of
from tests.waiting import until

_CONFIG = """
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxSessions 200
Subsystem sftp internal-sftp
"""


class DockerLab:
    """`folder` becomes a link to the lab's own. Needs root. Raises LabUnavailable, FileExistsError."""

    def __init__(self, folder: Path, count: int = 4, *, port: int = 2222, swarm: bool = True) -> None:
        self.port = port
        self.engines: list[Engine] = []
        self._listening: list[socket.socket] = []
        self._served: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()
        # Nobody answers questions about names of the outside: so that this is known at once.
        self.spaces_of = Engines("--dns", "127.0.0.1")
        self.folder = folder
        try:
            folder.symlink_to(self.spaces_of.spaces.folder)
            self._keys()
            self.engines = self.spaces_of(count)
            for number, engine in enumerate(self.engines, 1):
                self._serve(engine, f"127.0.2.{number}")
            if swarm:
                join_swarm(self.engines)
        except BaseException:
            self.close()
            raise

    def _keys(self) -> None:
        make_key(self.folder / "key")
        make_key(self.folder / "host_key")
        self.stores = owner_file(self.folder / NAME, declared(self.folder, "key", "known_hosts"))
        self.secret = secret_of(self.folder, "key", "known_hosts")
        (self.folder / "sshd_config").write_text(_CONFIG.format(folder=self.folder.resolve()))
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)

    def _serve(self, engine: Engine, address: str) -> None:
        """Every connection gets an SSH server of its own on the node, as inetd does it."""
        listening = socket.create_server((address, self.port), backlog=64)
        self._listening.append(listening)
        with (self.folder / "known_hosts").open("a") as file:
            file.write(f"[{address}]:{self.port} {(self.folder / 'host_key.pub').read_text()}")
        argv = within(engine.namespace, [tool("sshd"), "-i", "-e", "-f", str(self.folder / "sshd_config")])
        threading.Thread(target=self._accept, args=(listening, argv, engine.folder), daemon=True).start()

    def _accept(self, listening: socket.socket, argv: list[str], folder: Path) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection, (folder / "sshd.log").open("ab") as log, self._lock:
                self._served = [each for each in self._served if each.poll() is None]
                self._served.append(
                    subprocess.Popen(
                        argv,
                        stdin=connection.fileno(),
                        stdout=connection.fileno(),
                        stderr=log,
                        start_new_session=True,
                    )
                )

    def close(self) -> None:
        """Everything goes."""
        from docker.errors import DockerException

        for listening in self._listening:
            with contextlib.suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            listening.close()
        with self._lock:
            for each in self._served:
                each.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    each.wait(PATIENCE)
        for engine in self.engines:
            with contextlib.suppress(OSError, DockerException):
                engine.wipe()
        if self.folder.is_symlink():
            self.folder.unlink()
        self.spaces_of.close()


def join_swarm(engines: list[Engine]) -> None:
    """The first one manages, the others work."""
    manager, *workers = engines
    manager.docker("swarm", "init", "--advertise-addr", manager.address)
    token = manager.docker("swarm", "join-token", "-q", "worker").strip()
    for worker in workers:
        _join(worker, manager, token)


def _join(worker: Engine, manager: Engine, token: str) -> None:
    """An engine says after 20 s that it goes on with it in the background."""
    from docker.errors import APIError

    api = worker.api()
    try:
        api.join_swarm([f"{manager.address}:2377"], token, advertise_addr=worker.address)
    except APIError as error:
        if "will continue in the background" not in str(error.explanation):
            raise
    until(lambda: api.info()["Swarm"]["LocalNodeState"] == "active", f"{worker.name} is of the swarm")
    api.close()


@contextlib.contextmanager
def docker_lab(folder: Path, count: int = 4, *, port: int = 2222, swarm: bool = True) -> Iterator[DockerLab]:
    lab = DockerLab(folder, count, port=port, swarm=swarm)
    try:
        yield lab
    finally:
        lab.close()


def lent_docker_lab(folder: Path, count: int = 4) -> Iterator[DockerLab]:
    """The body of a fixture; its SSH servers are at a port that was free."""
    lacks = docker.why_not() or sshd.why_not()
    yield from lent("docker", lambda: DockerLab(folder / "lab", count, port=free_port()), lacks)
