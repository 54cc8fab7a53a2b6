"""What answers as idle Docker engines do, at many unix sockets from one process, as slow as is wanted.

    with answering_engines(folder, ["n1", "n2"]) as engines:
        Endpoint("n1", "n1", local=True, options={"socket": engines.socket("n1")})
        engines.delay("n1", 5)

Made for measuring what asking costs, and for many nodes: it makes no containers (what is posted is answered
with an id), and streams of events say nothing. `delay` holds from the next request on; `HANGS` is for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.waiting import until

HANGS = 1e9
_READY = "ready"
_LOOK = 0.05
"""Seconds until a delay that was taken away is over."""
_VERSION = {"ApiVersion": "1.47", "MinAPIVersion": "1.24", "Version": "27.0"}
_INFO = {
    "ID": "", "ServerVersion": "27.0", "NCPU": 128, "MemTotal": 2 << 40, "CgroupVersion": "2", "CPUSet": True,
    "CPUShares": True, "MemoryLimit": True, "PidsLimit": True, "SwapLimit": True, "CpuCfsQuota": True,
    "SystemTime": "2026-01-01T00:00:00Z", "Driver": "overlay2", "SecurityOptions": ["name=seccomp"],
}  # fmt: skip
_ANSWERS: dict[str, object] = {
    "version": _VERSION, "json": [], "volumes": {"Volumes": []}, "create": {"Id": "0" * 64},
}  # fmt: skip


class AnsweringEngines:
    """Where they are."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def socket(self, name: str) -> str:
        return f"{self._folder}/{name}.sock"

    def delay(self, name: str, seconds: float) -> None:
        """Each request is answered after so long."""
        (self._folder / f"{name}.delay").write_text(str(seconds))

    def mend(self, name: str) -> None:
        (self._folder / f"{name}.delay").unlink(missing_ok=True)

    def requests(self, name: str) -> list[str]:
        """What was asked of it, in the order in which it came."""
        with contextlib.suppress(FileNotFoundError):
            return (self._folder / f"{name}.log").read_text().splitlines()
        return []


@contextlib.contextmanager
def answering_engines(folder: Path, names: Sequence[str]) -> Iterator[AnsweringEngines]:
    """A process that answers for all of these."""
    (folder / "names").write_text("\n".join(names))
    root = str(Path(__file__).parents[2])
    with subprocess.Popen([sys.executable, "-m", __name__, str(folder)], cwd=root) as process:
        try:
            until(lambda: (folder / _READY).exists() or process.poll() is not None, "the engines answer")
            assert process.poll() is None
            yield AnsweringEngines(folder)
        finally:
            process.kill()


class _Server:
    def __init__(self, folder: Path, name: str) -> None:
        self._delay = folder / f"{name}.delay"
        self._log = folder / f"{name}.log"
        self._name = name

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError), contextlib.closing(writer):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                await reader.readexactly(_length(head))
                method, path = head.split()[:2]
                with self._log.open("a") as log:
                    log.write(f"{method} {path}\n")
                await self._wait()
                what = path.partition("?")[0].rpartition("/")[2]
                if what == "events":
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
                    await writer.drain()
                    await reader.read()
                    return
                found = {**_INFO, "ID": self._name} if what == "info" else _ANSWERS.get(what, {})
                body = json.dumps(found).encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                    % (len(body), body)
                )
                await writer.drain()

    async def _wait(self) -> None:
        began = time.monotonic()
        with contextlib.suppress(FileNotFoundError):
            while time.monotonic() - began < float(self._delay.read_text()):
                await asyncio.sleep(_LOOK)


def _length(head: str) -> int:
    for line in head.lower().splitlines():
        if line.startswith("content-length:"):
            return int(line.partition(":")[2])
    return 0


async def _serve_all(folder: Path) -> None:
    servers = [
        await asyncio.start_unix_server(_Server(folder, name).serve, f"{folder}/{name}.sock")
        for name in (folder / "names").read_text().split()
    ]
    (folder / _READY).touch()
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(_serve_all(Path(sys.argv[1])))
