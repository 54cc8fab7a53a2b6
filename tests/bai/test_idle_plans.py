"""A plan in which nothing is to be done is found again by the next command, and says to the byte what a plan
made anew says, whatever has happened in between."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler.gitops.directives import Directive, issue_directive
from reconciler.plan import plan_cache
from reconciler.sources import document_index, known_documents, sealed_files
from reconciler.store.database.address import StoreAddress
from reconciler.store.store import Store
from reconciler.values.clock import SystemClock
from tests.bai.conftest import CLUSTER, TOP, Repo, Said, new_repo, tidy

PLAN = ("plan", "--offline")
DAY = 86_400.0
QUOTA = """\
apiVersion: bai/v1
kind: Quota
metadata: {name: small}
spec: {scope: {project: demo}, limits: {cpu: 150m}}
"""
POLICY = """\
apiVersion: bai/v1
kind: Policy
metadata: {name: owned}
spec:
  validations: [{expression: "has(resource.metadata.labels.team)", message: "say whose it is"}]
"""


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repo]:
    """Two sessions run; one waits for room, and one for its time."""
    repo = new_repo(tmp_path_factory.mktemp("idle"))
    repo.session("web", "sleep", "inf")
    repo.session("two", "sleep", "inf")
    repo.session("vast", "sleep", "inf", cpu="4096")
    repo.session("later", "sleep", "1", extra='  startsAt: "2030-03-17T17:47:40Z"\n')
    repo("apply", "--yes")
    repo.env["BAI_STATE"] = str(repo.root / ".bai" / "store.db")
    yield repo
    del repo.env["BAI_STATE"]
    tidy(repo)


@pytest.fixture
def idle(applied: Repo, tmp_path: Path) -> Repo:
    """A copy of its documents and its store: what runs is not theirs, and nobody asks for it."""
    root = tmp_path / "repository"
    root.mkdir()
    for each in applied.root.glob("*.yaml"):
        (root / each.name).write_bytes(each.read_bytes())
    store = tmp_path / "store.db"
    with sqlite3.connect(applied.env["BAI_STATE"]) as source, sqlite3.connect(store) as copy:
        source.backup(copy)
    store.chmod(0o600)
    caches = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "BAI_STATE": str(store)}
    return Repo(root, {**applied.env, **caches})


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """An entry for each plan that is made."""
    found: list[float] = []
    make = plan_cache.make_timed_plan

    def counted(request: plan_cache.PlanRequest) -> object:
        found.append(request.now)
        return make(request)

    monkeypatch.setattr(plan_cache, "make_timed_plan", counted)
    return found


def anew(repo: Repo, *words: str) -> Said:
    return Repo(repo.root, {**repo.env, "BAI_CACHE": "off"})(*(words or PLAN))


def cache_file(repo: Repo) -> Path:
    (found,) = (Path(repo.env["XDG_CACHE_HOME"]) / "bai" / "documents").glob("*.index")
    return found


def ask(repo: Repo, sql: str, *values: object) -> None:
    with sqlite3.connect(repo.env["BAI_STATE"]) as connection:
        connection.execute(sql, values)


@pytest.mark.parametrize("more", [(), ("--details",), ("--format", "markdown"), ("--detailed-exitcode",)])
def test_it_is_found_by_the_next_command(idle: Repo, made: list[float], more: tuple[str, ...]) -> None:
    first = idle(*PLAN)
    assert first.code == 0 and "No changes; 2 wait." in first.out and "vast" in first.out
    assert idle(*PLAN, *more) == anew(idle, *PLAN, *more)
    assert len(made) == 2, "the first, and the one that was not to be found"
    assert cache_file(idle).stat().st_mode & 0o777 == 0o600


MODULES = """\
import contextlib, io, json, sys
from bai.cli.main import run
with contextlib.redirect_stdout(io.StringIO()):
    run(sys.argv[1:])
print(json.dumps(sorted(sys.modules)))
"""


def test_who_finds_it_loads_neither_documents_nor_the_planner(idle: Repo) -> None:
    idle(*PLAN)
    words = [sys.executable, "-c", MODULES, "-C", str(idle.root), *PLAN]
    done = subprocess.run(
        words, env={**os.environ, **idle.env}, cwd=TOP, capture_output=True, text=True, check=True
    )
    loaded = set(json.loads(done.stdout))
    assert "reconciler.workspace.idle_plans" in loaded
    assert not loaded & {"schemas.loading.document_cache", "schemas.kinds.session", "planner.place", "numpy"}


@pytest.mark.parametrize(
    "more",
    [("--format", "json"), ("--out", "saved.plan"), ("--target", "demo/web"), ("--destroy",),
     ("--refresh-only",), ("--defragment",), ("--replace", "demo/web")],
)  # fmt: skip
def test_plans_that_say_or_do_more_are_made(
    idle: Repo, made: list[float], more: tuple[str, ...], tmp_path: Path
) -> None:
    idle(*PLAN)
    more = tuple(str(tmp_path / word) if word == "saved.plan" else word for word in more)
    idle(*PLAN, *more)
    assert len(made) == 2


CHANGES: dict[str, Callable[[Repo], object]] = {
    "a document": lambda repo: repo.session("web", "sleep", "10"),
    "one more document": lambda repo: repo.session("three", "sleep", "inf"),
    "one document less": lambda repo: (repo.root / "two.yaml").unlink(),
    "a quota": lambda repo: repo.write("quota.yaml", QUOTA),
    "a policy": lambda repo: repo.write("policy.yaml", POLICY),
    "a mistake": lambda repo: repo.write("wrong.yaml", "apiVersion: bai/v1\nkind: Nonsense\n"),
    "the cluster": lambda repo: repo.write("cluster.yaml", CLUSTER.replace("fifo", "drf")),
    "another cluster": lambda repo: repo.write("cluster.yaml", CLUSTER.replace("here", "there")),
    "a record is gone": lambda repo: ask(repo, "DELETE FROM resources WHERE resource = 'Session/demo/web'"),
    "a phase": lambda repo: ask(repo, "UPDATE resources SET phase = 'ERROR' WHERE phase = 'RUNNING'"),
    "a time": lambda repo: ask(repo, "UPDATE resources SET enqueued_at = enqueued_at - 1000000"),
    "a wrong time": lambda repo: ask(repo, "UPDATE resources SET enqueued_at = enqueued_at + 1000000"),
    "hardware": lambda repo: ask(repo, "DELETE FROM hardware"),
    "contact": lambda repo: ask(repo, "UPDATE contacts SET lost = 1, why = 'no answer'"),
    "whose kernels": lambda repo: ask(repo, "UPDATE meta SET value = 'another' WHERE key LIKE 'repo%'"),
    "a store of its own": lambda repo: repo.env.update(BAI_STATE=str(repo.root.parent / "none.db")),
    "an emptied store": lambda repo: ask(repo, "DELETE FROM resources"),
    "no store any more": lambda repo: Path(repo.env["BAI_STATE"]).unlink(),
    "a store that is none": lambda repo: Path(repo.env["BAI_STATE"]).write_bytes(b"nothing"),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_after_a_change_it_says_what_is_so(
    idle: Repo, made: list[float], change: Callable[[Repo], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = SystemClock().now()  # A time that lies ahead is told with how far, in seconds.
    monkeypatch.setattr(SystemClock, "now", lambda self: now)
    before = idle(*PLAN)
    change(idle)
    del made[:]
    said = idle(*PLAN)
    plans = len(made)
    assert said == anew(idle) and plans == len(made) - plans, "each of them made as many plans"
    assert idle(*PLAN) == said, "also what is remembered now"
    assert before.code == 0


def test_what_keeps_the_loop_from_going_on_is_told_each_time(idle: Repo, made: list[float]) -> None:
    idle(*PLAN)
    with Store.open(StoreAddress.parse(idle.env["BAI_STATE"])) as store:
        issue_directive(store, "here", "suspend", Directive("ada", 1.0, "a test"))
    said = idle(*PLAN)
    assert len(made) == 1 and said == anew(idle) and "ada" in said.err


@pytest.mark.parametrize("later", [DAY, -3600.0, -900 * DAY, 400 * DAY])
def test_another_time_needs_another_plan(
    idle: Repo, made: list[float], monkeypatch: pytest.MonkeyPatch, later: float
) -> None:
    idle(*PLAN)
    then = SystemClock().now() + later
    monkeypatch.setattr(SystemClock, "now", lambda self: then)
    assert idle(*PLAN) == anew(idle) and len(made) == 3


def test_a_session_whose_time_comes_is_planned_at_that_time(
    idle: Repo, made: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    noon = 1_900_000_000.0
    monkeypatch.setattr(SystemClock, "now", lambda self: noon)
    assert "No changes" in idle(*PLAN).out
    monkeypatch.setattr(SystemClock, "now", lambda self: noon + 59)
    assert idle(*PLAN) == anew(idle) and len(made) == 2
    monkeypatch.setattr(SystemClock, "now", lambda self: noon + 60)
    said = idle(*PLAN)
    assert said == anew(idle) and "1 to create" in said.out


def test_other_code_plans_anew(idle: Repo, made: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    idle(*PLAN)
    # As in another process, which has the other code.
    for module in (document_index, known_documents):
        monkeypatch.setattr(module, "code_fingerprint", sealed_files.code_fingerprint.__wrapped__)
    monkeypatch.setattr(sealed_files, "_installed_distributions", lambda: [["numpy-99.dist-info"]])
    idle(*PLAN)
    assert len(made) == 2


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda file: file.write_bytes(b""),
    "cut off": lambda file: file.write_bytes(file.read_bytes()[:-9]),
    "changed": lambda file: file.write_bytes(file.read_bytes().replace(b"vast", b"fast")),
    "another format": lambda file: file.write_bytes(file.read_bytes().replace(b"index/2", b"index/9")),
    "others may write": lambda file: file.chmod(0o660),
    "the folder is open": lambda file: file.parent.chmod(0o777),
    "a link": lambda file: (file.rename(file.with_suffix(".x")), file.symlink_to(file.with_suffix(".x"))),
    "a FIFO": lambda file: (file.unlink(), os.mkfifo(file)),
    "of another folder": lambda file: rewrite(file, key="0" * 64),
    "no plan": lambda file: rewrite(file, plan={"repo": 1}),
    "part of a plan": lambda file: rewrite(file, plan={"repo": "", "cluster": "here"}),
    "no questions": lambda file: rewrite(file, asked=None),
    "strange questions": lambda file: rewrite(file, asked=[{"sql": "SELECT 1"}]),
    "a question that writes": lambda file: rewrite(
        file, asked=[{"sql": "DELETE FROM resources", "parameters": {}, "answer": ""}]
    ),
    "no SQL": lambda file: rewrite(file, asked=[{"sql": "?", "parameters": {}, "answer": ""}]),
    "no time": lambda file: rewrite(file, until="soon"),
    "never": lambda file: rewrite(file, until="nan"),
}


def rewrite(file: Path, **parts: object) -> None:
    """As somebody would who knows how files of the cache are sealed."""
    content = json.loads(file.read_text().partition("\n")[2])
    for name, part in parts.items():
        (content if name == "key" else content["answer"])[name] = part
    text = json.dumps(content)
    file.write_text(f"{document_index.FORMAT} {sealed_files.digest_of(text.encode())}\n{text}")


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
def test_what_cannot_be_used_is_as_if_it_were_not_there(
    idle: Repo, made: list[float], damage: Callable[[Path], object]
) -> None:
    first = idle(*PLAN)
    damage(cache_file(idle))
    assert idle(*PLAN) == first and len(made) == 2
    with sqlite3.connect(idle.env["BAI_STATE"]) as connection:
        assert connection.execute("SELECT count(*) FROM resources").fetchone()[0] > 0


def test_a_cache_that_nobody_may_write_changes_nothing(idle: Repo, made: list[float]) -> None:
    Path(idle.env["XDG_CACHE_HOME"]).write_text("no folder")
    assert idle(*PLAN) == idle(*PLAN) and len(made) == 2


def test_nobody_else_is_given_it(idle: Repo, made: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    first = idle(*PLAN)
    other = idle.root.parent / "elsewhere"
    idle.root.rename(other)
    assert Repo(other, idle.env)(*PLAN).out == first.out and len(made) == 2


def test_who_wants_no_cache_has_none(idle: Repo, made: list[float]) -> None:
    assert anew(idle) == anew(idle) and len(made) == 2
    assert not Path(idle.env["XDG_CACHE_HOME"]).exists()


def test_a_plan_that_does_something_is_not_remembered(idle: Repo, made: list[float]) -> None:
    idle.session("three", "sleep", "inf")
    assert idle(*PLAN).out == idle(*PLAN).out and len(made) == 2


@pytest.mark.parametrize(
    ("spec", "why"), [("packing: whole-queue", "by the clock"), ("queue: strange", "a stranger's plugin")]
)
def test_where_more_has_a_say_nothing_is_remembered(
    idle: Repo, made: list[float], spec: str, why: str
) -> None:
    idle.write("cluster.yaml", CLUSTER.replace("queue: fifo", spec))
    assert idle(*PLAN) == idle(*PLAN) and len(made) == 2, why


def test_a_plan_rests_on_no_other_file(idle: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """What planning reads that nobody compares would be a plan that is out of date."""
    opened: list[str] = []
    watching = [True]
    # Threads of tests before this one may still dial.
    others_at_work = {each.ident for each in threading.enumerate()} - {threading.get_ident()}

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        events = ("open", "sqlite3.connect", "subprocess.Popen", "socket.connect")
        ours = watching[0] and threading.get_ident() not in others_at_work
        if ours and event in events and not isinstance(arguments[0], int):
            opened.append(f"{event} {arguments[0]!s}")

    idle(*PLAN)  # Modules are loaded.
    idle.session("two", "sleep", "inf", extra="  env: {A: b}\n")
    sys.addaudithook(watch)
    idle(*PLAN)
    watching[0] = False
    known = (str(idle.root), idle.env["BAI_STATE"], idle.env["XDG_CACHE_HOME"], "/dev/null")
    ours = [each for each in opened if not each.endswith((".py", ".pyc")) and "dist-info" not in each]
    others = [each for each in ours if not any(place in each for place in known) and " git" not in each]
    assert others == []
