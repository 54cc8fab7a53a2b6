"""What is proposed to a remote from elsewhere: heads of pull and merge requests, which it has beside its
branches.

They are kept in a repository of their own, which borrows the objects of the copy that is followed and gives
it none: what anybody proposes is nothing that a loop, or an order, finds by its name.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from pathlib import Path

from reconciler.gitops.remote import Remote, redact_url
from reconciler.sources.git_command import run_git
from schemas.files.git_objects import resolve_commit
from schemas.files.git_process import failure_reason
from schemas.problems.errors.git_remote import NoSuchRevision, RemoteUnreachable

INTERVAL = 15.0
"""Seconds for which what the remote said of one of them counts."""
TIMEOUT = 60.0
LARGEST = 1 << 30
"""Bytes that all of them together may take; then what is there is forgotten and fetched anew as it is asked
for."""
_PATTERNS = ("refs/pull/{}/head", "refs/merge-requests/{}/head")


class ProposedHeads:
    """Of one remote; `folder` is made when something is asked for. Thread-safe."""

    def __init__(self, remote: Remote, folder: Path) -> None:
        self.folder = folder
        self._remote = remote
        self._lock = threading.Lock()
        self._asked: dict[int, float] = {}

    def find(self, number: int) -> str:
        """The commit that a pull or merge request proposes now, which is then there. Raises NoSuchRevision,
        RemoteUnreachable."""
        with self._lock:
            now = time.monotonic()
            if now - self._asked.get(number, -INTERVAL) >= INTERVAL or not self._known(number):
                self._fetch(number)
                self._asked[number] = now
            return resolve_commit(self.folder, self._known(number))

    def _known(self, number: int) -> str:
        """Its ref, where it is here."""
        for pattern in _PATTERNS:
            ref = pattern.format(number)
            if self._git("show-ref", "--verify", "--quiet", ref).returncode == 0:
                return ref
        return ""

    def _fetch(self, number: int) -> None:
        self._prepare()
        listed = self._git("ls-remote", "--", self._remote.url, *(each.format(number) for each in _PATTERNS))
        if listed.returncode:
            raise self._unreachable(listed.stderr)
        refs = [line.partition("\t")[2] for line in listed.stdout.splitlines()]
        ref = next((each.format(number) for each in _PATTERNS if each.format(number) in refs), "")
        if not ref:
            hint = "a pull or merge request whose head the remote has"
            raise NoSuchRevision(remote=redact_url(self._remote.url), revision=f"#{number}", hint=hint)
        done = self._git(
            "fetch", "--quiet", "--force", "--no-tags", "--no-recurse-submodules", "--no-auto-gc",
            "--no-write-fetch-head", "--", self._remote.url, f"+{ref}:{ref}",
        )  # fmt: skip
        if done.returncode:
            # The copy that objects were borrowed of may have been made anew, without them.
            shutil.rmtree(self.folder, ignore_errors=True)
            raise self._unreachable(done.stderr)

    def _prepare(self) -> None:
        """An empty repository, where there is none or a full one."""
        try:
            if self.folder.is_dir() and _size_of(self.folder) > LARGEST:
                shutil.rmtree(self.folder)
                self._asked.clear()
            if not (self.folder / "HEAD").is_file():
                begun = run_git(
                    self._remote.login, self._remote.url, "init", "--quiet", "--bare", str(self.folder),
                    folder=None, timeout=TIMEOUT,
                )  # fmt: skip
                if begun.returncode:
                    raise self._unreachable(begun.stderr)
            borrowed = self.folder / "objects" / "info" / "alternates"
            borrowed.write_text(f"{self._remote.folder.absolute() / 'objects'}\n", encoding="utf-8")
        except OSError as error:
            raise self._unreachable(f"{self.folder} cannot be written: {error.strerror}") from error

    def _git(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_git(self._remote.login, self._remote.url, *arguments, folder=self.folder, timeout=TIMEOUT)

    def _unreachable(self, said: str) -> RemoteUnreachable:
        return RemoteUnreachable(remote=redact_url(self._remote.url), why=failure_reason(said))


def _size_of(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
