"""One document into git: written, checked with all others, committed by itself, pushed."""

from __future__ import annotations

import contextlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

from schemas.files.git_process import decoded, execute_git, failure_reason, git_lines
from schemas.loading.loader import load_directory
from schemas.problems.errors.command import AlreadyThere
from schemas.problems.errors.git_remote import NotPushed
from schemas.repository.declared_stores import NO_OWNER, OwnerStores

MAX_PUSH_ATTEMPTS = 5
"""Pushes that are tried when somebody else pushes in between."""
_PUSH_RACE_MESSAGES = ("[rejected]", "cannot lock ref", "failed to update ref")
"""What git says when somebody else has pushed first, or does at this very moment."""


@dataclass(frozen=True, slots=True)
class SubmitResult:
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
            self._delete_file()
            raise

    def submit(self, message: str, *, branch: str = "", push: bool = True) -> SubmitResult:
        """Commit this file and nothing else, on what is checked out, or on a new `branch` that is only
        pushed. Raises NotPushed, having taken the commit and the file back."""
        try:
            self._git("add", "--", str(self.path))
            self._git("commit", "--quiet", "--message", message, "--only", "--", str(self.path))
        except BaseException:
            self._run("reset", "--quiet", "--", str(self.path))
            self._delete_file()
            raise
        try:
            pushed = self._push(branch) if push else ""
        except BaseException:
            self._undo_commit()
            raise
        commit = self._git("rev-parse", "HEAD")
        if branch:
            # It is on its branch; here, nothing has changed.
            self._undo_commit()
        return SubmitResult(commit, pushed)

    def submit_removal(self, message: str, *, push: bool = True) -> SubmitResult:
        """Remove the file again, by a commit of its own. Raises NotPushed."""
        if not git_lines(self.directory, "ls-files", "--", str(self.path)):
            # No repository, or none that has it: before its first commit, files are only files.
            self._delete_file()
            return SubmitResult("")
        self._git("rm", "--quiet", "--", str(self.path))
        self._git("commit", "--quiet", "--message", message, "--only", "--", str(self.path))
        pushed = self._push("") if push else ""
        return SubmitResult(self._git("rev-parse", "HEAD"), pushed)

    def _push(self, branch: str) -> str:
        """Where it went; empty where there is no remote to go to."""
        remote, upstream = self._upstream()
        if not remote and branch:
            why = "there is no remote that the branch could be pushed to"
            raise NotPushed(remote="git", why=why, hint="without --branch it is applied from here")
        if not remote:
            return ""
        target = branch or upstream
        for _ in range(MAX_PUSH_ATTEMPTS):
            done = self._run("push", "--quiet", remote, f"HEAD:refs/heads/{target}")
            if done.returncode == 0 or self._is_pushed(remote, target):
                return f"{remote}/{target}"
            if branch or not any(words in done.stderr for words in _PUSH_RACE_MESSAGES):
                break
            # Somebody else was faster: on top of what is there now.
            again = self._run("pull", "--quiet", "--rebase", "--autostash", remote, target)
            if again.returncode:
                self._run("rebase", "--abort")
                raise NotPushed(remote=remote, why=failure_reason(again.stderr))
        raise NotPushed(remote=remote, why=failure_reason(done.stderr), hint="--no-push keeps it here")

    def _is_pushed(self, remote: str, target: str) -> bool:
        """Whether our commit is there although the answer never came."""
        there = self._run("ls-remote", remote, f"refs/heads/{target}").stdout.partition("\t")[0]
        return bool(there) and there == self._run("rev-parse", "HEAD").stdout.strip()

    def _upstream(self) -> tuple[str, str]:
        """The remote, and the branch there that what is checked out goes to."""
        head = git_lines(self.directory, "symbolic-ref", "--quiet", "--short", "HEAD")
        branch = head[0] if head else "main"
        remote = git_lines(self.directory, "config", f"branch.{branch}.remote")
        merge = git_lines(self.directory, "config", f"branch.{branch}.merge")
        if remote and merge:
            return remote[0], merge[0].removeprefix("refs/heads/")
        remotes = git_lines(self.directory, "remote") or []
        return ("origin" if "origin" in remotes else remotes[0] if remotes else ""), branch

    def _undo_commit(self) -> None:
        """Take back the newest commit, which is ours: below it may be what others have pushed meanwhile."""
        if git_lines(self.directory, "rev-parse", "--verify", "--quiet", "HEAD~1"):
            self._git("reset", "--quiet", "--soft", "HEAD~1")
        else:
            self._git("update-ref", "-d", "HEAD")
        self._run("rm", "--quiet", "--cached", "--ignore-unmatch", "--", str(self.path))
        self._delete_file()

    def _delete_file(self) -> None:
        self.path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # Somebody else has put something there.
            for folder in self._folders:
                folder.rmdir()

    def _git(self, *arguments: str) -> str:
        done = self._run(*arguments)
        if done.returncode:
            raise NotPushed(remote="git", why=failure_reason(done.stderr))
        return done.stdout.strip()

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return decoded(execute_git(*arguments, folder=self.directory, as_user=True))
