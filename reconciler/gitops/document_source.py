"""Where a loop's documents come from, again and again: a folder, or a git remote that is followed.

What is wrong with what is new never takes away what there is: the last good documents stay in force.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from reconciler.gitops.commit_choice import Follow
from reconciler.gitops.directives import Told, orders
from reconciler.sources.git import commit_of
from reconciler.sources.source import Source
from reconciler.workspace.workspace import Workspace
from schemas.problems.errors import BaiError, CannotRead, InvalidRepository

SHOWN = 3
"""Mistakes that are told of a commit that cannot be used."""


@dataclass(frozen=True, slots=True)
class Renewed:
    """The workspace with the documents that count now."""

    workspace: Workspace
    notes: tuple[str, ...] = ()
    """What holds because a person said so."""
    wrong: tuple[str, ...] = ()
    """Why what is newer does not count."""
    signs: Mapping[str, str] = field(default_factory=dict)
    """The same for those who are told of it, by class of events."""


class Documents(Protocol):
    def renewed(self, workspace: Workspace) -> Renewed:
        """Raises BaiError when there are no documents that could be used."""
        ...

    def at(self, commit: str, workspace: Workspace) -> Workspace:
        """The workspace with the documents of a commit that another replica has judged; empty: with what is
        there. Raises BaiError."""
        ...

    def find(self, name: str, workspace: Workspace, *, fresh: bool = False) -> str:
        """The full name of a commit, which may be named by a branch or a tag. What is not known here is
        looked for where the documents come from, with `fresh` in any case. Raises BaiError."""
        ...


class Folder:
    """The files of a folder, or the commit that its workspace was opened at; a pin counts where the folder is
    in a git repository."""

    def __init__(self) -> None:
        self._own: Source | None = None

    def renewed(self, workspace: Workspace) -> Renewed:
        pin = orders(workspace.store, workspace.cluster.name).pin
        self._own = self._own or workspace.source
        if pin is not None and self._own.git is not None:
            return Renewed(workspace.reloaded(replace(self._own, revision=pin.commit)), (_held(pin),))
        return Renewed(workspace.reloaded(self._own))

    def at(self, commit: str, workspace: Workspace) -> Workspace:
        self._own = self._own or workspace.source
        if commit and self._own.git is not None:
            return workspace.reloaded(replace(self._own, revision=commit))
        return workspace.reloaded(self._own)

    def find(self, name: str, workspace: Workspace, *, fresh: bool = False) -> str:
        if workspace.source.git is None:
            raise CannotRead(what=f"revision {name}", why="the documents are in no git repository")
        return commit_of(workspace.source.git, name)


class Followed:
    """A git remote. With `approval`, a new commit is carried out only once somebody has approved it."""

    def __init__(self, follow: Follow, *, approval: bool = False) -> None:
        self._follow = follow
        self._approval = approval
        self._refused: tuple[str, str] = ("", "")

    def renewed(self, workspace: Workspace) -> Renewed:
        told = orders(workspace.store, workspace.cluster.name)
        notes = [_held(told.pin)] if told.pin else []
        wrong = []
        signs: dict[str, str] = {}
        try:
            commit, error = self._follow.latest(told.pin.commit if told.pin else "")
        except BaiError as lost:
            # Not even the copy has the last good commit any more, but what it said is in this workspace.
            commit, error = workspace.commit, lost
        if error is not None:
            wrong.append(f"{error}; {commit[:12]} stays in force")
            signs["documents-unreachable"] = wrong[-1]
        if why := self._distrusted(commit):
            wrong.append(f"{why}; {workspace.commit[:12]} stays in force")
            signs["documents-refused"] = wrong[-1]
        if self._approval and not told.pin:
            approved = told.approve.commit if told.approve else ""
            if approved and not self._follow.rests_on(commit, approved):
                wrong.append(f"{approved[:12]} was approved, but {self._follow.ref} does not rest on it")
                approved = ""
            if commit != approved and not why:
                notes.append(f"{commit[:12]} waits for approval: `bai approve {commit[:12]}`")
                signs["approval-needed"] = notes[-1]
            # An approval does not replace a signature.
            why = approved and self._distrusted(approved)
            commit = approved or workspace.commit
        workspace = self._at(workspace.commit if why else commit, workspace)
        if self._refused[1]:
            good = workspace.commit[:12]
            wrong.append(f"commit {commit[:12]} cannot be used, {good} stays in force: {self._refused[1]}")
            signs["documents-refused"] = wrong[-1]
        return Renewed(workspace, tuple(notes), tuple(wrong), signs)

    def at(self, commit: str, workspace: Workspace) -> Workspace:
        if not commit or commit == workspace.commit:
            return workspace
        if not self._follow.remote.has(commit):
            self._follow.remote.fetch(self._follow.ref)
        return self._reloaded(commit, workspace)

    def find(self, name: str, workspace: Workspace, *, fresh: bool = False) -> str:
        remote = self._follow.remote
        if not fresh:
            with contextlib.suppress(CannotRead):
                return commit_of(remote.folder, name)
        # What cannot be asked just now may be known here all the same.
        with contextlib.suppress(BaiError):
            remote.fetch(self._follow.ref)
        return commit_of(remote.folder, name)

    def _distrusted(self, commit: str) -> str:
        """Why a commit must not be followed; empty when it may."""
        try:
            self._follow.trust(commit)
        except BaiError as error:
            return _words(error)
        return ""

    def _at(self, commit: str, workspace: Workspace) -> Workspace:
        """The documents of this commit, if they can be used."""
        if self._refused[0] == commit:
            return workspace
        try:
            workspace = self._reloaded(commit, workspace)
        except CannotRead as error:
            # That may be otherwise when it is tried again.
            self._refused = ("", str(error))
            return workspace
        except BaiError as error:
            self._refused = (commit, _words(error))
            return workspace
        self._refused = ("", "")
        self._follow.accept(commit)
        return workspace

    def _reloaded(self, commit: str, workspace: Workspace) -> Workspace:
        try:
            return workspace.reloaded(self._follow.source(commit))
        except CannotRead:
            if not self._follow.remote.mend():
                raise
        return workspace.reloaded(self._follow.source(commit))


def first(follow: Follow, pinned: str = "") -> str:
    """The commit to begin with: what counts now, or, when that cannot be used, the last good one. Raises
    BaiError when neither can."""
    commit, _ = follow.latest(pinned)
    try:
        follow.trust(commit)
        _load(follow, commit)
    except BaiError:
        if not follow.good or follow.good == commit:
            raise
        return follow.good
    return commit


def _load(follow: Follow, commit: str) -> None:
    try:
        follow.source(commit).load()
    except CannotRead:
        if not follow.remote.mend():
            raise
        follow.source(commit).load()


def _held(pin: Told) -> str:
    why = f" ({pin.why})" if pin.why else ""
    return f"held at {pin.commit[:12]} by {pin.actor}{why}: `bai resume` follows the documents again"


def _words(error: BaiError) -> str:
    if isinstance(error, InvalidRepository):
        more = len(error.problems) - SHOWN
        shown = "; ".join(map(str, error.problems[:SHOWN]))
        return f"{shown}; and {more} more" if more > 0 else shown
    return str(error)
