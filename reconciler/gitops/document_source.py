"""Where a loop's documents come from, again and again: a folder, or a git remote that is followed.

What is wrong with what is new never takes away what there is: the last good documents stay in force.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, Self, TypeVar

from reconciler.gitops.directives import Directive, Directives
from reconciler.gitops.remote import Remote
from reconciler.gitops.revision_tracker import RevisionTracker
from reconciler.sources.source import Source
from reconciler.trust.gate import TrustGate
from schemas.files.git_objects import resolve_commit
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.repository import CannotRead, InvalidRepository

MAX_SHOWN_PROBLEMS = 3
"""Mistakes that are told of a commit that cannot be used."""


class OpenDocuments(Protocol):
    """Documents of one commit, read, and the way to others: what a loop works with (a `Workspace`)."""

    @property
    def source(self) -> Source: ...

    @property
    def commit(self) -> str: ...

    def reloaded(self, source: Source) -> Self:
        """The same with the documents of `source`. Raises BaiError when these cannot be used."""
        ...


D = TypeVar("D", bound=OpenDocuments)


@dataclass(frozen=True, slots=True)
class RenewedDocuments(Generic[D]):
    """The documents that count now."""

    opened: D
    notes: tuple[str, ...] = ()
    """What holds because a person said so."""
    wrong: tuple[str, ...] = ()
    """Why what is newer does not count."""
    signs: Mapping[str, str] = field(default_factory=dict)
    """The same for those who are told of it, by class of events."""


@dataclass(frozen=True, slots=True)
class FollowedRef:
    """What of which remote is followed. `approval`: a new commit waits until somebody approves of it. `gate`:
    what its commits must pass; None: nothing."""

    remote: Remote
    ref: str
    approval: bool
    gate: TrustGate | None = None


class DocumentSource(Protocol):
    @property
    def followed(self) -> FollowedRef | None:
        """None for a folder."""
        ...

    def renew(self, opened: D, directives: Directives) -> RenewedDocuments[D]:
        """Those that count now, after `opened` and by what people have ordered. Raises BaiError when there
        are none that could be used."""
        ...

    def at_commit(self, commit: str, opened: D) -> D:
        """The documents of a commit that another replica has judged; empty: what is there. Raises
        BaiError."""
        ...

    def find_commit(self, name: str, source: Source, *, fresh: bool = False) -> str:
        """The full name of a commit, which may be named by a branch or a tag. What is not known here is
        looked for where the documents come from, with `fresh` in any case. Raises BaiError."""
        ...


class FolderDocuments:
    """The files of a folder, or the commit that its workspace was opened at; a pin counts where the folder is
    in a git repository."""

    followed: FollowedRef | None = None

    def __init__(self) -> None:
        self._own: Source | None = None

    def renew(self, opened: D, directives: Directives) -> RenewedDocuments[D]:
        pin = directives.pin
        self._own = self._own or opened.source
        if pin is not None and self._own.git is not None:
            return RenewedDocuments(
                opened.reloaded(replace(self._own, revision=pin.commit)), (_pin_note(pin),)
            )
        return RenewedDocuments(opened.reloaded(self._own))

    def at_commit(self, commit: str, opened: D) -> D:
        self._own = self._own or opened.source
        if commit and self._own.git is not None:
            return opened.reloaded(replace(self._own, revision=commit))
        return opened.reloaded(self._own)

    def find_commit(self, name: str, source: Source, *, fresh: bool = False) -> str:
        if source.git is None:
            raise CannotRead(what=f"revision {name}", why="the documents are in no git repository")
        return resolve_commit(source.git, name)


class FollowedDocuments:
    """A git remote. With `approval`, a new commit is carried out only once somebody has approved it."""

    def __init__(self, tracker: RevisionTracker, *, approval: bool = False) -> None:
        self._tracker = self.tracker = tracker
        self._approval = approval
        self._refused: tuple[str, str] = ("", "")

    @property
    def followed(self) -> FollowedRef | None:
        tracker = self._tracker
        return FollowedRef(tracker.remote, tracker.ref, self._approval, tracker.gate)

    def renew(self, opened: D, directives: Directives) -> RenewedDocuments[D]:
        notes = [_pin_note(directives.pin)] if directives.pin else []
        wrong = []
        signs: dict[str, str] = {}
        try:
            commit, error = self._tracker.select_commit(directives.pin.commit if directives.pin else "")
        except BaiError as lost:
            # Not even the copy has the last good commit any more, but what it said is open here.
            commit, error = opened.commit, lost
        if error is not None:
            wrong.append(f"{error}; {commit[:12]} stays in force")
            signs["documents-unreachable"] = wrong[-1]
        if why := self._distrust_reason(commit):
            wrong.append(f"{why}; {opened.commit[:12]} stays in force")
            signs["documents-refused"] = wrong[-1]
        if self._approval and not directives.pin:
            approved = directives.approve.commit if directives.approve else ""
            if approved and not self._tracker.descends_from(commit, approved):
                wrong.append(f"{approved[:12]} was approved, but {self._tracker.ref} does not rest on it")
                approved = ""
            if commit != approved and not why:
                notes.append(f"{commit[:12]} waits for approval: `bai approve {commit[:12]}`")
                signs["approval-needed"] = notes[-1]
            # An approval does not replace a signature.
            why = approved and self._distrust_reason(approved)
            commit = approved or opened.commit
        opened = self._open_commit(opened.commit if why else commit, opened)
        if self._refused[1]:
            good = opened.commit[:12]
            wrong.append(f"commit {commit[:12]} cannot be used, {good} stays in force: {self._refused[1]}")
            signs["documents-refused"] = wrong[-1]
        return RenewedDocuments(opened, tuple(notes), tuple(wrong), signs)

    def at_commit(self, commit: str, opened: D) -> D:
        if not commit or commit == opened.commit:
            return opened
        if not self._tracker.remote.has_commit(commit):
            self._tracker.remote.fetch(self._tracker.ref)
        return self._reloaded(commit, opened)

    def find_commit(self, name: str, source: Source, *, fresh: bool = False) -> str:
        remote = self._tracker.remote
        if not fresh:
            with contextlib.suppress(CannotRead):
                return resolve_commit(remote.folder, name)
        # What cannot be asked just now may be known here all the same.
        with contextlib.suppress(BaiError):
            remote.fetch(self._tracker.ref)
        return resolve_commit(remote.folder, name)

    def _distrust_reason(self, commit: str) -> str:
        """Why a commit must not be followed; empty when it may."""
        try:
            self._tracker.verify_trust(commit)
        except BaiError as error:
            return _error_text(error)
        return ""

    def _open_commit(self, commit: str, opened: D) -> D:
        """The documents of this commit, if they can be used."""
        if self._refused[0] == commit:
            return opened
        try:
            opened = self._reloaded(commit, opened)
        except CannotRead as error:
            # That may be otherwise when it is tried again.
            self._refused = ("", str(error))
            return opened
        except BaiError as error:
            self._refused = (commit, _error_text(error))
            return opened
        self._refused = ("", "")
        self._tracker.accept(commit)
        return opened

    def _reloaded(self, commit: str, opened: D) -> D:
        try:
            return opened.reloaded(self._tracker.source(commit))
        except CannotRead:
            if not self._tracker.remote.repair():
                raise
        return opened.reloaded(self._tracker.source(commit))


def first_commit(tracker: RevisionTracker, pinned: str = "", *, approval: bool = False) -> str:
    """The commit to begin with: what counts now, or, when that cannot be used, the last good one, which with
    `approval` counts before what came since. Raises BaiError when neither can."""
    if approval and not pinned and (good := tracker.last_good_commit):
        return good
    commit, _ = tracker.select_commit(pinned)
    try:
        tracker.verify_trust(commit)
        _load_documents(tracker, commit)
    except BaiError:
        if not tracker.last_good_commit or tracker.last_good_commit == commit:
            raise
        return tracker.last_good_commit
    return commit


def _load_documents(tracker: RevisionTracker, commit: str) -> None:
    try:
        tracker.source(commit).load()
    except CannotRead:
        if not tracker.remote.repair():
            raise
        tracker.source(commit).load()


def _pin_note(pin: Directive) -> str:
    why = f" ({pin.why})" if pin.why else ""
    return f"held at {pin.commit[:12]} by {pin.actor}{why}: `bai resume` follows the documents again"


def _error_text(error: BaiError) -> str:
    if isinstance(error, InvalidRepository):
        more = len(error.problems) - MAX_SHOWN_PROBLEMS
        shown = "; ".join(map(str, error.problems[:MAX_SHOWN_PROBLEMS]))
        return f"{shown}; and {more} more" if more > 0 else shown
    return str(error)
