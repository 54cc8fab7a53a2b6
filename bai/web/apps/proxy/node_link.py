"""bai's way in on a node: a unix socket there that OpenSSH brings here.

One ssh holds it. Where it ends it is made again, as long as it is wanted; nothing of it is kept, so that a
node that was rebooted, a bai that was started anew, and another bai that takes over find nothing to mend.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tenacity import (
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_when_event_set,
    wait_exponential,
)

from bai.web.apps.proxy.node_config import APPS_SOCKET, SOCKETS
from bai.web.apps.proxy.node_socket import GROUP, PREPARE, PUBLISH, SIGN_OF_LIFE, SILENCE, UP
from providers.machines.base import Endpoint
from providers.machines.connections import connect
from providers.machines.ssh.openssh import ssh_alias, write_ssh_config
from providers.machines.ssh.route import Route, ssh_route, user_config
from providers.process.linux import parent_death
from schemas.problems.errors.base import BaiError

_STARTS_WITHIN = 60.0
_ENDS_WITHIN = 5.0
"""Seconds."""
_LOOK = 0.5
"""Seconds between two looks whether it is wanted."""
_LONGEST_PAUSE = 10.0
_LIVED = 10.0
"""Seconds after which its end is no failed start."""
_PYTHON = ("python3", "-I", "-S", "-c")
_OPTIONS = ("ExitOnForwardFailure=yes", "ClearAllForwardings=no", "PermitLocalCommand=no", "ControlMaster=no")


class _Failed(Exception):
    """Why there is no way in."""


class NodeLink:
    """From `start` to `close`, while `wanted` (asked often) says so: connections to the node's socket come to
    `entry` here. Keys lie in `folder`, which is this process's alone, while ssh logs in. `say` is given lines
    for the log."""

    def __init__(
        self, endpoint: Endpoint, entry: Path, folder: Path, wanted: Callable[[], bool],
        say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.endpoint = endpoint
        self._entry, self._folder = entry, folder
        self._wanted = wanted
        self._say = say
        self._told = ""
        self._ending = threading.Event()
        self._up = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._supervise, name=f"link-{endpoint.name}", daemon=True)

    @property
    def up(self) -> bool:
        """Whether the node's proxy reaches this server just now, as far as is known."""
        return self._up.is_set()

    @property
    def pid(self) -> int | None:
        """Of the ssh that holds it."""
        child = self._child
        return child.pid if child is not None and child.poll() is None else None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Without waiting for its end."""
        self._ending.set()

    def close(self) -> None:
        self.stop()
        if self._thread.ident is not None:
            self._thread.join()

    def _supervise(self) -> None:
        # This thread starts each ssh and outlives it: a child that ends with its parent ends with the thread
        # that made it.
        while not self._ending.is_set():
            tries = Retrying(
                retry=retry_if_exception_type(_Failed),
                wait=wait_exponential(0.5, max=_LONGEST_PAUSE),
                stop=stop_when_event_set(self._ending),
                sleep=sleep_using_event(self._ending),
                reraise=True,
            )
            with contextlib.suppress(_Failed):
                tries(self._hold)

    def _hold(self) -> None:
        """Until it ends. Raises _Failed where it did not come to stand."""
        if self._ending.is_set() or not self._wanted():
            self._ending.wait(_LOOK)
            return
        began = time.monotonic()
        try:
            with self._connected() as child:
                self._tell("apps are reached there")
                self._up.set()
                self._keep(child)
        except (_Failed, BaiError, OSError, ValueError) as error:
            self._tell(str(error))
            if time.monotonic() - began < _LIVED:
                raise _Failed from error
        finally:
            self._up.clear()

    @contextlib.contextmanager
    def _connected(self) -> Iterator[subprocess.Popen[bytes]]:
        name = secrets.token_hex(16)
        route = ssh_route(self.endpoint, user_config())
        self._prepare(name)
        folder = Path(tempfile.mkdtemp(prefix="link-", dir=self._folder))
        try:
            child = self._child = self._log_in(name, route, folder)
            try:
                _await_up(child)
                shutil.rmtree(folder, ignore_errors=True)  # Keys are of no more use to it.
                yield child
            finally:
                _end(child)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _prepare(self, name: str) -> None:
        done = connect(self.endpoint).run([*_PYTHON, PREPARE, SOCKETS, name])
        if done.code:
            raise _Failed(_last_line(done.err) or f"exit code {done.code}")

    def _log_in(self, name: str, route: Route, folder: Path) -> subprocess.Popen[bytes]:
        config = write_ssh_config(folder, {self.endpoint.name: route})
        program = [*_PYTHON, PUBLISH, SOCKETS, name, APPS_SOCKET, GROUP, str(SILENCE)]
        far = shlex.join(["sudo", "-n", "--", *program] if route.sudo else program)
        forward = f"{SOCKETS}/in.{name}/{APPS_SOCKET}:{self._entry}"
        options = [word for option in _OPTIONS for word in ("-o", option)]
        program_here = shutil.which("ssh")
        if program_here is None:
            raise _Failed("OpenSSH's client (ssh) is needed here, and there is none")
        command = [program_here, "-F", str(config), "-T", "-a", "-x", *options, "-R", forward]
        command += [ssh_alias(self.endpoint.name, route), far]
        return subprocess.Popen(
            [sys.executable, "-I", "-S", parent_death.__file__, str(os.getpid()), *command],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
            process_group=0,  # Ctrl-C is for us, who end it when it is its turn.
        )  # fmt: skip

    def _keep(self, child: subprocess.Popen[bytes]) -> None:
        """Until it ends, is wanted no more, or all of it ends. Raises _Failed where it ended by itself."""
        assert child.stdin is not None and child.stdout is not None
        said = 0.0
        watched = select.poll()
        watched.register(child.stdout, select.POLLIN | select.POLLHUP)
        while not self._ending.is_set() and self._wanted():
            if time.monotonic() - said > SIGN_OF_LIFE:
                said = time.monotonic()
                with contextlib.suppress(BrokenPipeError):
                    child.stdin.write(b"\n")
            if watched.poll(_LOOK * 1000):
                raise _Failed(_why_ended(child))

    def _tell(self, line: str) -> None:
        """Each thing once: who is away for a night is told of once."""
        if line != self._told:
            self._told = line
            self._say(f"node {self.endpoint.name}: {line}")


def _await_up(child: subprocess.Popen[bytes]) -> None:
    """Raises _Failed."""
    assert child.stdout is not None
    deadline = time.monotonic() + _STARTS_WITHIN
    watched = select.poll()
    watched.register(child.stdout, select.POLLIN | select.POLLHUP)
    said = b""
    while UP not in said:
        left = deadline - time.monotonic()
        if left <= 0:
            raise _Failed(f"no way in within {_STARTS_WITHIN:g} s")
        if watched.poll(left * 1000):
            part = os.read(child.stdout.fileno(), 4096)
            said = (said + part)[-4096:]
            if not part:
                raise _Failed(_why_ended(child))


def _why_ended(child: subprocess.Popen[bytes]) -> str:
    """What it said last."""
    assert child.stderr is not None
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_ENDS_WITHIN)
    os.set_blocking(child.stderr.fileno(), False)
    said = child.stderr.read(1 << 16) or b""
    return _last_line(said) or f"ssh ended with code {child.returncode}"


def _last_line(said: bytes) -> str:
    lines = said.decode(errors="replace").strip().splitlines()
    return lines[-1].strip()[:500] if lines else ""


def _end(child: subprocess.Popen[bytes]) -> None:
    """The far side hears of it, and takes the socket away."""
    assert child.stdin is not None
    with contextlib.suppress(OSError):
        child.stdin.close()
    try:
        child.wait(_ENDS_WITHIN)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    for stream in (child.stdout, child.stderr):
        if stream is not None:
            stream.close()
