"""`bai get` with choices: which sessions, in which order; and what it says after the table."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from bai.render.resources.session_filter import (
    SORT_ORDERS,
    SessionFilter,
    choose_rows,
    parse_phases,
    parse_selector,
    sort_rows,
)
from bai.render.resources.status import SessionRow, wait_line
from planner.model.types import Reason, Wait
from schemas.problems.errors.command import CommandError
from tests.bai.conftest import Repo
from tests.bai.test_running_commands import next_line


def row(name: str, phase: str = "RUNNING", seconds: float | None = 5.0, gpus: int = 0) -> SessionRow:
    return SessionRow(f"Session/{name}", phase, "", "", "", "", seconds=seconds, gpu_milli=1000 * gpus)


ROWS = [row("a/z", "PENDING", 9.0), row("b/y", "RUNNING", 3.0, 4), row("c/x", "not applied", None, 1)]


@pytest.mark.parametrize(
    ("text", "labels", "fits"),
    [
        ("team=a", {"team": "a"}, True), ("team==a", {"team": "a"}, True), ("team=a", {"team": "b"}, False),
        ("team!=a", {"team": "b"}, True), ("team!=a", {}, True), ("team!=a", {"team": "a"}, False),
        ("team", {"team": ""}, True), ("team", {}, False), ("!team", {}, True),
        ("!team", {"team": "a"}, False),
        ("team=a,env!=test", {"team": "a", "env": "test"}, False),
        ("team=a, env", {"team": "a", "env": "x"}, True),
        ("n=1", {"n": 1}, True), ("", {}, True),
    ],
)  # fmt: skip
def test_a_selector_is_as_in_kubectl(text: str, labels: dict[str, object], fits: bool) -> None:
    asked = SessionFilter(terms=parse_selector(text))
    assert asked.matches_document({"metadata": {"labels": labels}}) is fits


@pytest.mark.parametrize("text", ["=a", ",", "team=a,", "!", "!=a"])
def test_a_term_without_a_label_is_refused_with_the_known_forms(text: str) -> None:
    with pytest.raises(CommandError) as refused:
        parse_selector(text)
    assert "key!=value" in str(refused.value.fields.get("hint", refused.value.hint))


@pytest.mark.parametrize(
    ("order", "names"),
    [("name", "zyx"), ("age", "yzx"), ("phase", "zyx"), ("project", "zyx"), ("gpus", "yxz"), ("", "zyx")],
)
def test_rows_are_sorted(order: str, names: str) -> None:
    assert "".join(each.id[-1] for each in sort_rows(ROWS, order)) == names


def test_rows_are_chosen_by_phase_owner_and_name() -> None:
    documents = {each.id: {"spec": {"owner": "Ada@x"} if each.id.endswith("y") else {}} for each in ROWS}
    mine = SessionFilter(owners=frozenset({"ada@x"}))
    assert [each.id for each in choose_rows(ROWS, mine, documents.__getitem__)] == ["Session/b/y"]
    waiting = SessionFilter(parse_phases("pending,not-applied"))
    assert len(choose_rows(ROWS, waiting, documents.__getitem__)) == 2


def test_the_forecast_of_who_waits_is_told() -> None:
    wait = Wait("Session/p/s", "g", 1, (Reason("no-capacity", "no"),), latest=100.0)
    assert wait_line(wait) == "1 in queue; no-capacity: no; starts at the latest at 1970-01-01T00:01:40Z"


def test_bad_values_are_said_with_the_known_ones(repo: Repo) -> None:
    for words, parts in (
        (("--phase", "runing\x1b[2J"), ("no phase runing\\x1b[2j", "known are", "running")),
        (("--sort", "size"), ("sorted by size", *SORT_ORDERS)),
        (("--selector", "=x"), ("=x names no label", "key!=value")),
        (("nodes", "--mine"), ("are for sessions",)),
    ):
        said = repo("get", *words)
        assert said.code == 1 and all(part in said.err for part in parts), said.err


def test_sessions_are_listed_by_owner_label_and_phase(repo: Repo, tmp_path: Path) -> None:
    config = tmp_path / "gitconfig"
    config.write_text("[user]\n\tname = Ada\n\temail = ada@cluster.example\n")
    repo.env["GIT_CONFIG_GLOBAL"] = str(config)
    repo.write(
        "ada.yaml",
        "apiVersion: bai/v1\nkind: User\nmetadata: {name: ada}\n"
        "spec: {email: ada@cluster.example, projects: [demo]}\n",
    )
    repo.session("hers", "true", extra="  owner: ada\n")
    path = repo.session("other", "true")
    path.write_text(path.read_text().replace("project: demo}", "project: demo, labels: {team: a}}"))

    def ids(*words: str) -> list[str]:
        items = repo.ok("get", *words, "--format", "json").json["items"]
        return [item["id"].rpartition("/")[2] for item in items]

    assert ids() == ["hers", "other"]
    assert ids("--mine") == ["hers"]
    assert ids("-l", "team=a") == ["other"] and ids("-l", "team!=a") == ["hers"]
    assert ids("--phase", "not-applied") == ["hers", "other"] and ids("--phase", "running") == []


@pytest.mark.slow
def test_get_goes_on_with_what_happens_until_it_is_interrupted(repo: Repo) -> None:
    repo.ok("apply", "--yes")
    repo.session("first", "sleep", "1000")
    with repo.start("get", "--watch", "--phase", "running,not-applied", "-o", "json") as watching:
        try:
            head = ""
            while not head.endswith("}\n") or not _is_json(head):
                head += next_line(watching)
            assert json.loads(head)["items"][0]["id"] == "Session/demo/first"
            repo.ok("apply", "--yes")
            line = json.loads(next_line(watching))
            assert (line["resource"], line["after"]) == ("Session/demo/first", "RUNNING")
            watching.send_signal(signal.SIGINT)
            out, err = watching.communicate(timeout=120)
        finally:
            watching.kill()
    assert watching.returncode == 0 and out == "" and err == ""


@pytest.mark.slow
def test_a_hold_is_told_where_one_would_wonder_and_the_screen_shows_it(repo: Repo) -> None:
    repo.ok("apply", "--yes")
    assert "suspended" not in repo.ok("get").err
    repo.ok("suspend", "--why", "lunch")
    for words in (("get",), ("plan",), ("describe", "Cluster/here")):
        said = repo.ok(*words).err
        assert said.count("the loop is suspended by") == 1 and "(lunch): `bai resume` goes on" in said
    assert "suspended" not in repo.ok("describe", "Project/demo").err
    shown = repo.ok("status", "--format", "json").json
    assert shown["version"] == "bai.status/v1" and shown["loop"]["state"] == "suspended"
    assert shown["loop"]["suspended"]["why"] == "lunch" and shown["lastPass"] is None
    repo.ok("resume")
    repo.ok("reconcile", "--once")
    text = repo.ok("status").out
    assert "a pass every" in text and "nothing was wrong" in text and "nobody waits" in text


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
