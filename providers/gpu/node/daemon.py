"""NVIDIA's MPS control daemon: one process, found by the pipe directory it was started with, and spoken to by
its own command.

The commands and their meaning: NVIDIA's "Multi-Process Service" manual and nvidia-cuda-mps-control(1).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Iterator

CONTROL, SERVER = "nvidia-cuda-mps-control", "nvidia-cuda-mps-server"
PIPE = "CUDA_MPS_PIPE_DIRECTORY"
LOG = "CUDA_MPS_LOG_DIRECTORY"
PATIENCE = 30.0
"""Seconds for a daemon to come up, to answer, or to end."""
_LONGEST = 107 - len("/control_privileged")
"""Bytes that the pipe directory's path may have: its sockets' paths have 107 at most (unix(7))."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_USERS = ("-multiuser-server",)
"""Projects are different users. Without this, which old drivers do not have and only root may give, a server
serves one user at a time, and the clients of others wait."""
_OWN_SHM = 'mount --bind "$1" /dev/shm && shift && exec "$@"'


class MpsFailed(Exception):
    """What the daemon cannot do; the text says it to a person."""


class MpsDaemon:
    """The daemon of one GPU, whether it runs or not. `folder` holds its `pipe`, `log` and `shm`."""

    def __init__(self, folder: Path, gpu: str) -> None:
        self.gpu = gpu
        self.pipe, self.log, self.shm = folder / "pipe", folder / "log", folder / "shm"

    def pid(self) -> int:
        """0 when it does not run."""
        return next(self._processes(CONTROL), 0)

    def _processes(self, program: str) -> Iterator[int]:
        wanted = f"{PIPE}={self.pipe}".encode()
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
                if not any(os.path.basename(word) == program.encode() for word in words[:2]):
                    continue
                # One that was asked something has the same environment, but no `-d`.
                if program == CONTROL and b"-d" not in words:
                    continue
                environment = Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
                state = Path(f"/proc/{entry}/stat").read_bytes().rpartition(b")")[2].split()[0]
            except OSError:
                continue
            if wanted in environment and state not in (b"Z", b"X"):
                yield int(entry)

    def start(self, *, own_shm: bool) -> None:
        """Start it for its GPU alone. Raises Failed."""
        program = shutil.which(CONTROL, path=_path())
        if program is None:
            raise MpsFailed(f"{CONTROL} is not installed")
        if len(os.fsencode(self.pipe)) > _LONGEST:
            more = len(os.fsencode(self.pipe)) - _LONGEST
            raise MpsFailed(f"{self.pipe} is {more} bytes too long for the paths of MPS's sockets")
        for folder, mode in ((self.pipe, 0o1777), (self.log, 0o1777), (self.shm, 0o1777)):
            if folder == self.pipe:  # sockets of one that died
                shutil.rmtree(str(folder), ignore_errors=True)
            folder.mkdir(exist_ok=True)
            folder.chmod(mode)
        before: list[str] = []
        if own_shm:
            unshare = ["unshare", "--mount", "--propagation", "private"]
            before = [*unshare, "sh", "-c", _OWN_SHM, "sh", str(self.shm)]
        for options in (_USERS, ()) if os.geteuid() == 0 else ((),):
            code, said = self._run([*before, program, "-d", *options], b"")
            if not code:
                break
        else:
            raise MpsFailed(f"{CONTROL} does not start: {_last_line(said) or f'exit code {code}'}")
        self._wait(lambda: bool(self.pid()) and self.answers(), "does not answer")

    def answers(self) -> bool:
        """Whether it can be spoken to."""
        try:
            self.ask("get_default_active_thread_percentage")
        except MpsFailed:
            return False
        return True

    def ask(self, command: str) -> str:
        """Its answer. Raises Failed."""
        program = shutil.which(CONTROL, path=_path())
        if program is None:
            raise MpsFailed(f"{CONTROL} is not installed")
        code, said = self._run([program], command.encode() + b"\n")
        if code:
            raise MpsFailed(f"{command}: {_last_line(said) or f'exit code {code}'}")
        return said

    def servers(self) -> list[int]:
        """Process numbers of its servers, one per user whose processes compute."""
        return [int(word) for word in self.ask("get_server_list").split() if re.fullmatch("[0-9]{1,9}", word)]

    def set_limits(self, percent: int, memory: int) -> None:
        """The most that any client may have, whatever its environment says: it can only lower these. Bytes; 0
        leaves memory without a limit. Counts for clients that come from now on. Raises Failed."""
        limit = f"{memory >> 20}M" if memory else ""
        self.ask(f"set_default_active_thread_percentage {percent}")
        if limit:
            self.ask(f"set_default_device_pinned_mem_limit 0 {limit}")
        for server in self.servers():
            self.ask(f"set_active_thread_percentage {server} {percent}")
            if limit:
                self.ask(f"set_device_pinned_mem_limit {server} 0 {limit}")

    def stop(self) -> None:
        """End it and its servers: asked to, then told to. Raises Failed."""
        if not self.pid():
            return
        with contextlib.suppress(MpsFailed):
            self.ask("quit -t 5")
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                self._wait(lambda: not self._processes_left(), "does not end", 10.0)
            except MpsFailed:
                for process in self._processes_left():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, number)
            else:
                return
        self._wait(lambda: not self._processes_left(), "does not end", 10.0)

    def _processes_left(self) -> list[int]:
        return [*self._processes(CONTROL), *self._processes(SERVER)]

    def _run(self, command: list[str], text: bytes) -> tuple[int, str]:
        environment = {
            "PATH": _path(), PIPE: str(self.pipe), LOG: str(self.log), "CUDA_VISIBLE_DEVICES": self.gpu,
        }  # fmt: skip
        if "LD_LIBRARY_PATH" in os.environ:
            environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
        # A file, for a daemon keeps its end of a pipe open.
        with open(str(self.log / "said"), "w+b") as said:
            try:
                done = subprocess.run(
                    command,
                    input=text,
                    stdout=said,
                    stderr=said,
                    env=environment,
                    timeout=PATIENCE,
                    check=False,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise MpsFailed(f"{CONTROL}: {error}") from error
            said.seek(0)
            return done.returncode, said.read().decode(errors="replace").strip()

    def _wait(self, true: object, what: str, patience: float = PATIENCE) -> None:
        end = time.monotonic() + patience
        assert callable(true)
        while not true():
            if time.monotonic() > end:
                raise MpsFailed(f"{CONTROL} of {self.gpu} {what}")
            time.sleep(0.05)


def _path() -> str:
    return os.environ.get("PATH") or _PATH


def _last_line(said: str) -> str:
    lines = said.splitlines()
    return lines[-1] if lines else ""
