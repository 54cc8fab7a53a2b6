"""One program of the cluster that runs on: started, ended, and its last words when it does not come up."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness.processes import children
from tests.lab.spaces import PATIENCE, started, with_us
from tests.waiting import soon

_LINES = 20
_GOGC = "400"
"""Percent by which memory grows before garbage is looked for: at 100, a tenth of a short life goes there."""


class NotUp(Exception):
    """A program of the cluster ended, or does not answer; with what it wrote last."""


@dataclass
class Daemon:
    """`argv` runs behind `prefix`, a command that leads to the namespaces where it belongs. `forks`: the
    prefix stays, as parent of the program."""

    name: str
    argv: Sequence[str]
    log: Path
    prefix: Sequence[str] = ()
    forks: bool = False
    path: str = ""
    """Where it finds programs of its own, before all others."""
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start it; `wait` for what it does. Nothing happens while it runs."""
        if self.runs():
            return
        path = f"{self.path}:{os.environ['PATH']}:/usr/sbin:/sbin"
        environment = {**os.environ, "GOGC": _GOGC, "PATH": path}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                ["env", "--default-signal", *with_us("KILL"), *self.prefix, *self.argv],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=environment,
            )  # fmt: skip

    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def pid(self) -> int:
        """Process id of the program itself, seen from outside; 0 when it does not run."""
        if self.process is None or self.process.poll() is not None:
            return 0
        if not self.forks:
            return self.process.pid
        found = children(self.process.pid)
        return found[0] if found else 0

    def wait(self, answers: Callable[[], bool]) -> None:
        """Until it answers. Raises NotUp."""
        up = False

        def settled() -> bool:
            nonlocal up
            up = answers()
            return up or not self.runs()

        soon(settled, seconds=3 * PATIENCE, pause=0.2)
        if not up:
            why = "it does not answer" if self.runs() else "it ended"
            raise NotUp(f"{self.name} did not come up: {why}\n{self.tail()}")

    def tail(self) -> str:
        """The last lines of its log."""
        if not self.log.exists():
            return "it wrote nothing"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_LINES:])

    def stop(self) -> None:
        """As an administrator does, and at once when that takes too long."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """All at once."""
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        if self.process is None:
            return
        pid = self.pid()
        since = started(pid) if pid else ""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid or self.process.pid, number)
        try:
            self.process.wait(PATIENCE / 4)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                if pid and started(pid) == since:
                    os.kill(pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait(PATIENCE)
        self.process = None
