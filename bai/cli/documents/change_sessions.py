"""Changes of sessions' documents, of several at once: one commit, or nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bai.cli.documents.commit import CommitOptions, Committed, commit_submission
from bai.queries.names.resource_names import resolve_name
from bai.render.humanize import join_limited, plural, short_name
from bai.settings import Settings
from schemas.kinds.session import Session
from schemas.problems.errors.command import CommandError, NoSuchResource

if TYPE_CHECKING:
    from reconciler.gitops.session_documents import SessionDocument
    from reconciler.gitops.submit import FileChange, Submission
    from reconciler.values.records import Recorded
    from reconciler.workspace.workspace import Workspace

MakeChanges = Callable[[Path, Sequence["SessionDocument"]], tuple["FileChange", ...]]
_MOST_NAMES = 3
"""Sessions that a commit's first line names."""


@dataclass(frozen=True, slots=True)
class SessionChange:
    """What a command does to documents. `title`: the commit's; `follows`: what the next plan does then; both
    with `{names}`. `is_done`: whether a session is so already; `done`: what is then said of it. `running`:
    what is said of one that runs."""

    title: str
    follows: str
    make: MakeChanges
    is_done: Callable[[Session], bool] = lambda session: False
    done: str = ""
    running: str = ""


def cancel_sessions(settings: Settings, names: Sequence[str], options: CommitOptions) -> None:
    """Take sessions out of git. Raises BaiError, with nothing changed."""
    from reconciler.gitops.session_documents import files_without

    change = SessionChange("Cancel {names}", "stops what runs of {names}", files_without)
    _change_sessions(settings, names, options, change, protects=True)


def hold_sessions(settings: Settings, names: Sequence[str], options: CommitOptions) -> None:
    """Keep sessions out of their queues. Raises BaiError, with nothing changed."""
    change = SessionChange(
        "Hold {names}",
        "keeps {names} out of the queue, if it has not started by then",
        _field_setter("hold", True),
        lambda session: session.spec.hold,
        "is held already",
        "runs already, and goes on: it is held when it has to be placed anew (`bai cancel` stops it)",
    )
    _change_sessions(settings, names, options, change)


def release_sessions(settings: Settings, names: Sequence[str], options: CommitOptions) -> None:
    """Let held sessions into their queues. Raises BaiError, with nothing changed."""
    change = SessionChange(
        "Release {names}",
        "lets {names} into the queue",
        _field_setter("hold", None),
        lambda session: not session.spec.hold,
        "is not held",
    )
    _change_sessions(settings, names, options, change)


def set_priority(settings: Settings, name: str, value: int, options: CommitOptions) -> None:
    """Set a session's priority. Raises BaiError, with nothing changed."""
    change = SessionChange(
        f"Set the priority of {{names}} to {value}",
        f"queues {{names}} with priority {value}",
        _field_setter("priority", value),
        lambda session: session.spec.priority == value,
        f"has priority {value} already",
        "runs already, and goes on: its priority counts when it is queued again, and for who is pushed out",
    )
    _change_sessions(settings, [name], options, change)


def _field_setter(field: str, value: bool | int | None) -> MakeChanges:
    def make(directory: Path, documents: Sequence[SessionDocument]) -> tuple[FileChange, ...]:
        from reconciler.gitops.session_documents import files_with_field

        return files_with_field(directory, documents, field, value)

    return make


def _change_sessions(
    settings: Settings,
    names: Sequence[str],
    options: CommitOptions,
    change: SessionChange,
    *,
    protects: bool = False,
) -> None:
    from reconciler.gitops.session_documents import find_documents
    from reconciler.gitops.submit import Submission

    if settings.revision is not None:
        why = "--revision: a commit is not changed, its documents are where it is checked out"
        raise CommandError(why=why, hint="leave out --revision")
    with settings.workspace() as workspace:
        source, records = workspace.source, _records(workspace)
        in_git = source.git is not None
        options.check(in_git=in_git)
        sessions = _resolve_sessions(workspace, names, records)
        if protects:
            _refuse_protected(sessions)
        identities = [each for each, session in sessions.items() if not change.is_done(session)]
        for each in sorted(sessions.keys() - set(identities)):
            typer.echo(f"{each} {change.done}.")
        if not identities:
            return
        documents = find_documents(source.directory, workspace.repository, identities)
        submission = Submission(source.directory, change.make(source.directory, documents), source.owner)
        submission.write()
    committed = _commit(submission, identities, options, change, in_git=in_git)
    typer.echo(committed.line)
    for each in identities:
        if change.running and _runs(records.get(each)):
            typer.echo(f"{each} {change.running}.")
    typer.echo(_what_is_next(committed, options, change.follows.format(names=_names(identities))))


def _commit(
    submission: Submission,
    identities: Sequence[str],
    options: CommitOptions,
    change: SessionChange,
    *,
    in_git: bool,
) -> Committed:
    """The commit's body has all names where its first line has not."""
    title = change.title.format(names=_names(identities))
    body = "\n\n" + "\n".join(identities) if len(identities) > _MOST_NAMES else ""
    return commit_submission(submission, title + body, options, in_git=in_git)


def _names(identities: Sequence[str]) -> str:
    if len(identities) > _MOST_NAMES:
        return plural(len(identities), "session")
    return ", ".join(identities)


def _what_is_next(committed: Committed, options: CommitOptions, follows: str) -> str:
    if options.branch:
        return f"Once {committed.pushed} is merged, the next plan {follows}."
    if committed.pushed:
        return f"A loop that follows {committed.pushed} {follows}; without one, `bai apply` does."
    return f"`bai apply` {follows}."


def _resolve_sessions(
    workspace: Workspace, names: Sequence[str], records: Mapping[str, Recorded]
) -> dict[str, Session]:
    """By identity, each once. Raises NoSuchResource, AmbiguousName, and CommandError for what only runs."""
    known = {session.identity: session for session in workspace.repository.of(Session)}
    found = {}
    for name in names:
        try:
            identity = resolve_name(name, known, "Session")
        except NoSuchResource:
            with contextlib.suppress(NoSuchResource):
                gone = resolve_name(name, records.keys() - known.keys(), "Session")
                why = f"{short_name(gone)} is not in the documents any more"
                raise CommandError(
                    why=why, hint="what is left of it goes with the next `bai apply`"
                ) from None
            raise
        found[identity] = known[identity]
    return found


def _refuse_protected(sessions: Mapping[str, Session]) -> None:
    held = [identity for identity, session in sessions.items() if session.protected]
    if held:
        why = f"protected against deletion: {join_limited(map(short_name, held))}"
        raise CommandError(why=why, hint='take `bai/protect: "true"` out of its annotations first')


def _records(workspace: Workspace) -> Mapping[str, Recorded]:
    """What is known of what runs; nothing where that cannot be asked, which changes no document."""
    from schemas.problems.errors.store import StoreError

    try:
        return workspace.store.recorded(workspace.cluster.name) if workspace.has_store else {}
    except StoreError:
        return {}


def _runs(record: Recorded | None) -> bool:
    from reconciler.values.records import HOLDING

    return record is not None and record.phase in HOLDING
