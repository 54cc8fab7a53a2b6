"""A real Keycloak: an identity provider with a realm of two users, their groups, and clients for the panel.

    def test_something(keycloak: Keycloak) -> None:
        keycloak.issuer

`scripts/keycloak.sh` fetches it, and tests that ask for it are skipped by name until that was done.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.harness.labs import off_the_clock
from tests.harness.ports import free_port
from tests.lab.cache import LabUnavailable, folder, forget_unused, kept
from tests.lab.lent import lent
from tests.waiting import soon

PUBLIC, CONFIDENTIAL, SECRET = "bai", "bai-confidential", "s:e c/r+e%t"
"""Its clients, and the secret of the second one, which has what is written otherwise in a form."""
PATIENCE = 300.0
_TOP = Path(__file__).resolve().parents[2]
_SCRIPT = _TOP / "scripts" / "keycloak.sh"
_REALM = _TOP / "tests" / "data" / "keycloak" / "lab-realm.json"


class _Server:
    """A Keycloak that has what it knows in a folder, the realm of `tests/data/keycloak` at least."""

    def __init__(self, database: Path) -> None:
        """Raises LabUnavailable."""
        self.port = free_port()
        self.issuer = f"http://127.0.0.1:{self.port}/realms/lab"
        self._log = tempfile.TemporaryFile(prefix="bai-keycloak-")  # noqa: SIM115 - open as long as the process
        self._process = subprocess.Popen(
            [_SCRIPT, "start", str(self.port), str(database)], start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            with off_the_clock():
                self._wait()
        except BaseException:
            self.close()
            raise

    def end(self) -> None:
        """Once it has written down all that it knows. Raises LabUnavailable."""
        os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise LabUnavailable("Keycloak does not end") from None

    def close(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._log.close()

    def _answers(self) -> bool:
        with contextlib.suppress(requests.RequestException):
            return requests.get(f"{self.issuer}/.well-known/openid-configuration", timeout=5).ok
        return False

    def _wait(self) -> None:
        soon(lambda: self._process.poll() is not None or self._answers(), seconds=PATIENCE, pause=0.2)
        if self._process.poll() is None and self._answers():
            return
        self._log.seek(0)
        said = self._log.read().decode(errors="replace")[-500:]
        raise LabUnavailable(f"Keycloak does not answer; it says {said}")


class Keycloak(_Server):
    """One server, which goes on from what is kept of one before: that takes half as long as to begin with
    nothing."""

    def __init__(self) -> None:
        """Raises LabUnavailable."""
        if not list(folder().glob("keycloak-*/bin/kc.sh")):
            raise LabUnavailable("Keycloak is not there: scripts/keycloak.sh fetches it")
        if shutil.which("java") is None:
            raise LabUnavailable("java is missing: apt-get install default-jre-headless")
        before = kept(_name(), _begin)
        forget_unused(before, "keycloak-realm-*")
        self._database = tempfile.TemporaryDirectory(prefix="bai-keycloak-")
        try:
            shutil.copytree(before, self._database.name, dirs_exist_ok=True)
            super().__init__(Path(self._database.name))
        except BaseException:
            self._database.cleanup()
            raise

    def close(self) -> None:
        super().close()
        self._database.cleanup()


def _name() -> str:
    """Of what a server knows that has begun: the script says which version it is, and how it is started."""
    digest = hashlib.sha256(_SCRIPT.read_bytes() + _REALM.read_bytes())
    return f"keycloak-realm-{digest.hexdigest()[:16]}"


def _begin(draft: Path) -> None:
    draft.mkdir()
    with contextlib.closing(_Server(draft)) as server:
        server.end()


@pytest.fixture(scope="session")
def keycloak() -> Iterator[Keycloak]:
    """Shared by all tests of a process."""
    yield from lent("keycloak", Keycloak)
