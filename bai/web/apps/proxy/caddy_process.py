"""Caddy as a child: started, begun anew where it ends, ended with bai.

Its listening sockets are ours and are handed down: while it is begun anew connections wait, and nobody else
can take their place.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tenacity import (
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_when_event_set,
    wait_exponential,
)

from bai.web.apps.proxy.caddy_log import ThrottledLines, is_ready, log_text
from providers.process.linux import parent_death
from schemas.problems.errors.command import CommandError

CONFIG, DRAFT = "caddy.json", "next.json"
_STARTS_WITHIN = 30.0
_ENDS_WITHIN = 15.0
"""Seconds; it was given fewer for what is under way."""
_LIVED = 10.0
"""Seconds after which its end is no failed start."""
_LONGEST_LINE = 64 * 1024
_INHERITED = ("SSL_CERT_FILE", "SSL_CERT_DIR", "TZ")


class _Ended(Exception):
    """It did not live long."""


class CaddyProcess:
    """`engine` runs with `config` in `folder`, which is this process's alone, and inherits the file
    descriptors `listeners`. `say` is given lines for the log."""

    def __init__(
        self, engine: Path, config: Mapping[str, Any], folder: Path, listeners: Sequence[int],
        say: Callable[[str], None], stamp: str = "",
    ) -> None:  # fmt: skip
        self._engine = engine
        self._folder = folder
        self._listeners = tuple(listeners)
        self._say = ThrottledLines(say)
        self._ending = threading.Event()
        self._settled = threading.Event()
        self._ready = False
        self._last_words = ""
        self._child: subprocess.Popen[bytes] | None = None
        self._renewing = False
        self._config = _encoded(config), stamp
        self._refused: tuple[bytes, str] | None = None
        _write_private(folder / CONFIG, self._config[0])
        self._thread = threading.Thread(target=self._supervise, name="bai-caddy", daemon=True)

    @property
    def pid(self) -> int | None:
        """Of the one that runs now."""
        child = self._child
        return child.pid if child is not None and child.poll() is None else None

    def start(self) -> None:
        """Until it serves. Raises CommandError where it does not."""
        self._thread.start()
        self._settled.wait(_STARTS_WITHIN)
        if not self._ready:
            self.close()
            raise CommandError(why=f"Caddy does not start: {self._last_words or 'it says nothing'}")

    def configure(
        self, config: Mapping[str, Any], stamp: str = "", listeners: Sequence[int] | None = None
    ) -> bool:
        """Whether it has, or is about to have, this configuration. Begun anew where that is another one, or
        `stamp`, which tells of files that it names: connections wait meanwhile, and what is under way may
        come to its end for some seconds. What Caddy cannot run with changes nothing, and is said."""
        content = _encoded(config)
        wanted = content, stamp
        if wanted in (self._config, self._refused):
            return wanted == self._config
        try:
            refusal = self._refusal(content)
            if not refusal:
                _write_private(self._folder / CONFIG, content)
        except OSError as error:  # A full disk: the next pass tries again.
            self._say(f"goes on as it was: {error.strerror or error}")
            return False
        if refusal:
            self._refused = wanted
            self._say(f"goes on as it was: {refusal}")
            return False
        self._config, self._refused = wanted, None
        if listeners is not None:
            self._listeners = tuple(listeners)
        self._renewing = True
        child = self._child
        if child is not None:
            child.send_signal(signal.SIGTERM)
        return True

    def close(self) -> None:
        """What is under way may come to its end, for some seconds."""
        self._ending.set()
        child = self._child
        if child is not None:
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(_ENDS_WITHIN)
            except subprocess.TimeoutExpired:
                child.kill()
        if self._thread.ident is not None:
            self._thread.join()

    def _supervise(self) -> None:
        # This thread starts all of them and outlives each: a child that ends with its parent ends with the
        # thread that made it.
        while not self._ending.is_set():
            tries = Retrying(
                retry=retry_if_exception_type(_Ended),
                wait=wait_exponential(0.1, max=10),
                stop=stop_when_event_set(self._ending),
                sleep=sleep_using_event(self._ending),
                reraise=True,
            )
            with contextlib.suppress(_Ended):
                tries(self._run_once)

    def _run_once(self) -> None:
        if self._ending.is_set():
            return
        began = time.monotonic()
        code = self._run()
        self._last_words = self._last_words or f"it ended with code {code}"
        self._settled.set()
        renewed, self._renewing = self._renewing, False
        if renewed or self._ending.is_set():
            return
        if self._ready:
            self._say(f"ended with code {code}, and is begun anew")
        if time.monotonic() - began < _LIVED:
            raise _Ended

    def _run(self) -> int:
        command = [str(self._engine), "run", "--config", CONFIG]
        try:
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", parent_death.__file__, str(os.getpid()), *command],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                cwd=self._folder, env=self._environment(), pass_fds=self._listeners, umask=0o077,
                process_group=0,  # Ctrl-C is for us, who end it when it is its turn.
            )  # fmt: skip
        except OSError as error:
            self._last_words = error.strerror or str(error)
            return -1
        self._child = child
        if self._ending.is_set():
            child.terminate()
        assert child.stderr is not None
        with child.stderr as lines:
            while line := lines.readline(_LONGEST_LINE):
                self._hear(line.decode(errors="replace"))
        return child.wait()

    def _hear(self, line: str) -> None:
        if not self._ready and is_ready(line):
            self._ready = True
            self._settled.set()
        if text := log_text(line):
            self._last_words = text
            if self._ready:
                self._say(text)

    def _refusal(self, content: bytes) -> str:
        """What Caddy has against it; empty where it has nothing."""
        draft = self._folder / DRAFT
        _write_private(draft, content)
        command = [str(self._engine), "validate", "--config", DRAFT]
        try:
            done = subprocess.run(
                command, cwd=self._folder, env=self._environment(), stdin=subprocess.DEVNULL,
                capture_output=True, timeout=_STARTS_WITHIN, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        finally:
            draft.unlink(missing_ok=True)
        lines = [
            text for line in done.stderr.decode(errors="replace").splitlines() if (text := log_text(line))
        ]
        return (lines[-1] if lines else f"code {done.returncode}") if done.returncode else ""

    def _environment(self) -> dict[str, str]:
        home = str(self._folder)
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        return {"HOME": home, "XDG_DATA_HOME": home, "XDG_CONFIG_HOME": home, "PATH": os.defpath, **inherited}


def _encoded(config: Mapping[str, Any]) -> bytes:
    return json.dumps(config, indent=1).encode()


def _write_private(path: Path, content: bytes) -> None:
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "wb") as stream:
        stream.write(content)
    draft.replace(path)
