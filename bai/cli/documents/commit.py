"""A submission into git, as its command's options say, and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from schemas.problems.errors.command import CommandError

if TYPE_CHECKING:
    from reconciler.gitops.submit import Submission


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """Where a commit goes."""

    branch: str = ""
    """A new branch that is only pushed; empty: on what is checked out."""
    push: bool = True

    def check(self, *, in_git: bool) -> None:
        """Raises CommandError for what could only be left hanging."""
        if self.branch and not (in_git and self.push):
            why = "a branch is pushed" if in_git else "this is no git repository with a commit in it"
            raise CommandError(why=f"--branch: {why}", hint="leave out --no-push" if in_git else "")


@dataclass(frozen=True, slots=True)
class Committed:
    """`pushed`: where to; empty where it was not. `line`: for the user."""

    line: str
    pushed: str


def commit_submission(
    submission: Submission, message: str, options: CommitOptions, *, in_git: bool
) -> Committed:
    """Commit and push what was written. Raises NotPushed, with all as it was."""
    if not in_git:
        line = f"Wrote {submission.names}; this is no git repository with a commit in it."
        return Committed(line, "")
    done = submission.submit(message, branch=options.branch, push=options.push)
    where = f", pushed to {done.pushed}" if done.pushed else ""
    return Committed(f"{message.partition(chr(10))[0]} at {done.commit[:12]}{where}", done.pushed)
