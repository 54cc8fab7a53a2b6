"""One process of `benchmarks.ssh`: one client, one job, what it took as JSON on standard output."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import resource
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from providers.machines.base import Endpoint, Stream
from schemas.kinds.cluster import Ssh

_TICKS = os.sysconf("SC_CLK_TCK")
_CHUNK = 1 << 16
_LINE = shlex.join(["timeout", "-s", "KILL", "61", "true"])
"""What `SshMachine.run` makes of `true`."""


@dataclass(frozen=True)
class Job:
    client: str
    do: str
    address: str
    key: str
    known_hosts: str
    folder: str
    target: str
    """A unix socket of the far side: `e` echoes, `z` sends `size` bytes, `s` takes as many."""
    count: int
    size: int
    keep_alive: int = 15


class Client(Protocol):
    """One connection."""

    def __init__(self, job: Job, number: int) -> None: ...

    def command(self) -> int: ...

    def killed(self) -> object:
        """What is said of a command that SIGKILL ended."""
        ...

    def wait(self) -> None:
        """Run a command for ever, until the connection is lost."""
        ...

    def dial(self) -> Stream: ...

    def processes(self) -> list[int]: ...

    def close(self) -> None: ...


class Paramiko:
    """What bai has."""

    def __init__(self, job: Job, number: int) -> None:
        from providers.machines.ssh.machine import SshMachine

        files = {"bench/key": job.key, "bench/hosts": job.known_hosts}
        ssh = Ssh(
            user="root", keyFrom="bench/key", knownHostsFrom="bench/hosts", keepAlive=f"{job.keep_alive}s"
        )
        there = Endpoint("node", job.address, ssh=ssh, secret=lambda name: Path(files[name]).read_text())
        self._machine = SshMachine(there)
        self._target = job.target

    def command(self) -> int:
        return self._machine.run(["true"]).code

    def killed(self) -> object:
        return self._machine.start(["sh", "-c", "kill -9 $$"]).wait()

    def wait(self) -> None:
        self._machine.run(["sleep", "1000"], timeout=900)

    def dial(self) -> Stream:
        return self._machine.dial(self._target)

    def processes(self) -> list[int]:
        return []

    def close(self) -> None:
        self._machine.close()


class _Loop:
    """An event loop in a thread, which callers of any thread wait for."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def wait(self, work: Awaitable[Any]) -> Any:
        async def awaited() -> Any:
            return await work

        return asyncio.run_coroutine_threadsafe(awaited(), self.loop).result()


class _AsyncStream:
    def __init__(self, loop: _Loop, reader: Any, writer: Any) -> None:
        self._loop, self._reader, self._writer = loop, reader, writer

    def recv(self, size: int, /) -> bytes:
        return bytes(self._loop.wait(self._reader.read(size)))

    def sendall(self, data: bytes, /) -> None:
        async def send() -> None:
            self._writer.write(data)
            await self._writer.drain()

        self._loop.wait(send())

    def shutdown(self, _how: int, /) -> None:
        self._loop.loop.call_soon_threadsafe(self._writer.write_eof)

    def settimeout(self, _seconds: float | None, /) -> None: ...

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        self._loop.loop.call_soon_threadsafe(self._writer.close)


class AsyncSsh:
    """One event loop for all connections; blocking calls from the threads that providers are called in."""

    _loop: _Loop | None = None

    def __init__(self, job: Job, number: int) -> None:
        asyncssh = importlib.import_module("asyncssh")
        AsyncSsh._loop = self._bridge = AsyncSsh._loop or _Loop()
        given = {"username": "root", "client_keys": [job.key], "known_hosts": job.known_hosts, "config": None}
        alive = {"keepalive_interval": job.keep_alive, "keepalive_count_max": 2, "agent_path": None}
        self._connection = self._bridge.wait(asyncssh.connect(job.address, **given, **alive))
        self._target = job.target

    def command(self) -> int:
        return int(self._bridge.wait(self._connection.run(_LINE)).exit_status)

    def killed(self) -> object:
        return self._bridge.wait(self._connection.run("kill -9 $$")).exit_signal

    def wait(self) -> None:
        self._bridge.wait(self._connection.run("sleep 1000", check=True))

    def dial(self) -> Stream:
        opened = self._bridge.wait(self._connection.open_unix_connection(self._target, encoding=None))
        return _AsyncStream(self._bridge, *opened)

    def processes(self) -> list[int]:
        return []

    def close(self) -> None:
        self._connection.abort()


class OpenSsh:
    """A master process per node, a process per command, and one forwarded socket per target."""

    def __init__(self, job: Job, number: int) -> None:
        control = f"{job.folder}/{os.getpid()}-{number}"
        options = {
            "ControlPath": control,
            "UserKnownHostsFile": job.known_hosts,
            "StrictHostKeyChecking": "yes",
            "BatchMode": "yes",
            "ServerAliveInterval": job.keep_alive,
            "ServerAliveCountMax": 2,
        }
        given = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        self._words = ["ssh", "-F", "none", *given]
        self._host = f"root@{job.address}"
        argv = [*self._words, "-i", job.key, "-o", "IdentitiesOnly=yes", "-M", "-N", self._host]
        self._master = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not Path(control).exists():
            if self._master.poll() is not None:
                raise SystemExit("ssh did not log in")
            time.sleep(0.002)
        self._local, self._target = f"{control}-out", job.target

    def command(self) -> int:
        return self._run(_LINE)

    def killed(self) -> object:
        return self._run("kill -9 $$")

    def wait(self) -> None:
        self._run("sleep 1000")

    def _run(self, *words: str) -> int:
        argv = [*self._words, self._host, *words]
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode

    def dial(self) -> Stream:
        if not Path(self._local).exists():
            forward = ["-O", "forward", "-L", f"{self._local}:{self._target}"]
            subprocess.run([*self._words, *forward, self._host], check=True, capture_output=True)
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._local)
        return connection

    def processes(self) -> list[int]:
        return [self._master.pid]

    def close(self) -> None:
        self._master.terminate()
        self._master.wait()


CLIENTS: dict[str, Callable[[Job, int], Client]] = {
    "paramiko": Paramiko,
    "asyncssh": AsyncSsh,
    "openssh": OpenSsh,
}


class Watch:
    """CPU and wall seconds of this process, of its children and of the processes that carry connections."""

    def __init__(self, carriers: Callable[[], list[int]]) -> None:
        self._carriers = carriers
        self._begin = self._now()

    def _now(self) -> tuple[float, float]:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        cpu = sum(each.ru_utime + each.ru_stime for each in used)
        for pid in self._carriers():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            cpu += (int(fields[11]) + int(fields[12])) / _TICKS
        return cpu, time.perf_counter()

    def stop(self, per: int = 1) -> dict[str, float]:
        """Milliseconds each."""
        cpu, wall = (after - before for before, after in zip(self._begin, self._now(), strict=True))
        return {"cpu": cpu * 1000 / per, "wall": wall * 1000 / per}


def _held(carriers: list[int]) -> dict[str, float]:
    """Memory (proportional, MiB), processes, threads and descriptors."""
    found = {"memory": 0.0, "processes": 0.0, "threads": 0.0, "descriptors": 0.0}
    for pid in (os.getpid(), *carriers):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        found["memory"] += next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
        found["processes"] += 1
        found["threads"] += len(os.listdir(f"/proc/{pid}/task"))
        found["descriptors"] += len(os.listdir(f"/proc/{pid}/fd"))
    return found


def login(job: Job, make: Callable[[int], Client]) -> object:
    """Log in and run one command."""
    make(0).command()  # imports, and whatever else is done once
    made: list[Client] = []

    def carriers() -> list[int]:
        return [pid for each in made for pid in each.processes()]

    watch = Watch(carriers)
    for number in range(job.count):
        made.append(make(number + 1))
        if made[-1].command():
            raise SystemExit("the command failed")
    return watch.stop(job.count)


def commands(job: Job, client: Client) -> object:
    watch = Watch(client.processes)
    for _ in range(job.count):
        client.command()
    return watch.stop(job.count)


def streams(job: Job, client: Client) -> object:
    """Open a stream, send a byte and have it back."""
    client.dial().close()
    watch = Watch(client.processes)
    for _ in range(job.count):
        with contextlib.closing(client.dial()) as stream:
            stream.sendall(b"e")
            stream.recv(1)
    return watch.stop(job.count)


def trips(job: Job, client: Client) -> object:
    """A byte there and back on an open stream."""
    with contextlib.closing(client.dial()) as stream:
        stream.sendall(b"e")
        stream.recv(1)
        watch = Watch(client.processes)
        for _ in range(job.count):
            stream.sendall(b"x")
            stream.recv(1)
        return watch.stop(job.count)


def down(job: Job, client: Client) -> object:
    """Per MiB."""
    with contextlib.closing(client.dial()) as stream:
        watch, left = Watch(client.processes), job.size
        stream.sendall(b"z")
        while left > 0 and (data := stream.recv(_CHUNK)):
            left -= len(data)
        return watch.stop(job.size >> 20)


def up(job: Job, client: Client) -> object:
    """Per MiB."""
    with contextlib.closing(client.dial()) as stream:
        watch, data = Watch(client.processes), bytes(_CHUNK)
        stream.sendall(b"s")
        for _ in range(job.size // _CHUNK):
            stream.sendall(data)
        stream.recv(1)
        return watch.stop(job.size >> 20)


def fleet(job: Job, make: Callable[[int], Client]) -> object:
    """What `count` connections hold that do nothing, and the CPU they take, in ms per second."""
    first = make(0)
    first.command()
    before, made = _held(first.processes()), [make(number + 1) for number in range(job.count)]
    for each in made:
        each.command()

    def carriers() -> list[int]:
        return [pid for each in (first, *made) for pid in each.processes()]

    after, watch, seconds = _held(carriers()), Watch(carriers), 10
    time.sleep(seconds)
    return {**{name: after[name] - before[name] for name in after}, "idle": watch.stop(seconds)["cpu"]}


def silence(_job: Job, client: Client) -> object:
    """Seconds from the word `ready`, when the cable is cut, until a command that runs is given up."""
    begin = 0.0

    def say() -> None:
        nonlocal begin
        begin = time.perf_counter()
        print("ready", flush=True)

    threading.Timer(1.0, say).start()
    with contextlib.suppress(Exception):
        client.wait()
    return time.perf_counter() - begin


def signals(_job: Job, client: Client) -> object:
    return str(client.killed())


MANY: dict[str, Callable[[Job, Callable[[int], Client]], object]] = {"login": login, "fleet": fleet}
ONE: dict[str, Callable[[Job, Client], object]] = {
    each.__name__: each for each in (commands, streams, trips, down, up, silence, signals)
}


def main() -> int:
    job = Job(**json.loads(sys.argv[1]))
    kind = CLIENTS[job.client]
    if job.do in MANY:
        found = MANY[job.do](job, lambda number: kind(job, number))
    else:
        client = kind(job, 0)
        client.command()
        found = ONE[job.do](job, client)
        client.close()
    print(json.dumps(found), flush=True)
    os._exit(0)  # what is left of a fleet goes with it


if __name__ == "__main__":
    sys.exit(main())
