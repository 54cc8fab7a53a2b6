"""A few files into git: written, checked with all other documents, committed by themselves, pushed."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from reconciler.gitops.remote import PUSH_RACE
from schemas.files.git_process import decoded, execute_git, failure_reason, git_lines
from schemas.loading.loader import load_directory
from schemas.problems.errors.command import AlreadyThere, CommandError
from schemas.problems.errors.git_remote import NotPushed
from schemas.problems.text import printable
from schemas.repository.declared_stores import NO_OWNER, OwnerStores

MAX_PUSH_ATTEMPTS = 5
"""Pushes that are tried when somebody else pushes in between."""


@dataclass(frozen=True, slots=True)
class SubmitResult:
    """What became of it: the commit, and where it was pushed to (`origin/main`; empty: nowhere)."""

    commit: str
    pushed: str = ""


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file below a submission's folder. `before` and `after`: what is in it; None: there is no file."""

    name: str
    before: bytes | None
    after: bytes | None


def new_file(directory: Path, name: str, text: str) -> FileChange:
    """A file that is not there yet. Raises AlreadyThere."""
    if (directory / name).exists():
        raise AlreadyThere(path=name, hint="choose another --name")
    return FileChange(name, None, text.encode())


def removed_file(directory: Path, name: str) -> FileChange:
    """A file that goes. Raises OSError when it cannot be read."""
    return FileChange(name, (directory / name).read_bytes(), None)


class Submission:
    """Files below `directory` of the repository that it is in. A file that is changed must be as it is
    committed, where there is git."""

    def __init__(self, directory: Path, changes: Sequence[FileChange], owner: OwnerStores = NO_OWNER) -> None:
        self._owner = owner
        self.directory = directory
        self.changes = tuple(changes)

    @property
    def names(self) -> str:
        return ", ".join(change.name for change in self.changes)

    @property
    def in_git(self) -> bool:
        """Whether there is a repository that knows the files that are changed."""
        if not self.changes:
            return False
        return bool(git_lines(self.directory, "--literal-pathspecs", "ls-files", "--", *self._paths))

    def write(self, *, check: bool = True) -> None:
        """Change the files. Raises CommandError where somebody's own changes of them are not committed yet,
        InvalidRepository (with `check`) and OSError, leaving all as it was, when the documents cannot be used
        then, or a file cannot be written."""
        self._refuse_uncommitted()
        paths = [self.directory / change.name for change in self.changes]
        done = 0
        try:
            for path, change in zip(paths, self.changes, strict=True):
                path.parent.mkdir(parents=True, exist_ok=True)
                _put(path, change.after)
                done += 1
            self._remove_empty_folders()
            if check:
                load_directory(self.directory, self._owner)
        except BaseException:
            self._put_back(self.changes[:done])
            raise

    def _refuse_uncommitted(self) -> None:
        paths = [str(self.directory / change.name) for change in self.changes if change.before is not None]
        if not paths or not git_lines(self.directory, "rev-parse", "--verify", "--quiet", "HEAD"):
            return
        said = git_lines(self.directory, "--literal-pathspecs", "status", "--porcelain", "--", *paths)
        if said:
            why = f"{printable(said[0][3:])} has changes that are not committed, which would go with this"
            raise CommandError(why=why, hint="commit them, or put them away, and try again")

    def submit(self, message: str, *, branch: str = "", push: bool = True) -> SubmitResult:
        """Commit these files and nothing else, on what is checked out, or on a new `branch` that is only
        pushed. Raises NotPushed, having taken the commit and the changes back."""
        try:
            self._git("add", "--all", "--", *self._paths)
            self._git("commit", "--quiet", "--message", message, "--only", "--", *self._paths)
        except BaseException:
            self._run("reset", "--quiet", "--", *self._paths)
            self._put_back(self.changes)
            raise
        ours = self._newest_commit()
        try:
            pushed = self._push(branch) if push else ""
        except BaseException:
            self._undo_commit(ours)
            raise
        commit = self._git("rev-parse", "HEAD")
        if branch:
            # It is on its branch; here, nothing has changed.
            self._undo_commit(ours)
        return SubmitResult(commit, pushed)

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
            if branch or not any(words in done.stderr for words in PUSH_RACE):
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

    def _newest_commit(self) -> str:
        """What a commit keeps when it is put on top of others."""
        return self._git("log", "-1", "--format=%ae %at %s")

    def _undo_commit(self, ours: str) -> None:
        """Take back the newest commit, which is ours: below it may be what others have pushed meanwhile. It
        is not ours where somebody else has pushed the same, and git left ours out."""
        if self._newest_commit() != ours:
            return
        if git_lines(self.directory, "rev-parse", "--verify", "--quiet", "HEAD~1"):
            self._git("reset", "--quiet", "--soft", "HEAD~1")
        else:
            self._git("update-ref", "-d", "HEAD")
        for change in self.changes:
            path = self.directory / change.name
            if change.before is None:
                self._run("rm", "--quiet", "--cached", "--ignore-unmatch", "--", str(path))
                path.unlink(missing_ok=True)
            else:
                self._git("checkout", "--quiet", "HEAD", "--", str(path))
        self._remove_empty_folders()

    def _put_back(self, changes: Sequence[FileChange]) -> None:
        for change in changes:
            path = self.directory / change.name
            if change.before is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            _put(path, change.before)
        self._remove_empty_folders()

    def _remove_empty_folders(self) -> None:
        """As git does when it takes the last file out of one."""
        for change in self.changes:
            for name in PurePath(change.name).parents:
                folder = self.directory / name
                try:
                    if folder != self.directory:
                        folder.rmdir()
                except OSError:
                    break  # Something else is in it, or it is gone already.

    @property
    def _paths(self) -> list[str]:
        return [str(self.directory / change.name) for change in self.changes]

    def _git(self, *arguments: str) -> str:
        done = self._run(*arguments)
        if done.returncode:
            raise NotPushed(remote="git", why=failure_reason(done.stderr))
        return done.stdout.strip()

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        # A file's name is no pattern that means others, too.
        words = ("--literal-pathspecs", *arguments)
        return decoded(execute_git(*words, folder=self.directory, as_user=True))


def _put(path: Path, data: bytes | None) -> None:
    """What there is stays until all of what is to be there instead is on the disk."""
    if data is None:
        path.unlink(missing_ok=True)
    elif not path.exists():
        # Never through a link that somebody has laid there.
        with path.open("xb") as file, _gone_on_failure(path):
            file.write(data)
            file.flush()
    else:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".bai-")
        draft = Path(name)
        with _gone_on_failure(draft):
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            shutil.copymode(path, draft)
            draft.replace(path)


@contextlib.contextmanager
def _gone_on_failure(path: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        raise
