"""Commands on real sessions: native processes of this machine, under a root of their own."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bai.cli.formats import Format
from bai.cli.inspect import event_list
from reconciler.values.records import Event
from tests.bai.conftest import PATIENCE, Repo, new_repo, tidy
from tests.waiting import until

LOUD = ("sh", "-c", "echo one; echo two; echo three; exec sleep 1000")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        len(os.sched_getaffinity(0)) < 2, reason="one session takes a core for itself, so two are needed"
    ),
]
DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf'); time.sleep(1000)"


ROOT = Path(__file__).parents[2]


def next_line(started: subprocess.Popen[str]) -> str:
    """The next line of its output; fails when none comes within a minute."""
    box: queue.Queue[str] = queue.Queue()
    assert started.stdout is not None
    stream = started.stdout
    threading.Thread(target=lambda: box.put(stream.readline()), daemon=True).start()
    try:
        return box.get(timeout=PATIENCE)
    except queue.Empty:
        started.kill()
        raise AssertionError("no line came") from None


def phase(repo: Repo, name: str) -> str:
    items = repo.ok("get", "sessions", name, "--format", "json").json["items"]
    return str(items[0].get("phase", ""))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repo]:
    """Applied once: one that talks, one of two containers, one that failed, one that waits."""
    repo = new_repo(tmp_path_factory.mktemp("world"))
    repo.session("talker", *LOUD, cpu="1")
    repo.session("pair", *LOUD, extra="  cluster: {mode: single-node, roles: {main: 1, sub: 1}}\n")
    repo.session("broken", "sh", "-c", "echo oh no; exit 3", kind="batch")
    repo.session("giant", "true", kind="batch", cpu="4096", extra="  priority: 1\n")
    try:
        said = repo.ok("apply", "--yes")
        assert "Session/demo/talker: created" in said.out and "Applied: 9 done" in said.out
        assert "Session/demo/talker: creating" in said.out and "Project/demo: creating" not in said.out
        assert said.out.count("Project/demo: created") == 1
        until(lambda: phase(repo, "broken") == "TERMINATED", "broken has ended")
        for name in ("talker", "pair/main1", "pair/sub1"):
            until(lambda name=name: "three" in repo.ok("logs", name).out, f"{name} has spoken")
        yield repo
    finally:
        tidy(repo)


def test_apply_without_a_terminal_needs_yes(repo: Repo) -> None:
    said = repo("apply")
    assert said.code == 1 and "--yes" in said.err and "Plan: 5 to create." in said.out
    assert not (repo.root / ".bai").exists()


def test_get_lists_sessions(world: Repo) -> None:
    lines = {line.split()[0]: line for line in world.ok("get").out.splitlines()}
    assert lines["SESSION"].split() == ["SESSION", "PHASE", "READY", "NODE", "AGE", "ABOUT"]
    assert "RUNNING" in lines["demo/talker"] and "2/2" in lines["demo/pair"]
    assert (
        "TERMINATED" in lines["demo/broken"]
        and "failure" in lines["demo/broken"]
        and "main1 exited with 3" in lines["demo/broken"]
    )
    assert "PENDING" in lines["demo/giant"] and "4096 cores" in lines["demo/giant"]
    assert "64MiB on numa" in world.ok("get", "sessions", "-o", "wide").out


def test_get_as_json(world: Repo) -> None:
    found = world.ok("get", "all", "--format", "json").json
    assert found["version"] == "bai.resources/v1" and found["complete"]
    items = {item["id"]: item for item in found["items"]}
    assert items["Session/demo/talker"]["kernels"][0]["state"] == "running"
    assert items["Session/demo/giant"]["waits"] and items["Node/localhost"]["applied"]


def test_get_takes_kinds_and_names(world: Repo) -> None:
    assert "demo/talker" in world.ok("get", "talker").out
    assert "demo/pair" not in world.ok("get", "session", "demo/talker").out
    assert "ResourceGroup/local" in world.ok("get", "resource-groups").out
    assert "localhost" in world.ok("get", "nodes").out
    said = world("get", "takler")
    assert said.code == 1 and "did you mean Session/demo/talker?" in said.err


def test_describe_shows_the_cores_that_the_system_gives(world: Repo) -> None:
    kernel = world.ok("describe", "talker", "--format", "json").json["kernels"][0]
    status = Path(f"/proc/{kernel['pid']}/status").read_text()
    allowed = next(line for line in status.splitlines() if line.startswith("Cpus_allowed_list"))
    assert allowed.split()[1] == str(kernel["cpus"][0]) and len(kernel["cpus"]) == 1
    assert kernel["observed"]["cpus"] == kernel["cpus"]
    text = world.ok("describe", "demo/talker").out
    assert (
        f"has     cores {kernel['cpus'][0]}, " in text
        and "command:" in text
        and "CREATING -> RUNNING" in text
    )


def test_describe_says_why_a_session_waits_and_how_one_ended(world: Repo) -> None:
    assert "4096 cores" in world.ok("describe", "giant").out
    assert "exit    3" in world.ok("describe", "broken").out
    assert "numa0 [" in world.ok("describe", "Node/localhost").out


def test_logs(world: Repo) -> None:
    assert world.ok("logs", "talker").out == "one\ntwo\nthree\n"
    assert world.ok("logs", "pair/sub1", "--tail", "1").out == "three\n"
    assert world.ok("logs", "broken", "--follow").out == "oh no\n"
    said = world("logs", "pair/sub9")
    assert said.code == 1 and "main1, sub1" in said.err
    assert world("logs", "giant").code == 1


def test_logs_follow_until_interrupted(world: Repo) -> None:
    with world.start("logs", "-f", "talker") as started:
        assert [next_line(started) for _ in range(3)] == ["one\n", "two\n", "three\n"]
        started.send_signal(signal.SIGINT)
        assert started.wait(timeout=PATIENCE) == 0


def test_an_interrupted_command_exits_with_one() -> None:
    code = "import typer\ndef cut(*a, **k): raise KeyboardInterrupt\ntyper.echo = cut\n"
    code += "from bai.cli.main import run\nimport sys\nsys.exit(run(['version']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 1 and done.stderr == "Interrupted.\n"


def test_exec_gives_output_input_and_exit_code(world: Repo) -> None:
    said = world.process(
        "exec", "talker", "--", "sh", "-c", "grep Cpus_allowed_list /proc/self/status; exit 7"
    )
    kernel = world.ok("describe", "talker", "--format", "json").json["kernels"][0]
    assert said.code == 7 and said.out.split() == ["Cpus_allowed_list:", str(kernel["cpus"][0])]
    assert world.process("exec", "nobody", "--", "true").code == 1


def test_events_tell_every_transition(world: Repo) -> None:
    found = world.ok("events", "talker", "--format", "json").json
    assert found["version"] == "bai.events/v1"
    assert [event["after"] for event in found["events"]][-1] == "RUNNING"
    assert all(event["at"] and event["cause"] and event["actor"] for event in found["events"])
    assert world.ok("events", "-n", "2").out.count("\n") == 2


def test_events_follow_tells_what_happens_next(repo: Repo) -> None:
    repo.ok("apply", "--yes")
    with repo.start("events", "--follow", "-n", "1", "--format", "json") as started:
        past = json.loads(next_line(started))
        repo.session("late", *LOUD)
        repo.ok("apply", "--yes")
        event = json.loads(next_line(started))
        started.send_signal(signal.SIGINT)
        assert started.wait(timeout=PATIENCE) == 0
    assert event["version"] == "bai.event/v1" and event["resource"] == "Session/demo/late"
    assert event["seq"] == past["seq"] + 1


def test_following_begins_where_what_was_printed_ends(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.ok("apply", "--yes")
    repo.session("late", *LOUD)
    printed: list[list[str]] = []

    def print_events(found: Iterable[Event], format: Format) -> None:
        printed.append([f"{each.resource} {each.after}" for each in found])
        if len(printed) > 1:
            raise KeyboardInterrupt
        repo.ok("apply", "--yes")

    monkeypatch.setattr(event_list, "print_events", print_events)
    repo.ok("events", "late", "--follow")
    first, then = printed
    assert first == [] and then[-1] == "Session/demo/late RUNNING"


def test_state_list_and_backup(world: Repo, tmp_path: Path) -> None:
    found = world.ok("state", "list", "--format", "json").json
    assert found["version"] == "bai.state/v1" and found["lease"] is None and found["openSteps"] == []
    copy = tmp_path / "copy.db"
    world.ok("state", "backup", str(copy))
    assert copy.stat().st_size and copy.stat().st_mode & 0o077 == 0
    assert "not overwritten" in world("state", "backup", str(copy)).err
    world.ok("state", "backup", str(tmp_path / "new" / "folder" / "copy.db"))
    assert world("state", "restore", str(copy)).code == 1
    missing = world("state", "restore", str(tmp_path / "nowhere.db"))
    assert missing.code == 1 and "nowhere.db: there is no such file" in missing.err
    junk = world.write("junk", "junk")
    said = world("state", "restore", str(junk), "--yes")
    assert said.code == 1 and "`bai state backup` writes" in said.err and "rebuild" not in said.err
    junk.unlink()
    world.ok("state", "restore", str(copy), "--yes")
    assert world.ok("state", "list", "--format", "json").json["resources"] == found["resources"]
    assert "Nobody holds" in world.ok("state", "unlock").out


def test_nodes_show_who_holds_what(world: Repo) -> None:
    assert "Session/demo/talker holds 1 core" in world.ok("nodes", "show", "localhost").out
    row = world.ok("nodes", "list", "--format", "json").json["nodes"][0]
    assert (row["cores"]["used"], row["cores"]["sharedMilli"]) == (1, 200)
    assert row["memory"]["used"] == 3 * (64 << 20)
    assert f" 1.2/{row['cores']['total']} " in world.ok("nodes", "list").out


def test_saved_plan_is_applied_exactly_or_refused(repo: Repo, tmp_path: Path) -> None:
    saved = str(tmp_path / "plan.json")
    repo.session("one", *LOUD)
    repo.ok("plan", "--out", saved)
    repo.session("two", *LOUD)
    repo.ok("apply", saved)
    assert phase(repo, "one") == "RUNNING" and phase(repo, "two") == ""
    again = repo("apply", saved)
    assert again.code == 1 and "stale" in again.err
    Path(saved).write_text("{}")
    assert repo("apply", saved).code == 1
    assert repo("apply", str(tmp_path / "none.json")).code == 1
    assert repo("apply", saved, "--target", "x").code == 1


def test_a_lost_store_is_rebuilt(repo: Repo) -> None:
    repo.session("kept", *LOUD)
    repo.ok("apply", "--yes")
    for path in (repo.root / ".bai").iterdir():
        path.unlink()
    assert "Session/demo/kept" in repo.ok("state", "rebuild").out
    assert phase(repo, "kept") == "RUNNING"
    assert "Session/demo/kept" not in [item["id"] for item in plan_changes(repo)]


def plan_changes(repo: Repo) -> list[dict[str, Any]]:
    actions = repo.ok("plan", "--format", "json").json["plan"]["actions"]
    return [action for action in actions if action["verb"] != "no-op"]


def test_what_runs_unrecorded_is_drift(repo: Repo) -> None:
    repo.session("found", *LOUD)
    repo.ok("apply", "--yes")
    for path in (repo.root / ".bai").iterdir():
        path.unlink()
    shown = repo.ok("plan", "--refresh-only").out
    assert "Drift" in shown and "Session/demo/found" in shown and "no record" in shown
    assert "Recorded what was seen" in repo.ok("apply", "--refresh-only").out


def test_a_killed_session_says_so_and_is_made_again(repo: Repo) -> None:
    def pid() -> int | None:
        kernels = repo.ok("describe", "victim", "--format", "json").json["kernels"]
        return kernels[0]["pid"] if kernels else None

    repo.session("victim", *LOUD)
    repo.ok("apply", "--yes")
    victim = pid()
    assert victim
    os.kill(victim, signal.SIGKILL)
    until(lambda: "signal 9" in repo.ok("get").out, "it is seen to be gone")
    planned = repo.ok("plan").out
    assert "Drift" in planned and "main1 exited with 137 (signal 9)" in planned
    repo.ok("apply", "--yes")
    until(lambda: pid() not in (None, victim), "it runs again")
    assert "No changes" in repo.ok("plan").out


def test_a_failing_session_is_named_and_the_rest_goes_on(repo: Repo) -> None:
    repo.session("good", *LOUD)
    repo.session("bad", "/no/such/program")
    said = repo("apply", "--yes")
    until(lambda: phase(repo, "good") == "RUNNING", "the good one runs")
    if said.code:
        assert "Session/demo/bad" in said.out
    else:
        until(lambda: phase(repo, "bad") in ("TERMINATED", "ERROR"), "the bad one has ended")


INTERRUPTED = (0, 1, -signal.SIGINT)
"""Exit codes of an apply that was interrupted: it may have come to its end by itself just then."""


def begin_slow_apply(repo: Repo) -> Any:
    repo.session("deaf", "python3", "-uc", DEAF, extra="  stop: {grace: 2s}\n")
    repo.ok("apply", "--yes")
    until(lambda: "deaf" in repo.ok("logs", "deaf").out, "it does not listen")
    (repo.root / "deaf.yaml").unlink()
    started = repo.start("apply", "--yes", stderr=subprocess.STDOUT)
    while line := next_line(started):
        if line.startswith("Session/demo/deaf: deleting"):
            return started
    raise AssertionError("the apply never began")


def test_the_first_interrupt_stops_cleanly(repo: Repo) -> None:
    started = begin_slow_apply(repo)
    started.send_signal(signal.SIGINT)
    with started:
        out = started.stdout.read()  # `communicate` would leave out what came with the last line.
    assert started.returncode in INTERRUPTED
    assert "Applied" in out or "Interrupted" in out
    assert repo.ok("state", "list", "--format", "json").json["lease"] is None


def test_the_second_interrupt_leaves_at_once_and_the_next_run_converges(repo: Repo) -> None:
    started = begin_slow_apply(repo)
    started.send_signal(signal.SIGINT)
    time.sleep(0.2)
    started.send_signal(signal.SIGINT)
    started.communicate(timeout=120)
    assert started.returncode in INTERRUPTED
    repo.ok("apply", "--yes")
    assert plan_changes(repo) == []


def test_destroy_asks_and_leaves_nothing(repo: Repo) -> None:
    repo.session("one", *LOUD)
    repo.ok("apply", "--yes")
    assert repo("destroy").code == 1 and phase(repo, "one") == "RUNNING"
    assert "deleted" in repo.ok("destroy", "--yes").out
    assert list(Path(repo.env["BAI_PROCESS_ROOT"]).glob("kernels/*")) == []
    assert repo.ok("destroy", "--yes").out.endswith("No changes.\n")


def test_a_protected_session_is_not_destroyed(repo: Repo) -> None:
    path = repo.session("dear", *LOUD)
    open_text = path.read_text()
    path.write_text(open_text.replace("project: demo}", 'project: demo, annotations: {bai/protect: "true"}}'))
    repo.ok("apply", "--yes")
    path.unlink()
    refused = repo("plan")
    assert refused.code == 1 and "demo/dear would be deleted, and is protected" in refused.out
    assert repo("destroy", "--yes").code == 1
    path.write_text(open_text)
    repo.ok("apply", "--yes")


def test_a_person_at_a_terminal_is_asked_and_sees_colour(repo: Repo) -> None:
    pexpect = pytest.importorskip("pexpect")
    repo.session("one", *LOUD)
    code = "from bai.cli.main import main; main()"
    environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | repo.env
    environment |= {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    for answer, expected in (("no", "was not yes"), ("yes", "Applied: ")):
        child = pexpect.spawn(
            sys.executable,
            ["-c", code, "-C", str(repo.root), "apply"],
            env=environment,
            cwd=str(Path(__file__).parents[2]),
            encoding="utf-8",
            timeout=PATIENCE,
            use_poll=True,
            dimensions=(50, 120),
        )
        child.expect("\x1b\\[")
        child.expect("Plan: 6 to create")
        child.expect("Only `yes` goes ahead")
        child.sendline(answer)
        child.expect(expected)
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == (0 if answer == "yes" else 1)
    assert phase(repo, "one") == "RUNNING"
