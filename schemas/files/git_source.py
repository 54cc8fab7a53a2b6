"""The files of one git commit, read from the object store: no checkout, no index, no working directory."""

from __future__ import annotations

import os
import posixpath
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from git import GitCommandError, InvalidGitRepositoryError, NoSuchPathError, Repo
from git.exc import GitError

from schemas.files.sources import LARGEST_DATA, SourceFile, escapes_root, is_document_file, refused_file
from schemas.files.yaml_reader import LARGEST_FILE
from schemas.problems.errors.repository import CannotRead
from schemas.problems.text import printable

_LINK = "120000"
_PLAIN = ("100644", "100755")
_ITSELF = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": os.devnull}
"""A commit's own documents, whatever `refs/replace` and grafts would put in their place."""


@dataclass(frozen=True, slots=True)
class _Entry:
    path: str
    mode: str
    blob: str
    size: int


class CommitSource:
    """The files below `subpath` of a commit. Raises CannotRead without such a repository or commit."""

    def __init__(self, git_dir: str | os.PathLike[str], revision: str, subpath: str = "") -> None:
        self._repo = _open(git_dir)
        self.commit = self._resolve(revision)
        folder = posixpath.normpath(subpath).strip("/") if subpath else ""
        self._subpath = "" if folder == "." else folder
        self.where = f"commit {self.commit[:12]}" + (f" ({self._subpath})" if self._subpath else "")
        self._entries = {entry.path: entry for entry in self._list()}

    def files(self) -> Iterator[SourceFile]:
        wanted = [entry for entry in self._entries.values() if self._is_wanted(entry)]
        blobs = self._blobs([e for e in wanted if e.mode in _PLAIN and e.size <= LARGEST_FILE])
        for entry in wanted:
            if entry.mode == _LINK:
                yield from self._link(entry)
            elif entry.size > LARGEST_FILE:
                yield refused_file(
                    entry.path,
                    "BAI-V002",
                    f"{entry.size} bytes; a file holds at most {LARGEST_FILE}",
                    "split it",
                )
            elif entry.blob in blobs:
                yield SourceFile(entry.path, blobs[entry.blob])

    def data(self, path: str) -> bytes:
        entry = self._entries.get(posixpath.normpath(path))
        if escapes_root(path) or entry is None or entry.mode not in _PLAIN:
            raise CannotRead(what=printable(path), why=f"there is no such file in {self.where}")
        if entry.size > LARGEST_DATA:
            raise CannotRead(what=printable(path), why=f"it has {entry.size} bytes")
        return self._blobs([entry])[entry.blob]

    def _is_wanted(self, entry: _Entry) -> bool:
        folders = entry.path.split("/")[:-1]
        hidden = any(folder.startswith(".") for folder in folders)
        return not hidden and (is_document_file(entry.path.rpartition("/")[2]) or entry.mode == _LINK)

    def _link(self, entry: _Entry) -> Iterator[SourceFile]:
        target = self._blobs([entry])[entry.blob].decode("utf-8", "replace")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(entry.path), target))
        folder = any(other.startswith(path + "/") for other in self._entries)
        leaves = target.startswith("/") or escapes_root(path)
        if not (folder or is_document_file(posixpath.basename(entry.path)) or leaves):
            return
        if leaves:
            yield refused_file(
                entry.path, "BAI-V004", "a symbolic link that leaves the repository", "copy what it points to"
            )
        elif not folder and path not in self._entries:
            yield refused_file(entry.path, "BAI-V001", "a symbolic link to nothing")
        elif not folder and not is_document_file(posixpath.basename(path)):
            yield refused_file(
                entry.path,
                "BAI-V004",
                "a symbolic link to a file that is not read",
                "rename the file to *.yaml",
            )

    def _resolve(self, revision: str) -> str:
        try:
            return str(self._repo.git.rev_parse("--verify", "--end-of-options", f"{revision}^{{commit}}"))
        except (GitCommandError, ValueError):
            raise CannotRead(what=f"revision {printable(revision)}", why="there is no such commit") from None

    def _list(self) -> Iterator[_Entry]:
        tree = f"{self.commit}:{self._subpath}"
        try:
            listing = self._repo.git.ls_tree("-r", "-z", "-l", "--full-tree", tree, stdout_as_string=False)
        except GitCommandError:
            raise CannotRead(
                what=printable(self._subpath), why=f"there is no such folder in {self.commit[:12]}"
            ) from None
        for line in bytes(listing).split(b"\0"):
            if line:
                facts, _, path = line.partition(b"\t")
                mode, kind, blob, size = facts.split()
                if kind != b"blob":
                    continue
                if not size.isdigit():
                    raise CannotRead(what=self.where, why=f"object {blob.decode()} is missing or damaged")
                yield _Entry(os.fsdecode(path), mode.decode(), blob.decode(), int(size))

    def _blobs(self, entries: list[_Entry]) -> dict[str, bytes]:
        """The bytes of blobs by hash, through one `git cat-file`."""
        names = sorted({entry.blob for entry in entries})
        if not names:
            return {}
        asked = "".join(f"{name}\n" for name in names).encode()
        answer = self._cat_file(asked)
        blobs: dict[str, bytes] = {}
        at = 0
        while at < len(answer):
            end = answer.index(b"\n", at)
            name, *_, size = answer[at:end].split()
            if not size.isdigit():
                raise CannotRead(what=self.where, why=f"object {name.decode()} is {size.decode()}")
            blobs[name.decode()] = answer[end + 1 : end + 1 + int(size)]
            at = end + 2 + int(size)
        return blobs

    def _cat_file(self, asked: bytes) -> bytes:

        command = [
            str(self._repo.git.GIT_PYTHON_GIT_EXECUTABLE),
            "--git-dir",
            str(self._repo.git_dir),
            "cat-file",
            "--batch",
        ]
        done = subprocess.run(
            command, input=asked, capture_output=True, check=False, env={**os.environ, **_ITSELF}
        )
        if done.returncode != 0:
            raise CannotRead(what=self.where, why=done.stderr.decode("utf-8", "replace").strip()[:200])
        return done.stdout


def _open(git_dir: str | os.PathLike[str]) -> Repo:
    try:
        repository = Repo(git_dir, search_parent_directories=True)
    except (InvalidGitRepositoryError, NoSuchPathError):
        raise CannotRead(what=printable(str(git_dir)), why="it is not a git repository") from None
    except GitError as error:
        raise CannotRead(what=printable(str(git_dir)), why=printable(str(error))[:200]) from None
    repository.git.update_environment(**_ITSELF)
    return repository
