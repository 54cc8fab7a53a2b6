"""One document into git: written, checked with all others, committed by itself, pushed."""

from __future__ import annotations

import contextlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

from reconciler.sources.git import environment, said
from schemas.loading.loader import load_directory
from schemas.problems.errors import AlreadyThere, NotPushed
from schemas.repository.declared_stores import NO_OWNER, OwnerStores

TRIES = 5
"""Pushes that are tried when somebody else pushes in between."""
PATIENCE = 120.0
_BEHIND = ("[rejected]", "cannot lock ref", "failed to update ref")
"""What git says when somebody else has pushed first, or does at this very moment."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """What became of it: the commit, and where it was pushed to (`origin/main`; empty: nowhere)."""

    commit: str
    pushed: str = ""


class Submission:
    """A file below `directory` of the repository that it is in. Raises AlreadyThere when there is one."""

    def __init__(self, directory: Path, name: str, text: str, owner: OwnerStores = NO_OWNER) -> None:
        self._owner = owner
        self.directory = directory
        self.path = directory / name
        self._text = text
        self._folders: list[Path] = []
        """Those that were made for it, the innermost first."""
        if self.path.exists():
            raise AlreadyThere(path=name, hint="choose another --name")

    def write(self) -> None:
        """Write it. Raises InvalidRepository and OSError, leaving nothing, when the documents cannot be used
        then, or it cannot be written."""
        self._folders = [folder for folder in self.path.parents if not folder.exists()]
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(self._text, encoding="utf-8")
            load_directory(self.directory, self._owner)
        except BaseException:
            self._unwrite()
            raise

    def submit(self, message: str, *, branch: str = "", push: bool = True) -> Submitted:
        """Commit this file and nothing else, on what is checked out, or on a new `branch` that is only
        pushed. Raises NotPushed, having taken the commit and the file back."""
        try:
            self._git("add", "--", str(self.path))
            self._git("commit", "--quiet", "--message", message, "--only", "--", str(self.path))
        except BaseException:
            self._run("reset", "--quiet", "--", str(self.path))
            self._unwrite()
            raise
        try:
            pushed = self._push(branch) if push else ""
        except BaseException:
            self._undo()
            raise
        commit = self._git("rev-parse", "HEAD")
        if branch:
            # It is on its branch; here, nothing has changed.
            self._undo()
        return Submitted(commit, pushed)

    def take_out(self, message: str, *, push: bool = True) -> Submitted:
        """Remove the file again, by a commit of its own. Raises NotPushed."""
        if not said(self.directory, "ls-files", "--", str(self.path)):
            # No repository, or none that has it: before its first commit, files are only files.
            self._unwrite()
            return Submitted("")
        self._git("rm", "--quiet", "--", str(self.path))
        self._git("commit", "--quiet", "--message", message, "--only", "--", str(self.path))
        pushed = self._push("") if push else ""
        return Submitted(self._git("rev-parse", "HEAD"), pushed)

    def _push(self, branch: str) -> str:
        """Where it went; empty where there is no remote to go to."""
        remote, upstream = self._upstream()
        if not remote and branch:
            why = "there is no remote that the branch could be pushed to"
            raise NotPushed(remote="git", why=why, hint="without --branch it is applied from here")
        if not remote:
            return ""
        target = branch or upstream
        for _ in range(TRIES):
            done = self._run("push", "--quiet", remote, f"HEAD:refs/heads/{target}")
            if done.returncode == 0 or self._arrived(remote, target):
                return f"{remote}/{target}"
            if branch or not any(words in done.stderr for words in _BEHIND):
                break
            # Somebody else was faster: on top of what is there now.
            again = self._run("pull", "--quiet", "--rebase", "--autostash", remote, target)
            if again.returncode:
                self._run("rebase", "--abort")
                raise NotPushed(remote=remote, why=_reason(again.stderr))
        raise NotPushed(remote=remote, why=_reason(done.stderr), hint="--no-push keeps it here")

    def _arrived(self, remote: str, target: str) -> bool:
        """Whether our commit is there although the answer never came."""
        there = self._run("ls-remote", remote, f"refs/heads/{target}").stdout.partition("\t")[0]
        return bool(there) and there == self._run("rev-parse", "HEAD").stdout.strip()

    def _upstream(self) -> tuple[str, str]:
        """The remote, and the branch there that what is checked out goes to."""
        head = said(self.directory, "symbolic-ref", "--quiet", "--short", "HEAD")
        branch = head[0] if head else "main"
        remote = said(self.directory, "config", f"branch.{branch}.remote")
        merge = said(self.directory, "config", f"branch.{branch}.merge")
        if remote and merge:
            return remote[0], merge[0].removeprefix("refs/heads/")
        remotes = said(self.directory, "remote") or []
        return ("origin" if "origin" in remotes else remotes[0] if remotes else ""), branch

    def _undo(self) -> None:
        """Take back the newest commit, which is ours: below it may be what others have pushed meanwhile."""
        if said(self.directory, "rev-parse", "--verify", "--quiet", "HEAD~1"):
            self._git("reset", "--quiet", "--soft", "HEAD~1")
        else:
            self._git("update-ref", "-d", "HEAD")
        self._run("rm", "--quiet", "--cached", "--ignore-unmatch", "--", str(self.path))
        self._unwrite()

    def _unwrite(self) -> None:
        self.path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # Somebody else has put something there.
            for folder in self._folders:
                folder.rmdir()

    def _git(self, *arguments: str) -> str:
        done = self._run(*arguments)
        if done.returncode:
            raise NotPushed(remote="git", why=_reason(done.stderr))
        return done.stdout.strip()

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["git", "-C", str(self.directory), *arguments]
        try:
            return subprocess.run(
                command, env={**environment(), "GIT_TERMINAL_PROMPT": "0"}, capture_output=True, text=True,
                errors="replace", stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 124, "", f"no answer within {PATIENCE:g} s")


def _reason(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    found = next((line for line in lines if line.startswith(("fatal:", "error:", "!"))), "")
    return (
        (found or (lines[-1] if lines else "git does not say"))
        .removeprefix("fatal: ")
        .removeprefix("error: ")
    )
