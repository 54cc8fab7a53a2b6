"""`bai serve` as a process of its own that follows a remote, with somebody to ask it. Its start is nobody's
subject: it is a fork, where a fork is the same (`tests/harness/bai_process.py`).

with Serve(folder, remote, environment) as server:
    server.until_runs("demo/one")
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import requests

from tests.harness.bai_process import Command, start_bai
from tests.harness.fork_client import Started

SECRET = "a secret of the lab's"
TOKEN = "bai_a-token-of-the-lab"
PATIENCE = 120.0
_ROOT = Path(__file__).resolve().parents[2]


class Serve:
    """Starts it, and waits until it answers. Its store and its copies are below `folder`."""

    def __init__(
        self, folder: Path, remote: str, environment: dict[str, str], *options: str, interval: str = "1h",
        host: str = "127.0.0.1", state: str = "",
    ) -> None:  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.state = state or str(folder / "store.db")
        self.log = folder / "serve.log"
        access = folder / "access.yaml"
        digest = hashlib.sha256(TOKEN.encode()).hexdigest()
        access.write_text(f"tokens:\n  - {{name: lab, sha256: {digest}, role: admin}}\n")
        self._words = [
            "--state", self.state, "serve", "--remote", remote, "--interval", interval,
            "--listen", f"{host}:0", "--access", str(access), "--webhook-secret", "env:LAB_SECRET", *options,
        ]  # fmt: skip
        self._environment = {
            **os.environ, "XDG_STATE_HOME": str(folder / "state"),
            "LAB_SECRET": SECRET, **environment,
        }  # fmt: skip
        self._environment.pop("BAI_STATE", None)
        self.process: Started | subprocess.Popen[bytes] | None = None
        self.url = ""
        try:
            self.start()
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def hook(self) -> str:
        return f"{self.url}/hooks/git"

    @property
    def copy(self) -> Path:
        """Its copy of the remote."""
        (found,) = (Path(self._environment["XDG_STATE_HOME"]) / "bai" / "remotes").glob("*/copy.git")
        return found

    def start(self, **environment: str) -> None:
        """Once more, after `stop` or `kill`."""
        before = self.said()
        with self.log.open("a") as out:
            command = Command(
                self._words, {**self._environment, **environment}, _ROOT, stdout=out, stderr=out
            )
            self.process = start_bai(command)
        end = time.monotonic() + PATIENCE
        while True:
            found = re.search(r"answers at (\S+)", self.said()[len(before) :])
            if found:
                self.url = found[1]
                if self._answers():
                    return
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"bai serve does not answer: {self.said()}")
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            return requests.get(f"{self.url}/healthz", timeout=5).status_code == 200
        except requests.RequestException:
            return False

    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def ask(self, path: str, method: str = "GET", **body: Any) -> Any:
        """What the API answers; `path` below the cluster, which is named `here`."""
        answer = requests.request(
            method, f"{self.url}/api/v1/clusters/here{path}", json=body or None, timeout=60,
            headers={"Authorization": f"Bearer {TOKEN}"},
        )  # fmt: skip
        assert answer.ok, f"{path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def states(self) -> dict[str, str]:
        """Of every session, as the last pass saw it."""
        return {each["id"]: str(each.get("phase", "")) for each in self.ask("/resources?kind=Session")}

    def until_runs(self, name: str) -> None:
        """`name` as project/session."""
        self.until(
            lambda: self.ran(name) and self.states().get(f"Session/{name}") == "RUNNING", f"{name} runs"
        )

    def metrics(self) -> str:
        """As Prometheus gets them."""
        return requests.get(
            f"{self.url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60
        ).text

    def ran(self, name: str) -> bool:
        """Whether it was RUNNING once, by the events."""
        return any(each["after"] == "RUNNING" for each in self.ask(f"/events?resource=Session/{name}"))

    def until_notes(self, words: str) -> str:
        """Until something that is wrong is said by the API; gives it."""
        found: list[str] = self.until(
            lambda: [note for note in self.ask("")["notes"] if words in note], f"{words!r} in the notes"
        )
        return found[0]

    def until_good(self, commit: str = "") -> None:
        """Until nothing is wrong any more, at this commit."""
        self.until(lambda: (now := self.ask(""))["good"] and commit in ("", now["commit"]), "all is well")

    def until_looked(self) -> None:
        """Until a pass is over that began after now; for short intervals."""
        for _ in range(2):
            before = self.ask("")["lastPass"]
            self.until(lambda at=before: self.ask("")["lastPass"] != at, "another pass is over")

    def until(self, condition: Any, what: str) -> Any:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                if value := condition():
                    return value
            except (AssertionError, requests.RequestException):
                pass
            assert self.process is not None and self.process.poll() is None, self.said()
            time.sleep(0.1)
        raise AssertionError(f"still not: {what}: {self.ask('')} {self.said()}")

    def stop(self) -> int:
        """As systemd does it; gives the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()
