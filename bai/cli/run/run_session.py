"""`bai run`: a document into git, a session out of it, and somebody in it."""

from __future__ import annotations

import contextlib
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

import typer

from bai.cli.documents.commit import CommitOptions, commit_submission
from bai.cli.reading import remote_cluster
from bai.cli.run.exit_code import await_exit_code
from bai.cli.run.session_request import RunRequest
from bai.settings import LOCAL_CONTEXT, Settings
from providers.machines.signals import signal_handlers
from reconciler.values.session_phase import ENDED

if TYPE_CHECKING:
    from reconciler.gitops.submit import Submission
    from reconciler.values.records import Recorded
    from reconciler.values.state import Existing
    from reconciler.workspace.workspace import Workspace
    from schemas.kinds.app_proxy import AppProxy

SHORTEST_POLL, LONGEST_POLL = 0.05, 1.0
"""Seconds between two looks at the store: at first, and at most."""
FIRST_REASON, REASON_INTERVAL = 1.0, 3.0
"""Seconds until it is said why it waits, and between two looks at that."""
FOLDER = "sessions/run"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What is done with it; `patience` in seconds."""

    commit: CommitOptions = field(default_factory=CommitOptions)
    detach: bool = False
    remove: bool = False
    patience: float = 600.0


def run_session(settings: Settings, request: RunRequest, options: RunOptions) -> int:
    """The exit code: the command's for a batch session, 0 when somebody leaves. Raises BaiError."""
    import yaml

    from reconciler.gitops.submit import Submission, new_file
    from schemas.loading.fmt import format_text

    remote = remote_cluster(settings)
    settings = replace(settings, context=LOCAL_CONTEXT)  # The documents are here.
    with settings.workspace() as workspace:
        mark = secrets.token_hex(3)
        document = request.document(workspace.repository, mark)
        in_git, batch = workspace.source.git is not None, document["spec"].get("type") == "batch"
        _check_options(request, options, document["spec"], in_git=in_git)
        if remote is not None:
            _check_options_for_server(options, in_git=in_git, batch=batch)
        text = format_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True).encode())
        name = f"{FOLDER}/{document['metadata']['name']}.yaml"
        directory = workspace.source.directory
        submission = Submission(directory, (new_file(directory, name, text),), workspace.source.owner)
        submission.write()
        warm = _preload(workspace.cluster.spec.provider)
        identity = "Session/{project}/{name}".format(**document["metadata"])
        committed = commit_submission(submission, f"Run {identity}", options.commit, in_git=in_git)
        typer.echo(committed.line, err=True)
        warm.join()
    apply_here = not committed.pushed
    if options.commit.branch:
        return 0
    stay = partial(_apply_and_attach, settings, identity, options, apply_here=apply_here)
    if remote is not None:
        from bai.cli.run.server_session import follow_on_server

        stay = partial(follow_on_server, remote, identity, options.patience, batch=batch)
        if options.detach:
            return 0
    if not options.remove:
        return stay()
    take_out = partial(_take_out_of_git, settings, submission, identity, options, apply_here=apply_here)
    with _leave_on_hangup():
        otherwise = f"{identity} goes on: `bai cancel` takes {submission.names} out of git"
        return _stay_then_remove(stay, take_out, otherwise)


def _preload(provider: str) -> threading.Thread:
    """Load what is needed to look after the session while git commits and pushes."""

    def load() -> None:
        # Whatever is wrong with it is said where it is used.
        with contextlib.suppress(Exception):
            import reconciler.observe.observe
            import reconciler.store  # noqa: F401
            from providers.registry import load_provider

            load_provider(provider)

    thread = threading.Thread(target=load, name="warm-up")
    thread.start()
    return thread


def _stay_then_remove(stay: Callable[[], int], take_out: Callable[[], None], otherwise: str) -> int:
    """Taken out when it or we are done; not for what may pass, while it goes on."""
    from schemas.problems.errors.base import BaiError

    done = True
    try:
        return stay()
    except BaiError as error:
        done = not error.retryable
        raise
    finally:
        if done:
            take_out()
        else:
            typer.echo(otherwise, err=True)


@contextlib.contextmanager
def _leave_on_hangup() -> Iterator[None]:
    """Whose terminal is closed, or who is ended, leaves as with Ctrl-C; a second time changes nothing."""

    numbers = (signal.SIGHUP, signal.SIGTERM)

    def leave(number: int, frame: FrameType | None) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    with signal_handlers(numbers, leave):
        yield


def _check_options_for_server(options: RunOptions, *, in_git: bool, batch: bool) -> None:
    """Raises CommandError for what needs the nodes, or nothing that the server hears of."""
    from schemas.problems.errors.command import CommandError

    if not (in_git and options.commit.push):
        hint = "push it, or give --context local where the nodes are reached"
        raise CommandError(why="a server's loop starts only what is pushed", hint=hint)
    if options.remove and not batch:
        hint = "leave out --rm, and take it out with `bai cancel`"
        raise CommandError(why="--rm: a server does not tell when you have left a session", hint=hint)


def _check_options(
    request: RunRequest, options: RunOptions, spec: Mapping[str, object], *, in_git: bool
) -> None:
    """Raises CommandError for what could only be left hanging."""
    from schemas.problems.errors.command import CommandError

    options.commit.check(in_git=in_git)
    if options.remove and options.detach:
        why = "--rm takes it out when it or you are done: with --detach you are at once"
        raise CommandError(why=why, hint="leave out one of them")
    shell = bool(spec.get("tty")) and not request.command
    if shell and not (options.commit.branch or options.detach) and not (sys.stdin and sys.stdin.isatty()):
        hint = "give a command after `--`, or --batch, or --detach"
        raise CommandError(why="there is no terminal here that a shell could be used from", hint=hint)


def _apply_and_attach(settings: Settings, identity: str, options: RunOptions, *, apply_here: bool) -> int:
    if apply_here:
        _apply(settings, identity)
    if options.detach:
        return 0
    with settings.workspace() as workspace:
        found = _wait_until_running(workspace, identity, options.patience)
        return _attach_or_follow(workspace, found)


def _apply(settings: Settings, identity: str, what: str = "started") -> None:
    from bai.cli.plans.execute_plan import execute_completely
    from reconciler.values.plan_options import PlanOptions
    from schemas.problems.errors.command import CommandError

    with settings.workspace(acting=True) as workspace:
        plan = workspace.plan(PlanOptions(targets=(identity,)))
        if not execute_completely(settings, workspace, plan, 32, quiet=True):
            raise CommandError(why=f"{identity} could not be {what}", hint="`bai plan` says why")


def _wait_until_running(workspace: Workspace, identity: str, patience: float) -> Existing:
    """The session as soon as it runs or has ended. Raises CommandError when that takes too long."""
    from bai.cli.sessions.find import observe_sessions
    from schemas.problems.errors.command import CommandError

    begin = time.monotonic()
    end, last_reason, next_reason = begin + patience, "", begin + FIRST_REASON
    while True:
        looked = time.monotonic()
        record, trouble = _read_record(workspace, identity)
        if record is not None and (record.phase == "RUNNING" or record.phase in ENDED):
            found = observe_sessions(workspace).existing.get(identity)
            if found is not None:
                return found
        now = time.monotonic()
        pause = min(LONGEST_POLL, max(SHORTEST_POLL, (now - begin) / 20, 4 * (now - looked)))
        if now >= next_reason:
            reason, next_reason = (
                trouble or _waiting_reason(workspace, record, identity),
                now + REASON_INTERVAL,
            )
            if reason != last_reason:
                typer.echo(f"{identity}: {reason}", err=True)
                last_reason = reason
        if now > end:
            hint = "it stays in the queue; `bai explain` says more, --wait waits longer"
            why = last_reason or trouble or _waiting_reason(workspace, record, identity)
            raise CommandError(why=f"{identity} does not run yet: {why}", hint=hint)
        time.sleep(pause)


def _read_record(workspace: Workspace, identity: str) -> tuple[Recorded | None, str]:
    """What the store says of it, or why it says nothing just now."""
    from schemas.problems.errors.store import StoreUnavailable

    if not workspace.has_store:
        return None, ""
    try:
        return workspace.store.recorded(workspace.cluster.name).get(identity), ""
    except StoreUnavailable as error:
        return None, error.message


def _waiting_reason(workspace: Workspace, record: Recorded | None, identity: str) -> str:
    """What it waits for."""
    from bai.render.resources.status import wait_line
    from schemas.problems.errors.base import BaiError

    if record is None:
        return "nobody has taken it up yet"
    if record.phase != "PENDING":
        return record.phase
    try:
        waits = {wait.session: wait for wait in workspace.plan().waits}
    except BaiError:
        waits = {}
    return f"{record.phase}: {wait_line(waits.get(identity)) or record.reason}".rstrip(": ")


def _app_ports(workspace: Workspace, proxy: AppProxy | None) -> Mapping[str, int]:
    """Those that the AppProxy's record has."""
    store = workspace.existing_store
    if proxy is None or store is None:
        return {}
    record = store.recorded(workspace.cluster.name, proxy.kind).get(proxy.identity)
    return record.app_ports if record is not None else {}


def _attach_or_follow(workspace: Workspace, session: Existing) -> int:
    """Its terminal, or its output until it ends."""
    from bai.cli.output import standard_input
    from bai.cli.sessions.apps import print_app_urls, recorded_app_urls
    from bai.cli.sessions.attach_hint import print_attach_hint
    from providers.required_abilities import require_attach

    kernels = {kernel.labels.kernel: kernel for kernel in session.kernels}
    if session.phase == "RUNNING":
        proxy = workspace.repository.app_proxy_of(workspace.cluster.name)
        print_app_urls(recorded_app_urls(proxy, session.recorded, _app_ports(workspace, proxy)))
    main = kernels.get("main1")
    if main is None:
        typer.echo(f"{session.id}: {session.phase} {session.reason}".rstrip(), err=True)
        return 1
    spec = session.recorded.document.get("spec")
    batch = isinstance(spec, dict) and spec.get("type") == "batch"
    try:
        if batch:
            for chunk in workspace.provider.logs(main.id, follow=True):
                sys.stdout.buffer.write(chunk)
                sys.stdout.buffer.flush()
            return await_exit_code(session.id, lambda: _exit_code(workspace, session.id), SHORTEST_POLL)
        print_attach_hint(session.recorded.document, "main1")
        return require_attach(workspace.provider, workspace.cluster).attach(main.id, stdin=standard_input())
    except KeyboardInterrupt:
        return 0


def _exit_code(workspace: Workspace, identity: str) -> int | None:
    """The exit code of the main container, once it is known."""
    from bai.cli.sessions.find import observe_sessions

    found = observe_sessions(workspace).existing.get(identity)
    return None if found is None else found.exit_codes.get("main1")


def _take_out_of_git(
    settings: Settings, submission: Submission, identity: str, options: RunOptions, *, apply_here: bool
) -> None:
    from reconciler.gitops.submit import Submission, removed_file

    directory = submission.directory
    left = [change.name for change in submission.changes if (directory / change.name).exists()]
    removal = Submission(directory, [removed_file(directory, name) for name in left])
    removal.write(check=False)
    if removal.in_git:
        removal.submit(f"{identity} is done", push=options.commit.push)
    if apply_here:
        _apply(settings, identity, "taken out")
