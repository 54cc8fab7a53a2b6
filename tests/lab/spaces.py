"""Network namespaces joined by a bridge: every one is a node that reaches the others, and nothing outside.

Everything is named after the process that made it, and written down before it is made, so that the next run
clears away what a killed one left. Processes of a lab are known by its folder in their command line.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.lab.cache import LabUnavailable, command, tool

CONTROLLERS = Path("/sys/fs/cgroup")
SUBNET = "10.213.0"
PATIENCE = 120.0
CLONE_NEWNET = 0x40000000


def base() -> Path:
    """Where all labs of this machine have their folders."""
    return Path(tempfile.gettempdir()) / f"bai-spaces-{os.geteuid()}"


def started(pid: int) -> str:
    """When a process began, in clock ticks; empty when it is gone or waits to be reaped. Raises OSError where
    that cannot be seen, as by who has too many files open."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] == "Z" else fields[19]
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return ""


def pid_namespace() -> int:
    """In which a process has the number that it has here: another run of this machine may be in another."""
    return os.stat("/proc/self/ns/pid").st_ino


class Spaces:
    """A bridge in a namespace of its own and, per node, a namespace with `eth0` on it.

    Node number n (from 1) has the address 10.213.0.n. `folder` is the lab's own. Needs root.
    """

    def __init__(self) -> None:
        with sweeping():
            base().mkdir(mode=0o700, exist_ok=True)
            self.prefix = next(name for n in range(10_000) if not (base() / (name := f"bl{n}")).exists())
            self.folder = base() / self.prefix
            self.folder.mkdir(mode=0o700)
            owner = {
                "namespace": pid_namespace(),
                "pid": os.getpid(),
                "started": started(os.getpid()),
            }
            (self.folder / "owner.json").write_text(json.dumps(owner))
        self._closed = False
        self.nodes: list[str] = []
        self.switch = f"{self.prefix}-sw"
        _ip("netns", "add", self.switch)
        self._in_switch("link", "add", "br0", "type", "bridge")
        self._in_switch("link", "set", "br0", "up")

    def add(self) -> tuple[str, str]:
        """One more node: its namespace and its address."""
        number = len(self.nodes) + 1
        name, address = f"{self.prefix}-n{number}", f"{SUBNET}.{number}"
        _ip("netns", "add", name)
        _ip("-n", name, "link", "set", "lo", "up")
        _ip(
            "-n",
            name,
            "link",
            "add",
            "eth0",
            "type",
            "veth",
            "peer",
            "name",
            f"v{number}",
            "netns",
            self.switch,
        )
        self._in_switch("link", "set", f"v{number}", "master", "br0")
        self._in_switch("link", "set", f"v{number}", "up")
        _ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")
        self.nodes.append(name)
        return name, address

    def link(self, name: str, *, up: bool) -> None:
        """Cut a node's cable, or mend it."""
        self._in_switch("link", "set", f"v{self.nodes.index(name) + 1}", "up" if up else "down")

    def route(self, name: str, destination: str, via: str) -> None:
        """A node finds `destination`, a range of addresses or `default`, behind another one."""
        _ip("-n", name, "route", "add", destination, "via", via)

    def close(self) -> None:
        """Everything goes: processes, mounts, control groups, namespaces, files. Once: its name may be
        another lab's by the next time."""
        if self._closed:
            return
        self._closed = True
        _clear_all_but_files(self.folder)
        with _locked():  # Its name is free once they are gone, and not before.
            shutil.rmtree(self.folder, ignore_errors=True)

    def _in_switch(self, *words: str) -> None:
        _ip("-n", self.switch, *words)


def what_lacks(*tools: str) -> str:
    """Why there can be no nodes here that need these; empty when there can."""
    if os.environ.get("BAI_LAB") == "off":
        return "switched off by BAI_LAB=off"
    if os.geteuid() != 0:
        return "needs root"
    try:
        for name in tools:
            tool(name)
    except LabUnavailable as error:
        return str(error)
    return ""


def with_us(last: str) -> list[str]:
    """A server gets this signal when the test process ends, whatever ends it (the kernel watches the starting
    thread)."""
    if threading.current_thread() is not threading.main_thread():
        return []
    return ["setpriv", "--pdeathsig", last, "--"]


def within(namespace: str, argv: Sequence[str]) -> list[str]:
    """The command that runs `argv` in a namespace (its network only: /sys and all else stay)."""
    return ["nsenter", f"--net=/run/netns/{namespace}", *argv]


@contextlib.contextmanager
def inside(namespace: str) -> Iterator[None]:
    """The calling thread, and threads and programs it starts meanwhile, are in the network of a namespace."""
    with open("/proc/thread-self/ns/net") as before, open(f"/run/netns/{namespace}") as there:
        _enter(there.fileno())
        try:
            yield
        finally:
            _enter(before.fileno())


def listening(namespace: str, address: str, port: int) -> socket.socket:
    """A socket that listens in a namespace, for a thread anywhere."""
    return _made_inside(namespace, lambda: socket.create_server((address, port), backlog=128))


def receiving(namespace: str, address: str) -> socket.socket:
    """A socket for datagrams in a namespace, for a thread anywhere; it has a free port."""

    def bind() -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind((address, 0))
        return made

    return _made_inside(namespace, bind)


def _made_inside(namespace: str, make: Callable[[], socket.socket]) -> socket.socket:
    def made() -> socket.socket:
        with inside(namespace):
            return make()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(made).result()


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


@contextlib.contextmanager
def sweeping() -> Iterator[None]:
    """After a sweep, and while nobody else sweeps."""
    with _locked():
        sweep()
        yield


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """While nobody else makes or removes a lab's folder: the lock lies beside what it guards, whatever HOME
    is."""
    with base().with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def sweep() -> None:
    """Clear away the labs of processes that are gone."""
    for folder in sorted(base().glob("bl*")):
        try:
            owner = json.loads((folder / "owner.json").read_text())
        except (FileNotFoundError, ValueError):
            owner = {"pid": 0, "started": ""}
        if owner.get("namespace", pid_namespace()) != pid_namespace():
            continue  # Whether its process is there cannot be seen from here.
        if started(owner["pid"]) != owner["started"] or not owner["started"]:
            _clear_all_but_files(folder)
            shutil.rmtree(folder, ignore_errors=True)


def _clear_all_but_files(folder: Path) -> None:
    """Whatever state the lab is in."""
    _kill(folder)
    for mount in reversed(_mounts(folder)):
        subprocess.run(["umount", "-l", mount], check=False, capture_output=True)
    for found in groups(folder.name):
        _remove_groups(found)
    for space in sorted(Path("/run/netns").glob(f"{folder.name}-*")):
        subprocess.run(["ip", "netns", "delete", space.name], check=False, capture_output=True)


def _kill(folder: Path) -> None:
    """Daemons, their helpers, and what is in the lab's control groups."""
    deadline = time.monotonic() + PATIENCE
    while found := set(_processes(folder)) | set(_members(folder.name)):
        for pid in found:
            with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
                process = os.pidfd_open(pid)
                stack.callback(os.close, process)
                # Its number may be somebody else's since it was read.
                if _is_of(folder, pid):
                    signal.pidfd_send_signal(process, signal.SIGKILL)
        if time.monotonic() > deadline:
            return
        time.sleep(0.05)


def _is_of(folder: Path, pid: int) -> bool:
    """Whether a process names the lab's folder, or is in one of its control groups. Raises OSError."""
    if _names(folder, pid):
        return True
    paths = (line.partition(":")[2] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines())
    return any(f"/{folder.name}/" in f"{path}/" for path in paths)


def _names(folder: Path, pid: int) -> bool:
    return f"{folder}/".encode() in Path(f"/proc/{pid}/cmdline").read_bytes()


def _processes(folder: Path) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if _names(folder, int(entry.name)):
                    yield int(entry.name)


def _members(name: str) -> Iterator[int]:
    for found in groups(name):
        for path, _, _ in os.walk(found):
            with contextlib.suppress(OSError):
                yield from map(int, (Path(path) / "cgroup.procs").read_text().split())


def groups(name: str) -> list[Path]:
    """The control groups of this name at the top of every hierarchy."""
    return [found for top in hierarchies() if (found := top / name).is_dir()]


def hierarchies() -> list[Path]:
    """The top of every hierarchy of control groups: several with version 1, one with version 2."""
    if (CONTROLLERS / "cgroup.procs").exists():
        return [CONTROLLERS]
    return sorted({each.resolve() for each in CONTROLLERS.glob("*") if (each / "cgroup.procs").exists()})


def make_group(group: Path) -> None:
    """The control group of a node, below that of its lab; a new one for CPUs has none until it is told."""
    group.mkdir(parents=True, exist_ok=True)
    for each in (group.parent, group):
        for name in ("cpuset.cpus", "cpuset.mems"):
            file = each / name
            if (each.parent / "cpuset.sched_load_balance").exists() and not file.read_text().strip():
                file.write_text((each.parent / name).read_text())


def delegate(group: Path) -> None:
    """With version 2, groups below that of a node may have limits of these kinds; with 1 they always may."""
    for each in (group.parent.parent, group.parent, group):
        if (switch := each / "cgroup.subtree_control").exists():
            known = (each / "cgroup.controllers").read_text().split()
            wanted = [name for name in ("cpu", "cpuset", "memory", "pids", "io", "hugetlb") if name in known]
            switch.write_text(" ".join(f"+{name}" for name in wanted))


def _mounts(folder: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [where for line in lines if (where := line.split()[1]).startswith(f"{folder}/")]


def _remove_groups(group: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    for path, _, _ in os.walk(group, topdown=False):
        while True:
            try:
                os.rmdir(path)
                break
            except FileNotFoundError:
                break
            except OSError:
                if time.monotonic() > deadline:
                    break
                time.sleep(0.05)


def _ip(*words: str) -> None:
    command(["ip", *words], timeout=60)
