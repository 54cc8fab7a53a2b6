"""`bai status`: what loops and people wrote into the store, on one screen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bai.render.printout import overview_lines
from bai.render.resources.audit import audit_lines
from bai.render.resources.cluster_status import (
    UNEXPLAINED,
    ClusterStatus,
    GpuCount,
    count_gpus,
    count_queue,
    status_json,
    status_overview,
)
from bai.render.resources.history import HistoryEntry, history_line
from bai.render.resources.loop_status import APPROVAL, LoopStatus, hold_lines
from bai.render.resources.status import SessionFacts
from planner.model.types import Reason, Wait
from providers.fake import FakeProvider, VirtualClock, World
from reconciler.controller.pass_note import PassNote, PassRecorder, read_pass_note
from reconciler.gitops.directives import Directive, Directives, issue_directive
from reconciler.values.records import Audit
from reconciler.workspace.workspace import Workspace
from tests.bai.conftest import Repo
from tests.bai.plans import machine, placed
from tests.reconciler.gitops.repositories import git
from tests.reconciler.lab import BASE, NODE, session
from tests.reconciler.looped import Looped

TOLD = Directive("eve\x1b[2J", 100.0, "lunch\nbreak", "c" * 40)
NOTE = PassNote("ada@host", 100.0, "a" * 40, True, process="p", interval=30.0)


@pytest.fixture
def looped(tmp_path: Path) -> Iterator[Looped]:
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "all.yaml").write_text(BASE + "---" + NODE.format(name="n1"))
    world = World(VirtualClock(1_800_000_000.0))
    workspace = Workspace.open(folder, state=tmp_path / "store.db", clock=world.clock)
    workspace.provider = FakeProvider(world)
    made = Looped(workspace, world)
    yield made
    made.close()


def test_a_pass_is_written_down_when_it_ends_otherwise_and_not_when_nothing_is_new(looped: Looped) -> None:
    workspace = looped.workspace
    cluster, store = workspace.cluster.name, workspace.store
    written: list[str] = []
    keep = store.set_meta

    def set_meta(key: str, value: str) -> None:
        written.append(key)
        keep(key, value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "set_meta", set_meta)
        looped.loop.add_listener(PassRecorder(looped.loop).record)
        looped.once()
        looped.once()
        first = read_pass_note(store, cluster)
        assert first is not None and first.good and first.holder == "loop"
        count = len(written)
        for _ in range(3):
            looped.once()
        assert len(written) == count and read_pass_note(store, cluster) == first
        issue_directive(store, cluster, "suspend", Directive("ada", 1.0, "lunch"))
        looped.once()
        after = read_pass_note(store, cluster)
    assert after is not None and after.since > first.since and "suspended by ada" in after.notes[0]
    assert after.started == first.started


def test_who_waits_does_not_fill_the_note(looped: Looped) -> None:
    folder = looped.workspace.source.directory
    for at in range(3):
        (folder / f"s{at}.yaml").write_text(
            session(f"s{at}", "type: batch, resources: {cpu: 4096, memory: 1GiB}")
        )
    looped.loop.add_listener(PassRecorder(looped.loop).record)
    said = looped.once()
    note = read_pass_note(looped.workspace.store, looped.workspace.cluster.name)
    assert sum(" waits: " in line for line in said) == 3
    assert note is not None and not any(" waits: " in line for line in note.notes)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (LoopStatus("never"), "never"),
        (LoopStatus("running", last_pass=NOTE), "running"),
        (LoopStatus("stopped", last_pass=NOTE), "stopped"),
        (LoopStatus("running", last_pass=replace(NOTE, signs={APPROVAL: "c waits"})), "awaiting-approval"),
        (LoopStatus("stopped", last_pass=replace(NOTE, signs={APPROVAL: "c waits"})), "stopped"),
        (LoopStatus("running", directives=Directives(pin=TOLD), last_pass=NOTE), "held"),
        (LoopStatus("running", directives=Directives(pin=TOLD, suspend=TOLD)), "suspended"),
    ],
)
def test_an_order_goes_before_what_the_process_does(status: LoopStatus, state: str) -> None:
    assert status.state == state


def test_a_hold_says_by_whom_since_when_and_how_to_resume_and_drives_no_terminal() -> None:
    held, suspended = hold_lines(Directives(pin=TOLD))[0], hold_lines(Directives(suspend=TOLD))[0]
    for line in (held, suspended):
        assert "eve\\x1b[2J since 1970-01-01T00:01:40Z (lunch\\nbreak): `bai resume`" in line
        assert "\x1b" not in line and "\n" not in line
    assert "held at cccccccccccc by" in held


def test_the_queue_is_counted_by_what_is_waited_for() -> None:
    rows = [SessionFacts(f"Session/p/s{at}", "PENDING", None, 0.0) for at in range(4)]
    rows.append(SessionFacts("Session/p/r", "RUNNING", None, 0.0))
    waits = {
        row.id: Wait(row.id, "g", 1, (Reason(code, ""),))
        for row, code in zip(rows, ("quota", "no-capacity", "no-capacity"), strict=False)
    }
    assert count_queue(rows, waits) == {"no-capacity": 2, "quota": 1, UNEXPLAINED: 1}


def test_a_gpu_is_free_only_where_a_session_could_have_it() -> None:
    node = machine()
    total = len(node.hardware.gpus)
    well = sum(gpu.healthy for gpu in node.hardware.gpus)
    held = placed("Session/p/s", (), (0,), node=node.name)
    assert well < total
    assert count_gpus([node], [held], ()) == {"a100": GpuCount(total, well - 1)}
    assert count_gpus([node], [], [node.name]) == {"a100": GpuCount(total, 0)}
    assert count_gpus([replace(node, state="cordoned")], [], ()) == {"a100": GpuCount(total, 0)}


def test_one_screen_holds_all_of_it() -> None:
    running = tuple(SessionFacts(f"Session/p/s{at:03}", "RUNNING", None, 0.0) for at in range(200))
    found = ClusterStatus(
        "here", "a" * 40, LoopStatus("running", "ada@host", 50.0, last_pass=NOTE), {"quota": 2},
        {"a100": GpuCount(8, 3)}, {"RUNNING": 200}, running,
    )  # fmt: skip
    lines = list(overview_lines(status_overview(found)))
    text = "\n".join(lines)
    assert len(lines) <= 24
    for part in ("here at aaaaaaaaaaaa", "running since 1970", "every 30s", "nothing was wrong", "2 quota",
                 "3 of 8 free: a100 3 of 8", "p/s000", "and 185 more"):  # fmt: skip
        assert part in text
    shown = status_json(found)
    assert shown["queue"] == {"quota": 2} and shown["gpus"] == {"a100": {"free": 3, "total": 8}}


def test_the_author_stands_beside_who_applied() -> None:
    entry = Audit("create", "Session/p/s", 100.0, actor="loop", commit="a" * 40)
    (line,) = audit_lines(entry, "Mal\x1b[2J <m@x>", changes=False)
    assert "by loop at aaaaaaaaaaaa of Mal\\x1b[2J <m@x>" in line and "\x1b" not in line
    shown = history_line(HistoryEntry(100.0, "apply", "loop", "a" * 40), "subject", "Mal\u202e <m@x>")
    assert "by loop" in shown and "subject of Mal\\u202e <m@x>" in shown


@pytest.mark.slow
def test_history_and_audit_name_the_author_of_the_commit(repo: Repo) -> None:
    git(repo.root, "init", "--quiet")
    (repo.root / ".gitignore").write_text(".bai\n")
    git(repo.root, "add", ".")
    git(repo.root, "commit", "--quiet", "--message", "first", "--author", "Eve\x1b[2J <eve@cluster.example>")
    repo.ok("--revision", "HEAD", "apply", "--yes")
    for words in (("history",), ("audit", "Cluster/here")):
        said = repo.ok(*words).out
        assert "of Eve\\x1b[2J <eve@cluster.example>" in said and "by " in said and "\x1b" not in said
    assert repo.ok("history", "--format", "json").json["items"][0]["author"].startswith("Eve")
    assert repo.ok("audit", "--format", "json").json["entries"][0]["author"].endswith("<eve@cluster.example>")
