"""Real Docker engines as pytest fixtures: one daemon per network namespace is one node.

    def test_something(engines: Engines) -> None:
        one, two = engines(2)
        provider = open_provider("docker", {}, machines=[one.endpoint(), two.endpoint()])

All tests of a process share the engines, which grow on demand; whoever asks gets them without containers,
volumes and networks of others. Mark such tests `@pytest.mark.xdist_group("docker")`.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from providers.docker.container import entrypoint as entry
from providers.docker.container import runtime_files
from providers.machines.base import Endpoint
from tests.harness.labs import spent
from tests.lab.cache import LabUnavailable, command, kept, ran, tool
from tests.lab.lent import lent
from tests.lab.spaces import PATIENCE, Spaces, base, started, what_lacks, with_us, within
from tests.waiting import until

if TYPE_CHECKING:
    import docker

IMAGE = "bai-lab:1"
_APPLETS = (
    "[ arch ash awk base64 basename cat chgrp chmod chown cp cut date dd df dirname du echo env expr false "
    "find free getopt grep gunzip gzip head hostname httpd id ifconfig ip kill killall ln ls md5sum mkdir "
    "mkfifo mktemp mount mv nc netstat nohup nproc od ping printf ps pwd readlink realpath renice reset rm "
    "rmdir route sed seq setsid sh sha256sum sleep sort stat stty su sync tail tar tee telnet test time "
    "timeout top touch tr true tty umount uname uniq uptime usleep vi watch wc wget which whoami xargs yes"
)
REMAPPED, FIRST_REMAPPED = "dockremap", 300_000
"""Whose users, of the machine's, are those of a user namespace: 65,536 from this one on."""
_REMAPPING = f"""
set -eu
all=$1; folder=$2; shift 2
mount --bind "$folder" /mnt
mount -t tmpfs -o mode=755 tmpfs "$all"
mkdir -p "$folder" "$all/etc" "$all/work"
mount --move /mnt "$folder"
mount -t overlay -o "lowerdir=/etc,upperdir=$all/etc,workdir=$all/work" overlay /etc
echo {REMAPPED}:x:{FIRST_REMAPPED}:{FIRST_REMAPPED}::/:/usr/sbin/nologin >> /etc/passwd
echo {REMAPPED}:x:{FIRST_REMAPPED}: >> /etc/group
echo {REMAPPED}:{FIRST_REMAPPED}:65536 | tee /etc/subuid > /etc/subgid
exec "$@"
"""
"""In a mount namespace of its own: the machine's lists of users stay as they are, and the way to the engine's
folder is open to them (else it makes folders beside)."""
_FOLDERS = "bin etc root home home/user tmp run var var/tmp usr usr/bin"


def image_tar(path: Path) -> None:
    """Write a root file system of busybox, for `docker import`."""
    with tarfile.open(path, "w") as archive:
        for folder in _FOLDERS.split():
            _add(archive, folder, None, 0o1777 if folder.endswith("tmp") else 0o755)
        _add(archive, "bin/busybox", Path(tool("busybox")).read_bytes(), 0o755)
        users = "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/home/user:/bin/sh\n"
        _add(archive, "etc/passwd", users.encode(), 0o644)
        _add(archive, "etc/group", b"root:x:0:\nuser:x:1000:\n", 0o644)
        for name in _APPLETS.split():
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)


def _add(archive: tarfile.TarFile, name: str, content: bytes | None, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.mode = mode
    if content is None:
        entry.type = tarfile.DIRTYPE
        archive.addfile(entry)
    else:
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))


@dataclass
class Engine:
    """One daemon in its namespace. `folder` holds its socket, log and data."""

    name: str
    namespace: str
    address: str
    """On the lab's network: the other nodes reach it here."""
    folder: Path
    spaces: Spaces
    options: tuple[str, ...] = ()
    remapped: bool = False
    """Whether its containers are in a user namespace, whose users are the machine's from `FIRST_REMAPPED`."""
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def socket(self) -> str:
        return str(self.folder / "docker.sock")

    @property
    def group(self) -> str:
        """Name of the control group under which its containers are."""
        return f"{self.spaces.prefix}/{self.name}"

    def endpoint(self, **options: Any) -> Endpoint:
        """As a node of a cluster, reached by its socket on this machine."""
        return Endpoint(self.name, "localhost", local=True, options={"socket": self.socket, **options})

    def api(self) -> docker.APIClient:
        """A client of the tests' own."""
        import docker

        return docker.APIClient(f"unix://{self.socket}", version="auto", timeout=60)

    def inspect(self, name: str) -> dict[str, Any]:
        """A container, as the `docker` command shows it."""
        found: list[dict[str, Any]] = json.loads(self.docker("inspect", "--type", "container", name))
        return found[0]

    def docker(self, *words: str, timeout: float = 120) -> str:
        """The output of a `docker` command on this engine."""
        done = ran([tool("docker"), "-H", f"unix://{self.socket}", *words], timeout=timeout)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
        return done.stdout

    def run(self, argv: Sequence[str], *, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """A command on the node: in its network namespace."""
        return ran(within(self.namespace, argv), timeout=timeout)

    def start(self) -> None:
        """Start the daemon; `wait` for it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        Path(self.socket).unlink(missing_ok=True)
        (self.folder / "pid").unlink(missing_ok=True)
        argv = [
            *(self._remapping() if self.remapped else ()), tool("dockerd"),
            "--data-root", f"{self.folder}/data", "--exec-root", f"{self.folder}/exec",
            "--pidfile", f"{self.folder}/pid", "--host", f"unix://{self.socket}",
            "--cgroup-parent", f"/{self.group}", *self.options,
        ]  # fmt: skip
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                ["env", "--default-signal", *with_us("TERM"), *within(self.namespace, argv)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def _remapping(self) -> list[str]:
        """The words before the daemon's own."""
        enter = ["unshare", "--mount", "--propagation", "slave"]
        return [*enter, "sh", "-c", _REMAPPING, "sh", str(base()), str(self.folder)]

    def wait(self) -> None:
        """Until the daemon answers. Raises LabUnavailable."""
        deadline = time.monotonic() + 2 * PATIENCE
        assert self.process is not None
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                lines = (self.folder / "log").read_text(errors="replace").splitlines()
                raise LabUnavailable(f"dockerd did not start: {lines[-1] if lines else 'no word'}")
            time.sleep(0.02)

    def answers(self) -> bool:
        import http.client
        import socket

        connection = http.client.HTTPConnection("engine", timeout=PATIENCE)
        connection.sock = socket.socket(socket.AF_UNIX)
        try:
            # A slow one is not dead: it is not to be begun anew under whoever uses it.
            connection.sock.settimeout(PATIENCE)
            connection.sock.connect(self.socket)
            connection.request("GET", "/_ping")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End the daemon (and its containerd): containers are left to their keepers."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(2 * PATIENCE)
            self.process = None
        if number == signal.SIGKILL:
            self._kill_containerd()

    def _kill_containerd(self) -> None:
        """A new daemon waits for it in vain once its parent was killed."""
        file = self.folder / "exec/containerd/containerd.pid"
        with contextlib.suppress(OSError, ValueError):
            pid = int(file.read_text())
            then = started(pid)
            # It may have gone with the daemon, and its number may be somebody else's.
            if str(self.folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
                until(lambda: started(pid) != then, "its containerd is gone")
        file.unlink(missing_ok=True)

    def close(self) -> None:
        """End it with all its containers, for good; the lab clears away its files."""
        if self.answers():
            self.wipe()
        self.kill(signal.SIGTERM)

    def restart(self, number: int = signal.SIGKILL) -> None:
        self.kill(number)
        self.start()
        self.wait()

    def wipe(self) -> None:
        """Remove all containers with what bai gave them in this machine's memory, user networks and
        volumes."""
        api = self.api()
        for container in api.containers(all=True):
            api.remove_container(container["Id"], force=True, v=True)
            for mount in container.get("Mounts") or ():
                if mount.get("Destination") == entry.TARGET:
                    _forget(Path(mount["Source"]))
        for volume in api.volumes().get("Volumes") or []:
            api.remove_volume(volume["Name"], force=True)
        api.prune_networks()
        api.close()

    def load(self) -> None:
        """Import the lab's image."""
        self.take(kept("docker-image-1.tar", image_tar), IMAGE)

    def take(self, root: Path, image: str) -> None:
        """Import a root file system, a tar, as an image of this name."""
        self.docker("import", "-c", 'CMD ["/bin/sh"]', "-c", "ENV PATH=/bin:/usr/bin", str(root), image)


class Engines:
    """Calling it gives that many engines, always the same ones."""

    def __init__(self, *options: str) -> None:
        """`options` of every `dockerd`."""
        self.options = options
        self.spaces = Spaces()
        self._engines: list[Engine] = []
        self._private = 0

    def __call__(self, count: int = 1) -> list[Engine]:
        for engine in self._engines[:count]:
            if not engine.answers():  # A test that failed may have left it dead.
                engine.restart()
        new = [self._new(f"n{n + 1}", *self.options) for n in range(len(self._engines), count)]
        for engine in new:
            engine.start()
        try:
            with spent("boot"), ThreadPoolExecutor(4) as pool:
                list(pool.map(_settle, new))
        except LabUnavailable as error:
            pytest.skip(f"docker lab: {error}")
        self._engines += new
        return self._engines[:count]

    def private(self, *options: str, disk: str = "", xfs: bool = False, remapped: bool = False) -> Engine:
        """One of its own for a test that breaks it, with more options of `dockerd`; `close` it yourself.
        `disk`: how much room there is for its data, in memory, such as `24m`. `xfs`: on an XFS. `remapped`:
        its containers are in a user namespace."""
        if remapped and int(Path("/proc/sys/user/max_user_namespaces").read_text()) == 0:
            raise LabUnavailable("the kernel allows no user namespaces (user.max_user_namespaces)")
        self._private += 1
        engine = self._new(f"p{self._private}", *options, *(["--userns-remap", REMAPPED] if remapped else []))
        engine.remapped = remapped
        if disk:
            (engine.folder / "data").mkdir(parents=True)
            command(["mount", "-t", "tmpfs", "-o", f"size={disk}", "tmpfs", str(engine.folder / "data")])
        if xfs:
            image, data = engine.folder / "xfs", engine.folder / "data"
            data.mkdir(parents=True)
            command([tool("mkfs.xfs"), "-q", "-d", f"file,name={image},size=512m"])
            command(["mount", "-t", "xfs", "-o", "loop", str(image), str(data)])
        engine.start()
        _settle(engine)
        return engine

    def _new(self, name: str, *options: str) -> Engine:
        namespace, address = self.spaces.add()
        return Engine(name, namespace, address, self.spaces.folder / name, self.spaces, options)

    def close(self) -> None:
        self.spaces.close()


def _forget(folder: Path) -> None:
    """A kernel's folder, and where it was when it was the last."""
    if str(folder.parent) in runtime_files.FOLDERS:
        shutil.rmtree(folder, ignore_errors=True)
        for place in runtime_files.OWN_FOLDERS:
            with contextlib.suppress(OSError):
                Path(place).rmdir()


def _settle(engine: Engine) -> None:
    engine.wait()
    engine.load()


def why_not() -> str:
    """Why there can be no engines here; empty when there can."""
    return what_lacks("dockerd", "docker", "containerd", "ip", "nsenter", "busybox")


@pytest.fixture(scope="session")
def engines() -> Iterator[Engines]:
    """`engines(2)`: two real Docker engines that reach each other."""
    yield from lent("docker", Engines, why_not())
