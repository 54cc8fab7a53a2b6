"""Stores on a server and the audit, as somebody at the command line meets them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bai.conftest import CLUSTER, Repo, new_repo
from tests.lab.postgres import PASSWORD, Server
from tests.waiting import until

pytestmark = pytest.mark.slow


@pytest.fixture
def url(postgres: Server) -> Iterator[str]:
    made = postgres.database(empty=True)
    yield made
    postgres.drop(made)


@pytest.fixture
def shared(tmp_path: Path, url: str) -> Iterator[Repo]:
    """A repository whose cluster says where the store is, as its owner does."""
    repo = new_repo(tmp_path)
    repo.env["BAI_STATE"] = url
    document = CLUSTER.replace("{provider: process}", f"{{provider: process, state: '{url}'}}", 1)
    repo.write("cluster.yaml", document)
    yield repo
    for path in repo.root.glob("s*.yaml"):
        path.unlink()
    repo.ok("destroy", "--yes")
    assert list(Path(repo.env["BAI_PROCESS_ROOT"]).glob("kernels/*")) == []


def test_what_one_applies_another_sees(shared: Repo, url: str, tmp_path: Path) -> None:
    shared.session("s1", "sleep", "1000")
    shared.ok("apply", "--yes")
    listed = shared.ok("state", "list", "--format", "json").json
    assert listed["store"] == url and {"Session/demo/s1"} <= {each["id"] for each in listed["resources"]}
    assert not (shared.root / ".bai" / "store.db").exists()
    other = Repo(tmp_path / "clone", shared.env)
    other.root.mkdir()
    for path in shared.root.glob("*.yaml"):
        other.write(path.name, path.read_text())
    assert "s1" in other.ok("get", "sessions").out
    assert "no changes" in other.ok("plan").out.lower()
    found = {each["name"]: each for each in shared("doctor", "--format", "json").json["findings"]}
    assert found["store"]["status"] == "ok" and "recorded" in found["store"]["message"]


def test_no_password_is_ever_printed(repo: Repo, postgres: Server, url: str) -> None:
    secret = postgres.url_with_password(url, PASSWORD)
    repo.session("s1", "sleep", "1000")
    shown = ""
    for words in (
        ("plan",), ("apply", "--yes"), ("state", "list", "--format", "json"), ("audit", "--format", "json"),
        ("doctor",), ("destroy", "--yes"),
    ):  # fmt: skip
        said = repo("--state", secret, *words)
        shown += said.out + said.err
    assert "***" in shown
    for part in (PASSWORD, "lab%2Fsecret", "secret@word", "secret%40word"):
        assert part not in shown
    wrong = repo("--state", postgres.url_with_password(url, "hunter2"), "plan")
    assert wrong.code == 1 and "hunter2" not in wrong.err and "passwordFrom" in wrong.err


def test_a_server_that_is_not_there_is_said_in_words_and_nothing_is_guessed(repo: Repo) -> None:
    repo.session("s1", "sleep", "1000")
    for words in (("plan",), ("apply", "--yes"), ("get", "sessions"), ("audit",)):
        said = repo("--state", "postgresql://bai@127.0.0.1:1/bai", *words)
        assert said.code == 1 and "BAI-E0403" in said.err and "Traceback" not in said.err, words
    assert "a store is a file" in repo("--state", "mysql://db/bai", "plan").err
    assert not (repo.root / ".bai" / "store.db").exists()
    repo.ok("apply", "--yes")


def test_the_store_moves_to_a_server_and_back(repo: Repo, url: str, tmp_path: Path) -> None:
    repo.session("s1", "sleep", "1000")
    repo.ok("apply", "--yes")
    events = repo.ok("events", "--format", "json").json
    assert "BAI-E0603" in repo("state", "move", url).err
    said = repo.ok("state", "move", url, "--yes")
    assert "Moved" in said.out and url in said.out
    refused = repo("plan")
    assert refused.code == 1 and "BAI-E0404" in refused.err and url in refused.err
    assert repo.ok("--state", url, "events", "--format", "json").json == events
    assert "no changes" in repo.ok("--state", url, "plan").out.lower()
    repo.ok("--state", url, "state", "backup", str(tmp_path / "copy.db"))
    repo.ok("--state", url, "state", "restore", str(tmp_path / "copy.db"), "--yes")
    repo.ok("--state", url, "state", "move", str(repo.root / ".bai" / "store.db"), "--yes")
    assert "no changes" in repo.ok("plan").out.lower()
    verbs = [each["verb"] for each in repo.ok("audit", "--format", "json").json["entries"]]
    assert verbs[0] == "apply" and [v for v in verbs if v in ("move", "restore")] == [
        "move",
        "restore",
        "move",
    ]


def test_the_audit_says_who_changed_what_by_which_plan(repo: Repo, tmp_path: Path) -> None:
    repo.session("s1", "sleep", "1000")
    repo.session("s2", "sleep", "1000")
    repo.ok("apply", "--yes")
    repo.session("s1", "sleep", "2000")
    repo.ok("plan", "--out", str(tmp_path / "plan.json"))
    digest = json.loads((tmp_path / "plan.json").read_text())["plan"]["digest"]
    repo.ok("apply", str(tmp_path / "plan.json"), "--yes")
    entries = repo.ok("audit", "s1", "--format", "json").json["entries"]
    assert [each["verb"] for each in entries] == ["create", "replace"]
    assert entries[1]["plan"] == digest and entries[1]["before"] == entries[0]["after"] != entries[1]["after"]
    changed = {each["path"]: (each["before"], each["after"]) for each in entries[1]["changes"]}
    assert "1000" in changed["spec.command"][0] and "2000" in changed["spec.command"][1]
    placed = {each["path"]: each["after"] for each in entries[0]["changes"]}
    assert placed["placement"].startswith("localhost: ")
    by_plan = repo.ok("audit", "--plan", digest[:10], "--format", "json").json["entries"]
    assert [each["verb"] for each in by_plan] == ["apply", "replace"]
    shown = repo.ok("audit", "s1", "--changes").out
    assert "replace Session/demo/s1: spec changed" in shown and "spec.command: " in shown
    assert repo.ok("audit", "--since", "1h", "--until", "2001-01-01").out == ""
    assert repo.ok("audit", "--actor", "nobody").out == ""
    assert "neither a time nor a duration" in repo("audit", "--since", "yesterday").err


def test_a_deleted_session_is_still_in_the_audit(repo: Repo) -> None:
    path = repo.session("s1", "sleep", "1000")
    repo.ok("apply", "--yes")
    path.unlink()
    repo.ok("apply", "--yes")
    assert "delete Session/demo/s1" in repo.ok("audit", "s1").out


def test_events_of_others_are_followed_over_the_server(shared: Repo) -> None:
    shared.ok("apply", "--yes")
    with shared.start("events", "--follow", "--format", "json") as follower:
        try:
            shared.session("s1", "sleep", "1000")
            shared.ok("apply", "--yes")
            assert follower.stdout is not None
            lines: list[dict[str, str]] = []
            stdout = follower.stdout
            until(
                lambda: lines.append(json.loads(stdout.readline())) or lines[-1]["after"] == "RUNNING", "it"
            )
        finally:
            follower.kill()


def test_status_knows_a_loop_on_a_server_by_its_lead(shared: Repo) -> None:
    assert shared.ok("status", "--format", "json").json["loop"]["state"] == "never"
    with shared.start("reconcile", "--interval", "1s", "--lease", "120s") as loop:
        try:
            shown = until(
                lambda: (
                    found
                    if (found := shared.ok("status", "--format", "json").json)["lastPass"]
                    and found["lastPass"]["endedAt"]
                    else None
                ),
                "the leader has told of a pass",
            )
            assert shown["loop"]["state"] == "running" and shown["lastPass"]["good"]
            assert f"process {loop.pid}" in shown["loop"]["holder"]
            loop.terminate()
            loop.communicate(timeout=120)
        finally:
            loop.kill()
    assert shared.ok("status", "--format", "json").json["loop"]["state"] == "stopped"
