"""A real Gitea: repositories over HTTP, pull requests, comments, statuses, webhooks.

    def test_something(gitea: Gitea) -> None:
        repository = gitea.repository("cluster")

Nobody publishes its program where Debian's packages come from: `scripts/gitea.sh` builds it, and tests that
ask for it are skipped by name until that was done.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.harness.ports import free_port
from tests.lab.cache import LabUnavailable, folder
from tests.lab.lent import lent

USER, PASSWORD = "ada", "lab-secret-word-1"
PATIENCE = 120.0
_SETTINGS = """
APP_NAME = lab
RUN_MODE = prod
RUN_USER = {user}
WORK_PATH = {work}
[server]
STATIC_ROOT_PATH = {static}
HTTP_ADDR = 127.0.0.1
HTTP_PORT = {port}
ROOT_URL = http://127.0.0.1:{port}/
DISABLE_SSH = true
OFFLINE_MODE = true
[database]
DB_TYPE = sqlite3
PATH = {work}/gitea.db
[repository]
ROOT = {work}/repositories
DEFAULT_BRANCH = main
[security]
INSTALL_LOCK = true
SECRET_KEY = {secret}
PASSWORD_HASH_ALGO = pbkdf2_v2
[webhook]
ALLOWED_HOST_LIST = loopback
[actions]
ENABLED = false
[indexer]
ISSUE_INDEXER_TYPE = db
[log]
LEVEL = warn
MODE = file
[cron.update_checker]
ENABLED = false
"""


class Gitea:
    """One server, with one user, who may do everything."""

    def __init__(self) -> None:
        self._home = _built()
        self.work = Path(tempfile.mkdtemp(prefix="bai-gitea-"))
        self._settings = self.work / "app.ini"
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        user = os.environ.get("USER") or "root"
        self._settings.write_text(
            _SETTINGS.format(
                user=user,
                work=self.work,
                static=self._home / "static",
                port=port,
                secret=secrets.token_hex(16),
            )
        )
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._run("migrate")
            self.start()
            mail = f"{USER}@cluster.example"
            self._run(
                "admin", "user", "create", "--admin", "--username", USER, "--password", PASSWORD,
                "--email", mail, "--must-change-password=false",
            )  # fmt: skip
            self.token = self.new_token("all")
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = subprocess.Popen(
            self._words("web"), env=self._environment(), start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                if requests.get(f"{self.url}/api/healthz", timeout=5).ok:
                    return
            except requests.RequestException:
                time.sleep(0.1)
        raise LabUnavailable(f"Gitea does not answer; it says {self._log()}")

    def stop(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.work, ignore_errors=True)

    def call(self, method: str, path: str, **body: Any) -> Any:
        """An answer of its API."""
        answer = requests.request(
            method, f"{self.url}/api/v1{path}", json=body or None,
            headers={"Authorization": f"token {self.token}"}, timeout=PATIENCE,
        )  # fmt: skip
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def new_token(self, scopes: str) -> str:
        """One of its user's: `all`, or `read:repository` alone."""
        name = ("--scopes", scopes, "--token-name", secrets.token_hex(4), "--raw")
        said = self._run("admin", "user", "generate-access-token", "--username", USER, *name)
        return said.split()[-1]

    def repository(self, name: str, *, private: bool = True) -> str:
        """A new repository; gives its address with a user and password in it."""
        self.call("POST", "/user/repos", name=name, private=private, default_branch="main")
        return f"{self.url.replace('://', f'://{USER}:{PASSWORD}@')}/{USER}/{name}.git"

    def hook(self, name: str, url: str, secret: str) -> None:
        """Have it tell of pushes, as its web page sets it up."""
        config = {"url": url, "content_type": "json", "secret": secret}
        self.call(
            "POST", f"/repos/{USER}/{name}/hooks", type="gitea", active=True, events=["push"], config=config
        )

    def until(self, method: str, path: str, **body: Any) -> Any:
        """The same, once it no longer answers that there is nothing: it takes in what is pushed a moment
        later."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return self.call(method, path, **body)
            except AssertionError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            self._words(*arguments), env=self._environment(), capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False,
        )  # fmt: skip
        if done.returncode:
            raise LabUnavailable(f"gitea {arguments[0]} says {done.stderr or done.stdout} {self._log()}")
        return done.stdout

    def _words(self, *arguments: str) -> list[str]:
        return [str(self._home / "gitea"), *arguments, "--config", str(self._settings)]

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"], "HOME": str(self.work), "USER": os.environ.get("USER") or "root",
            "GITEA_WORK_DIR": str(self.work), "GITEA_I_AM_BEING_UNSAFE_RUNNING_AS_ROOT": "true",
        }  # fmt: skip

    def _log(self) -> str:
        found = [path.read_text(errors="replace")[-500:] for path in self.work.glob("log/*.log")]
        return "; ".join(found)


def _built() -> Path:
    found = sorted(folder().glob("gitea-*/gitea"))
    if not found:
        raise LabUnavailable("Gitea is not built: scripts/gitea.sh does that")
    return found[-1].parent


@pytest.fixture(scope="session")
def gitea() -> Iterator[Gitea]:
    """Shared by all tests of a process."""
    yield from lent("forge", Gitea)
