"""`bai report` with the real command, real processes and a real store."""

from __future__ import annotations

import csv
import io
import time

import pytest

from bai.cli.time_arguments import parse_period
from bai.render.analysis.usage_report import usage_columns, usage_csv, usage_json, usage_rows
from bai.settings import Settings
from reconciler.values.usage.totals import HeldTotal, Period
from schemas.problems.errors.command import CommandError
from tests.bai.conftest import CLUSTER, Repo
from tests.waiting import until

NOW = 1_795_608_000.0  # 2026-11-25T12:00:00Z
NOVEMBER, DECEMBER = 1_793_491_200.0, 1_796_083_200.0


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("2026-11", "", ""), (NOVEMBER, DECEMBER)),
        (("2026-12", "", ""), (DECEMBER, DECEMBER + 31 * 86_400)),
        (("", "", ""), (NOVEMBER, DECEMBER)),
        (("", "2h", ""), (NOW - 7200, NOW)),
        (("", "2026-11-24", "2026-11-25T01:00:00+01:00"), (NOW - 36 * 3600, NOW - 12 * 3600)),
        (("", "", "2026-11-02"), (NOVEMBER, NOVEMBER + 86_400)),
    ],
)
def test_the_time_that_is_meant(words: tuple[str, str, str], wanted: tuple[float, float]) -> None:
    assert parse_period(*words, NOW) == Period(*wanted)


@pytest.mark.parametrize(
    "words",
    [
        ("2026-13", "", ""),
        ("november", "", ""),
        ("2026-11", "1h", ""),
        ("", "1h", "2h"),
        ("", "x", ""),
        ("0000-01", "", ""),
    ],
)
def test_a_time_that_is_none(words: tuple[str, str, str]) -> None:
    with pytest.raises(CommandError):
        parse_period(*words, NOW)


def test_no_name_is_a_formula() -> None:
    totals = {"=cmd|'x'!A1": HeldTotal(), "a,b": HeldTotal()}
    report = usage_json("user", Period(0.0, 1.0), totals, None)
    rows = list(csv.reader(io.StringIO(usage_csv(report))))
    assert [row[0] for row in rows] == ["user", "'=cmd|'x'!A1", "a,b"]


@pytest.mark.parametrize(
    "name",
    ["=1+1", "+1", "-1", "@SUM(A1)", " =1", "\t=1", "\r=1", "\n@x", "＝1", "＋1", "－1", "＠x", "=1\n=2"],
)  # fmt: skip
def test_no_user_is_a_formula_in_any_column(name: str) -> None:
    report = usage_json("project-user", Period(0.0, 1.0), {f"p/{name}": HeldTotal()}, None)
    header, row = csv.reader(io.StringIO(usage_csv(report)))
    assert header[:3] == ["project", "user", "sessions"] and row[0] == "p"
    assert row[1].startswith("'") or row[1][0] == "\\"
    assert len(row) == len(header) and row[2:] == ["0", "0", "0.0", "0.0", "0.0"]


def test_hours_by_project_and_user_have_both_names() -> None:
    totals = {"p/a/b": HeldTotal({"s"}), "p/": HeldTotal(), "q/ada": HeldTotal()}
    report = usage_json("project-user", Period(0.0, 1.0), totals, None)
    assert [(each["project"], each["user"]) for each in report["items"]] == [
        ("p", "a/b"), ("p", ""), ("q", "ada"),
    ]  # fmt: skip
    rows = usage_rows("project-user", totals, wide=True)
    assert [row[:2] for row in rows] == [["p", "a/b"], ["p", ""], ["q", "ada"], ["total", ""]]
    assert {len(row) for row in rows} == {len(usage_columns("project-user", wide=True))}


def test_hours_of_what_ran_and_of_what_runs(repo: Repo) -> None:
    repo.session("short", "sleep", "0.2", kind="batch", cpu="500m")
    repo.session("long", "sleep", "1000", extra="  owner: jo@example.org\n")
    repo.write(
        "jo.yaml",
        "apiVersion: bai/v1\nkind: User\nmetadata: {name: jo}\n"
        "spec: {email: jo@example.org, projects: [demo]}\n",
    )
    begin = time.time()
    repo.ok("apply", "--yes")
    until(lambda: "TERMINATED" in repo.ok("get", "short").out, "it ends")
    repo.ok("apply", "--yes")

    def hours() -> dict[str, float]:
        found = repo.ok("report", "usage", "--by", "session", "--since", "1h", "--format", "json").json
        assert found["version"] == "bai.usage/v1" and found["completeSince"] is None
        return {item["session"]: item["cpuHours"] for item in found["items"]}

    first = hours()
    assert 0 < first["Session/demo/short"] <= (time.time() - begin) * 0.5 / 3600
    until(lambda: hours()["Session/demo/long"] > first["Session/demo/long"], "what runs holds on")
    assert hours()["Session/demo/short"] == first["Session/demo/short"]
    users = repo.ok("report", "usage", "--by", "user", "--since", "1h", "-o", "csv").out.splitlines()
    assert users[0].startswith("user,sessions,starts,gpuHours") and any(
        line.startswith("jo,1,1,") for line in users
    )
    table = repo.ok("report", "usage", "--since", "1h", "-o", "wide").out
    assert table.splitlines()[0].split()[:2] == ["PROJECT", "SESSIONS"] and "demo" in table
    assert repo.ok("report", "usage", "--month", "2001-01").out == ""


def test_what_is_not_measured_is_unknown(repo: Repo) -> None:
    repo.session("plain", "sleep", "0.2", kind="batch", cpu="500m")
    repo.ok("apply", "--yes")
    until(lambda: "TERMINATED" in repo.ok("get", "plain").out, "it ends")
    repo.ok("apply", "--yes")
    said = repo.ok("report", "efficiency", "plain")
    assert "CPU      unknown: nobody measured it" in said.out and "sampleInterval" in said.err
    found = repo.ok("report", "efficiency", "plain", "--format", "json").json
    assert found["cpu"]["percent"] is None and found["gpu"] is None and found["endedAt"]
    said = repo("report", "efficiency", "nothing")
    assert said.code == 1 and "no session named nothing" in said.err


@pytest.mark.slow  # Nothing is sampled more often than each ten seconds.
def test_what_is_measured_is_told_while_it_runs_and_when_it_has_ended(repo: Repo) -> None:
    repo.write(
        "cluster.yaml",
        CLUSTER.replace("provider: process}", "provider: process, accounting: {sampleInterval: 10s}}"),
    )
    work = "import time\nx = bytearray(20 << 20)\nwhile time.process_time() < 0.5: pass\ntime.sleep(1000)"
    repo.session("busy", "python3", "-c", work, cpu="500m")
    repo.ok("apply", "--yes")

    def used() -> float:
        return repo.ok("report", "efficiency", "busy", "--format", "json").json["cpu"]["used"] or 0.0

    until(lambda: used() >= 0.5, "it has computed")
    found = repo.ok("report", "efficiency", "busy", "--format", "json").json
    assert found["endedAt"] is None and found["cpu"]["percent"] > 0
    assert 20 << 20 <= found["memory"]["used"] <= found["memory"]["given"] == 64 << 20

    def stored() -> float:
        repo.ok("apply", "--yes", "--refresh-only")
        with Settings(directory=repo.root).workspace() as workspace:
            [[*_, last]] = workspace.store.samples("here").values()
        return last.total.cpu or 0.0

    until(lambda: stored() >= 0.5, "it was measured again")
    (repo.root / "busy.yaml").unlink()
    repo.ok("apply", "--yes")
    said = repo.ok("report", "efficiency", "busy")
    assert "measured until" in said.out and "unknown" not in said.out
    found = repo.ok("report", "efficiency", "busy", "--format", "json").json
    assert found["endedAt"] and found["memory"]["used"] >= 20 << 20
