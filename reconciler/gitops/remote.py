"""A bare copy of a git remote, kept up to date by git itself.

The copy is made anew when it is damaged; a fetch that fails changes nothing. Nothing of the repository is
ever run: no hooks, no submodules, no working tree. A remote that says the same as last time is asked that one
question and nothing more.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reconciler.sources.git_command import GitLogin, run_git
from schemas.files.git_process import TIMEOUT, failure_reason
from schemas.problems.errors.git_remote import NoSuchRevision, RemoteUnreachable
from schemas.problems.text import printable

MAX_LOOSE_OBJECTS = 4000
"""Objects in files of their own, more or less, from which on they are packed together."""
MAX_PACKS = 50
"""The same for packs: a fetch makes one of what it brings."""
_BRANCH_NAME = re.compile(r"[^-~^:?*\[\\\s@][^~^:?*\[\\\s]*")
"""What may be the name of a branch: no expression of git's."""
_REF_NAMESPACE = "refs/bai"
_SHALLOW_WARNING = "because shallow roots are not allowed"
"""What git only warns of: branches and tags that it leaves as they were."""
PUSH_RACE = ("[rejected]", "cannot lock ref", "failed to update ref", "stale info")
"""What git says when somebody else has pushed first, or does at this very moment."""
_OWN_COPY = Path()


@dataclass(frozen=True, slots=True)
class PushAnswer:
    """What a remote says to a push. `lost_race`: somebody else was there first; `why` it was refused."""

    pushed: bool
    lost_race: bool = False
    why: str = ""


class Remote:
    """`url` as git takes it; `folder` is where the copy is (or will be)."""

    def __init__(self, url: str, folder: Path, login: GitLogin | None = None) -> None:
        self.url = url
        self.folder = folder
        self.login = login or GitLogin()
        self._refs = ""
        """What the remote said of its branches and tags before the copy was brought up to date last."""
        self._resolved: dict[str, str] = {}
        """Name → commit, as long as it says the same."""

    def fetch(self, ref: str, *, timeout: float = TIMEOUT) -> str:
        """Bring the copy up to date; gives the commit that `ref` names there: a branch, a tag, or the full
        name of a commit. Raises RemoteUnreachable, NoSuchRevision; what was there before is then there
        still."""
        with self._locked():
            heads = self._list_refs(timeout)
            if heads != self._refs or not (self.folder / "HEAD").is_file():
                self._update_or_clone(timeout)
                self._refs, self._resolved = heads, {}
            # Before anybody else fetches: what a branch was would stand in for what it has become.
            if ref not in self._resolved:
                self._resolved[ref] = self._resolve_or_repair(ref, heads, timeout)
            return self._resolved[ref]

    def repair(self, *, timeout: float = TIMEOUT) -> bool:
        """Whether the copy was damaged; then it has been made anew. Raises RemoteUnreachable."""
        with self._locked():
            return self._repair_copy(timeout)

    def resolve(self, ref: str) -> str:
        """What the copy has under this name. Raises NoSuchRevision."""
        if _is_commit_id(ref) and ref in self._resolved:
            return ref
        if _BRANCH_NAME.fullmatch(ref) and ".." not in ref:
            for name in (f"refs/heads/{ref}", f"refs/tags/{ref}", ref if _is_commit_id(ref) else ""):
                done = self._git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}") if name else None
                if done is not None and done.returncode == 0:
                    found = done.stdout.strip()
                    self._resolved[found] = found
                    return found
        hint = "name a branch, a tag, or the full name of a commit"
        raise NoSuchRevision(remote=redact_url(self.url), revision=ref, hint=hint)

    def default_branch(self) -> str:
        """What the remote calls its main branch; what it was when it cannot be asked. Raises
        RemoteUnreachable."""
        done = self._git("ls-remote", "--symref", "--", self.url, "HEAD", folder=None)
        known = self.folder.with_name(f"{self.folder.name}.main")
        if done.returncode:
            with contextlib.suppress(OSError):
                return known.read_text(encoding="utf-8")
            raise self._unreachable(done.stderr)
        first = done.stdout.partition("\n")[0].split()
        found = first[1].removeprefix("refs/heads/") if first[:1] == ["ref:"] else "main"
        draft = known.with_name(f".{known.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            known.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(found, encoding="utf-8")
            draft.replace(known)
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        return found

    def descends_from(self, commit: str, ancestor: str) -> bool:
        """Whether `ancestor` is in the history of `commit`; False also when it is not known any more. Raises
        RemoteUnreachable when that cannot be found out."""
        done = self._git("merge-base", "--is-ancestor", ancestor, commit)
        if done.returncode not in (0, 1) and self.has_commit(ancestor) and self.has_commit(commit):
            raise self._unreachable(done.stderr)
        return done.returncode == 0

    def has_commit(self, commit: str) -> bool:
        return self._git("cat-file", "-e", f"{commit}^{{commit}}").returncode == 0

    def has_branch(self, name: str) -> bool:
        """Whether the copy knows it: no tag and no commit of this name."""
        return self._git("rev-parse", "--verify", "--quiet", f"refs/heads/{name}").returncode == 0

    def push(self, commit: str, branch: str, *, new: bool) -> PushAnswer:
        """A commit of the copy to a branch: one that is not there yet (`new`), or that it rests on."""
        target = f"refs/heads/{branch}"
        # A lease on nothing: the branch must not be there.
        lease = (f"--force-with-lease={target}:",) if new else ()
        done = self._git("push", "--porcelain", *lease, "--", self.url, f"{commit}:{target}")
        if done.returncode == 0 or self._is_at(commit, target):
            return PushAnswer(True)
        said = f"{done.stdout}\n{done.stderr}"
        return PushAnswer(False, any(words in said for words in PUSH_RACE), self._refusal(said))

    def _is_at(self, commit: str, target: str) -> bool:
        """Whether it is there although the answer never came."""
        said = self._git("ls-remote", "--", self.url, target, folder=None)
        return said.returncode == 0 and said.stdout.partition("\t")[0] == commit

    def _refusal(self, said: str) -> str:
        """What the remote says itself, else git's reason, without what may be a password."""
        told = [
            line.removeprefix("remote:").strip() for line in said.splitlines() if line.startswith("remote:")
        ]
        rejected = [line.rpartition("[")[2] for line in said.splitlines() if line.startswith("!")]
        words = [*filter(None, told[:4]), *(f"[{line}" for line in rejected[:1])]
        found = "; ".join(words) or failure_reason(said)
        return printable(found.replace(self.url, redact_url(self.url)))[:500]

    def keep_ref(self, commit: str, name: str) -> None:
        """So that it stays, whatever becomes of the branches, until another one is kept by this name."""
        self._git("update-ref", f"{_REF_NAMESPACE}/{name}", commit)

    def pack_objects(self, *, loose: int = MAX_LOOSE_OBJECTS, packs: int = MAX_PACKS) -> None:
        """Pack what came in many small pieces. Nothing is forgotten: somebody may go back to it."""
        if not _has_many_pieces(self.folder / "objects", loose, packs):
            return
        limits = ("-c", f"gc.auto={loose}", "-c", f"gc.autoPackLimit={packs}")
        settings = ("-c", "gc.autoDetach=false", "-c", "gc.pruneExpire=never")
        self._git(*limits, *settings, "gc", "--auto", "--quiet")

    # The copy

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One at a time, of all threads and processes that use this copy. What the place of the copy does not
        take is the remote's failure, too: nothing can be fetched."""
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            with self.folder.with_name(f"{self.folder.name}.lock").open("w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                self._remove_leftovers()
                yield
        except OSError as error:
            why = f"its copy {self.folder} cannot be written: {(error.strerror or str(error)).lower()}"
            raise RemoteUnreachable(remote=redact_url(self.url), why=why) from error

    def _remove_leftovers(self) -> None:
        """What runs left that were killed while they made a new copy; the old one first, if it is on its
        way."""
        for place in self.folder.parent.glob(f"{self._draft_prefix}*"):
            if not self.folder.exists() and (place / "old").is_dir():
                (place / "old").rename(self.folder)
            shutil.rmtree(place, ignore_errors=True)

    @property
    def _draft_prefix(self) -> str:
        return f".new-{self.folder.name}-"

    def _update_or_clone(self, timeout: float) -> None:
        if not (self.folder / "HEAD").is_file():
            self._clone_anew(timeout)
            return
        try:
            self._fetch_into(self.folder, timeout)
            self.pack_objects()
        except _Damaged:
            self._clone_anew(timeout)

    def _repair_copy(self, timeout: float) -> bool:
        if self._is_intact("--no-dangling", timeout=timeout):
            return False
        self._clone_anew(timeout)
        return True

    def _clone_anew(self, timeout: float) -> None:
        """A new copy, filled in a place beside and put where it belongs in one step."""
        place = Path(tempfile.mkdtemp(dir=self.folder.parent, prefix=self._draft_prefix))
        try:
            made = place / "copy"
            begun = self._git("init", "--quiet", "--bare", str(made), folder=None)
            if begun.returncode:
                raise self._unreachable(begun.stderr)
            self._fetch_into(made, timeout)
            if self.folder.exists():
                # What nobody refers to any more at the remote may still be whole here.
                ours = f"+{_REF_NAMESPACE}/*:{_REF_NAMESPACE}/*"
                self._git("fetch", "--quiet", "--no-auto-gc", str(self.folder), ours, folder=made)
                self.folder.rename(place / "old")
            made.rename(self.folder)
        except _Damaged:
            raise RemoteUnreachable(remote=redact_url(self.url), why="what it sends is damaged") from None
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _fetch_into(self, folder: Path, timeout: float) -> None:
        done = self._run_fetch(folder, timeout)
        if done.returncode and self._remove_stale_locks(folder):
            done = self._run_fetch(folder, timeout)
        if done.returncode == 0:
            if _SHALLOW_WARNING in done.stderr:
                why = "it is a shallow repository: its history is not whole"
                raise RemoteUnreachable(
                    remote=redact_url(self.url), why=why, hint="git fetch --unshallow there"
                )
            return
        if folder == self.folder and not self._is_intact(
            "--connectivity-only", "--no-dangling", timeout=timeout
        ):
            raise _Damaged
        raise self._unreachable(done.stderr)

    def _run_fetch(self, folder: Path, timeout: float) -> subprocess.CompletedProcess[str]:
        return self._git(
            "fetch", "--quiet", "--prune", "--force", "--no-recurse-submodules", "--no-auto-gc", "--",
            self.url, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*",
            timeout=timeout, folder=folder,
        )  # fmt: skip

    def _remove_stale_locks(self, folder: Path) -> bool:
        """Whether locks were in the way that a git left that was killed: ours are not held for so long."""
        old = time.time() - 2 * TIMEOUT
        locks = (*folder.glob("*.lock"), *folder.glob("refs/**/*.lock"))
        found = [lock for lock in locks if _is_older(lock, old)]
        for lock in found:
            lock.unlink(missing_ok=True)
        return bool(found)

    def _is_intact(self, *options: str, timeout: float) -> bool:
        return self._git("fsck", *options, timeout=timeout).returncode == 0

    # Questions

    def _list_refs(self, timeout: float) -> str:
        """All branches and tags of the remote, with their commits."""
        done = self._git("ls-remote", "--heads", "--tags", "--", self.url, timeout=timeout, folder=None)
        if done.returncode:
            raise self._unreachable(done.stderr)
        return done.stdout

    def _resolve_or_repair(self, ref: str, heads: str, timeout: float) -> str:
        try:
            return self.resolve(ref)
        except NoSuchRevision:
            # Where the remote has it, or may have it, the copy is to blame.
            names = {line.partition("\t")[2] for line in heads.splitlines()}
            there = _is_commit_id(ref) or not names.isdisjoint({f"refs/heads/{ref}", f"refs/tags/{ref}"})
            if not there or not self._repair_copy(timeout):
                raise
        return self.resolve(ref)

    def _git(
        self, *arguments: str, timeout: float = TIMEOUT, folder: Path | None = _OWN_COPY
    ) -> subprocess.CompletedProcess[str]:
        """`folder`: by default the copy; None: in no repository."""
        where = self.folder if folder is _OWN_COPY else folder
        return run_git(self.login, self.url, *arguments, folder=where, timeout=timeout)

    def _unreachable(self, said: str) -> RemoteUnreachable:
        return RemoteUnreachable(remote=redact_url(self.url), why=failure_reason(said))


class _Damaged(Exception):
    pass


def _has_many_pieces(objects: Path, loose: int, packs: int) -> bool:
    """What git would find itself, by a process for each fetch: it, too, takes one of 256 folders for all."""
    with contextlib.suppress(OSError):
        if sum(1 for _ in os.scandir(objects / "17")) > math.ceil(loose / 256):
            return True
    return sum(1 for _ in (objects / "pack").glob("*.pack")) > packs


def redact_url(url: str) -> str:
    """The address without what may be a password in it."""
    scheme, mark, rest = url.partition("://")
    if not mark:
        return url
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def _is_older(path: Path, moment: float) -> bool:
    try:
        return path.stat().st_mtime < moment
    except FileNotFoundError:
        return False


def _is_commit_id(ref: str) -> bool:
    return len(ref) in (40, 64) and all(letter in "0123456789abcdef" for letter in ref)
