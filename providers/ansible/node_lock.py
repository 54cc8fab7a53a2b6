"""One provisioning per node at a time, whoever provisions, from wherever: the node itself is held.

A process on the node holds a lock as long as it hears from here. When the node reboots, or the connection
breaks, it is held again as soon as it answers.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from providers.condition.node.main import FOLDER
from providers.machines.base import Machine, Process
from schemas.problems.errors.provider import ProviderError, ProviderUnavailable
from schemas.problems.errors.provisioning import NodeBusy

HEARTBEAT = 20.0
"""Seconds between signs of life; the node gives up after six of them."""
ANSWER_TIMEOUT = 60.0
"""Seconds that a node may take to say whether it is ours, and to let go. It may be reached and hang all the
same: its disk does, or its memory is used up."""
RETRY_PAUSE = 2.0
"""Seconds between tries to hold a node again."""
_SOURCE = (Path(__file__).resolve().parent / "node_lock_holder.py").read_text(encoding="utf-8")


class NodeLock:
    """A context in which the node is ours. Entering raises NodeBusy, ProviderError, ProviderUnavailable."""

    def __init__(self, machine: Machine, *, grace: float, token: str = "", folder: str = FOLDER) -> None:
        """`grace`: seconds for which the node stays ours after a boot in between, and everybody's who has the
        same token."""
        self._machine = machine
        self._words = (folder, token or secrets.token_hex(8), _describe_holder(), f"{grace:g}")
        self._over = threading.Event()
        self._process: Process | None = None
        self._heartbeat = threading.Thread(target=self._keep_alive, name=f"hold {machine.name}", daemon=True)
        self.lost = ""
        """Who took the node meanwhile; empty while it is ours."""

    def __enter__(self) -> NodeLock:
        self._process = self._take_lock()
        self._heartbeat.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._heartbeat.join()
        if self._process is not None and self._release(self._process):
            return
        if not self.lost:
            # A reboot ended it, and its note would keep others away for a while.
            with contextlib.suppress(ProviderError):
                self._release(self._take_lock())

    def _take_lock(self) -> Process:
        process = self._machine.start(["python3", "-I", "-S", "-c", _SOURCE, *self._words])
        said = b""
        try:
            with _with_timeout(process) as limit:
                for data in process.read():
                    said += data
                    if b"\n" in said:
                        break
            if limit.over:
                why = f"it does not answer within {ANSWER_TIMEOUT:g} s"
                raise ProviderUnavailable(provider=self._machine.name, why=why)
            if said.startswith(b"+"):
                return process
            raise self._refusal(process, said.decode(errors="replace").strip())
        except BaseException:
            process.close()
            raise

    def _refusal(self, process: Process, said: str) -> ProviderError:
        if said.startswith("-"):
            return NodeBusy(node=self._machine.name, why=said[1:], hint="wait until that is over")
        lines = process.errors().decode(errors="replace").strip().splitlines()
        return ProviderError(provider=self._machine.name, why=lines[-1] if lines else "it cannot be held")

    def _keep_alive(self) -> None:
        while not self._over.wait(HEARTBEAT if self._process is not None else RETRY_PAUSE):
            try:
                if self._process is None:
                    self._process = self._take_lock()
                self._process.write(b".")
            except NodeBusy as error:
                self.lost = error.message
                return
            except (ProviderError, OSError, EOFError, ValueError):
                self._drop_process()

    def _drop_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(Exception):
                process.close()

    @staticmethod
    def _release(process: Process) -> bool:
        """The end of its input lets the other side clear its note, and end by itself; whether it did."""
        try:
            with _with_timeout(process):
                process.close_stdin()
                return process.wait() == 0
        except (ProviderError, OSError, EOFError, ValueError):
            return False
        finally:
            with contextlib.suppress(Exception):
                process.close()


class _Timeout:
    """Ends a process that is waited for too long; `over`: whether it did."""

    def __init__(self, process: Process) -> None:
        self.over = False
        self._process = process

    def __call__(self) -> None:
        self.over = True
        with contextlib.suppress(Exception):
            self._process.close()


@contextlib.contextmanager
def _with_timeout(process: Process) -> Iterator[_Timeout]:
    limit = _Timeout(process)
    timer = threading.Timer(ANSWER_TIMEOUT, limit)
    timer.daemon = True
    timer.start()
    try:
        yield limit
    finally:
        timer.cancel()
        timer.join()


def lock_token(root: Path) -> str:
    """The token of all who provision from one store: its lease lets only one of them do so at a time. So the
    next one goes on at once with a node that died under the one before."""
    path = root / "holder"
    if not path.exists():
        draft = root / f".holder-{secrets.token_hex(4)}"
        root.mkdir(parents=True, exist_ok=True)
        draft.touch(mode=0o600)
        draft.write_text(secrets.token_hex(8))
        with contextlib.suppress(FileExistsError):  # Somebody else was faster: theirs counts.
            os.link(draft, path)
        draft.unlink()
    return path.read_text()


def _describe_holder() -> str:
    return f"{getpass.getuser()} on {socket.gethostname()} (process {os.getpid()})"
