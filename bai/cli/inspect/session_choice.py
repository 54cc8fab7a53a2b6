"""What `bai get` was told of which sessions, and who asks."""

from __future__ import annotations

import contextlib
import getpass
from typing import TYPE_CHECKING

from bai.settings import Settings

if TYPE_CHECKING:
    from bai.queries.models import GetQuery


def check_choice(query: GetQuery, *, watch: bool) -> None:
    """Raises CommandError for a value that means nothing, before anybody is asked."""
    from bai.render.resources.session_filter import parse_phases, parse_selector
    from schemas.problems.errors.command import CommandError

    parse_phases(query.phase)
    parse_selector(query.selector)
    if query.kind != "Session" and (watch or query.mine or query.phase or query.selector or query.sort):
        raise CommandError(
            why="--watch, --mine, --phase, --selector and --sort are for sessions",
            hint="bai get sessions ...",
        )


def own_names(settings: Settings) -> tuple[str, ...]:
    """By which a session may name me as its owner: my name and address in git, and my Linux user."""
    from schemas.files.git_process import git_lines

    names: list[str] = []
    for key in ("user.name", "user.email"):
        names += git_lines(settings.directory, "config", "--get", key) or ()
    with contextlib.suppress(KeyError, OSError):  # A number without a name owns nothing.
        names.append(getpass.getuser())
    return tuple(name[:300] for name in names if name)
