"""A proposal becomes a commit of the remote: on a branch of its own, or on the branch that is followed.

What cannot be pushed is nowhere: its commit is in the copy alone, and nothing refers to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, count, islice

from reconciler.gitops.remote import Remote, redact_url
from reconciler.gitops.submit import MAX_PUSH_ATTEMPTS
from reconciler.proposals.commit_objects import CommitWriter
from reconciler.proposals.values import Person, Proposal
from schemas.problems.errors.git_remote import NoSuchRevision, NotPushed

MOST_NAMES = 20
"""Branches that are tried where one of the name is there already."""
Check = Callable[[str], None]
"""Judges the documents of a commit; raises BaiError where they cannot be used."""


@dataclass(frozen=True, slots=True)
class Pushed:
    """Which commit went where."""

    commit: str
    branch: str


class Publisher:
    """`ref`: what is followed of the remote; `subpath`: the folder of the documents."""

    def __init__(self, remote: Remote, ref: str, subpath: str, committer: Person) -> None:
        self._remote, self._ref = remote, ref
        self._writer = CommitWriter(remote.folder, subpath, committer)

    def to_branch(self, proposal: Proposal, check: Check) -> Pushed:
        """To a new branch. Raises StaleProposal, what `check` raises, NotPushed, RemoteError."""
        commit = self._commit(proposal, check)
        names = chain((proposal.branch,), (f"{proposal.branch}-{number}" for number in count(2)))
        for branch in islice(names, MOST_NAMES):
            done = self._remote.push(commit, branch, new=True)
            if done.pushed:
                return Pushed(commit, branch)
            if not done.lost_race:
                raise self._not_pushed(done.why, "nothing was written: the change is there to copy")
        raise self._not_pushed(f"there are {MOST_NAMES} branches of this name already", "delete some")

    def to_followed(self, proposal: Proposal, check: Check) -> Pushed:
        """To the branch that is followed, on top of what others push meanwhile. Raises the same, also where
        what is followed is no branch."""
        why = ""
        for _ in range(MAX_PUSH_ATTEMPTS):
            commit = self._commit(proposal, check)
            if not self._remote.has_branch(self._ref):
                raise self._not_pushed(f"{self._ref} is no branch", "follow one with --ref")
            done = self._remote.push(commit, self._ref, new=False)
            if done.pushed:
                return Pushed(commit, self._ref)
            if not done.lost_race:
                hint = "nothing was written: use `--proposals branch` where the branch is protected"
                raise self._not_pushed(done.why, hint)
            why = done.why
        raise self._not_pushed(why, "others push all the time: try again")

    def _commit(self, proposal: Proposal, check: Check) -> str:
        """On what is newest. Raises StaleProposal, RemoteError, what `check` raises."""
        newest = self._remote.fetch(self._ref)
        if not self._remote.has_commit(proposal.base):
            raise NoSuchRevision(remote=redact_url(self._remote.url), revision=proposal.base[:12])
        commit = self._writer.write(proposal, newest)
        check(commit)
        return commit

    def _not_pushed(self, why: str, hint: str) -> NotPushed:
        return NotPushed(remote=redact_url(self._remote.url), why=why, hint=hint)
