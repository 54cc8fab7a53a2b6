"""A commit made in a bare repository, of another one and some files: no work tree, no index of others."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from reconciler.gitops.submit import FileChange
from reconciler.proposals.values import Person, Proposal
from schemas.files.git_process import decoded, execute_git, failure_reason
from schemas.problems.errors.git_remote import NotPushed, StaleProposal
from schemas.problems.text import printable

_FILE_MODES = ("100644", "100755")


class CommitWriter:
    """`copy`: the bare repository; `subpath`: the documents' folder in it; `committer`: bai itself."""

    def __init__(self, copy: Path, subpath: str, committer: Person) -> None:
        self._copy, self._subpath, self._committer = copy, subpath.strip("/"), committer

    def write(self, proposal: Proposal, parent: str) -> str:
        """The commit on `parent`; nobody refers to it yet. Raises StaleProposal where one of its files has
        changed since its base, NotPushed."""
        entries = {change: self._entry(parent, change.name) for change in proposal.changes}
        if parent != proposal.base:
            for change, entry in entries.items():
                if entry != self._entry(proposal.base, change.name):
                    raise StaleProposal(path=printable(change.name))
        with tempfile.TemporaryDirectory(prefix="bai-proposal-") as folder:
            index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
            self._git("read-tree", parent, environment=index)
            lines = b"".join(self._index_line(change, mode) for change, (mode, _) in entries.items())
            self._git("update-index", "-z", "--index-info", data=lines, environment=index)
            tree = self._git("write-tree", environment=index)
        if tree == self._git("rev-parse", f"{parent}^{{tree}}"):
            raise NotPushed(remote="git", why="it changes nothing")
        return self._git(
            "commit-tree", tree, "-p", parent, "-F", "-",
            data=proposal.message.encode(), environment=_who(proposal.author, self._committer),
        )  # fmt: skip

    def _index_line(self, change: FileChange, mode: str) -> bytes:
        path = self._path(change.name).encode()
        if change.after is None:
            return b"0 " + b"0" * 40 + b"\t" + path + b"\0"
        # `--stdin` with nothing to read is an empty file, too.
        blob = self._git("hash-object", "-w", "--stdin", data=change.after)
        return f"{mode or _FILE_MODES[0]} {blob}\t".encode() + path + b"\0"

    def _entry(self, commit: str, name: str) -> tuple[str, str]:
        """Mode and blob; empty where there is none. Raises NotPushed for what is no plain file."""
        said = self._git("--literal-pathspecs", "ls-tree", "-z", commit, "--", self._path(name))
        if not said:
            return "", ""
        mode, _, blob = said.partition("\t")[0].split()
        if mode not in _FILE_MODES:
            raise NotPushed(remote="git", why=f"{printable(name)} is no plain file")
        return mode, blob

    def _path(self, name: str) -> str:
        return f"{self._subpath}/{name}" if self._subpath else name

    def _git(self, *arguments: str, data: bytes = b"", environment: Mapping[str, str] | None = None) -> str:
        where = ("--git-dir", str(self._copy))
        quiet = {"GIT_CONFIG_NOSYSTEM": "1", **(environment or {})}
        done = decoded(execute_git(*where, *arguments, data=data, environment=quiet))
        if done.returncode:
            raise NotPushed(remote="git", why=printable(failure_reason(done.stderr)))
        return done.stdout.strip("\n")


def _who(author: Person, committer: Person) -> Mapping[str, str]:
    return {
        "GIT_AUTHOR_NAME": author.name,
        "GIT_AUTHOR_EMAIL": author.address,
        "GIT_COMMITTER_NAME": committer.name,
        "GIT_COMMITTER_EMAIL": committer.address,
    }
