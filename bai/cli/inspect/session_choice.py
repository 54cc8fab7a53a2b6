"""What `bai get` was told of which sessions, and whose they are."""

from __future__ import annotations

import contextlib
import getpass
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bai.render.resources.session_filter import SessionFilter
    from reconciler.values.state import Actual, Desired
    from reconciler.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class SessionChoice:
    """The options as they were written."""

    mine: bool = False
    phase: str = ""
    selector: str = ""
    sort: str = ""

    def check(self, kind: str, *, watch: bool) -> None:
        """Raises CommandError for a value that means nothing, before anybody is asked."""
        from bai.render.resources.session_filter import parse_phases, parse_selector, sort_rows
        from schemas.problems.errors.command import CommandError

        parse_phases(self.phase)
        parse_selector(self.selector)
        sort_rows((), self.sort)
        if kind != "Session" and (watch or self != SessionChoice()):
            raise CommandError(
                why="--watch, --mine, --phase, --selector and --sort are for sessions",
                hint="bai get sessions ...",
            )

    def filter(self, workspace: Workspace) -> SessionFilter:
        """Raises CommandError."""
        from bai.render.resources.session_filter import SessionFilter, parse_phases, parse_selector

        owners = my_names(workspace) if self.mine else None
        return SessionFilter(parse_phases(self.phase), parse_selector(self.selector), owners)


def my_names(workspace: Workspace) -> frozenset[str]:
    """By which a session may name me as its owner: my name and address in git, my Linux user, and the User
    document that one of these means. In lower case."""
    from schemas.files.git_process import git_lines

    names: set[str] = set()
    folder = workspace.source.git or workspace.source.directory
    for key in ("user.name", "user.email"):
        names.update(git_lines(folder, "config", "--get", key) or ())
    with contextlib.suppress(KeyError, OSError):  # A number without a name owns nothing.
        names.add(getpass.getuser())
    for user in [workspace.repository.user_of(name) for name in names]:
        if user is not None:
            names |= {user.name, *([user.spec.email] if user.spec.email else [])}
    return frozenset(name.lower() for name in names if name)


def session_document(desired: Desired, actual: Actual, identity: str) -> Mapping[str, object]:
    """As it is written; as it was applied where it is written no more."""
    item = actual.existing.get(identity)
    return desired.documents.get(identity) or (item.recorded.document if item else {})
