"""Hours of a month as a page and a file: true to the second, for whom they are, and nothing that computes."""

from __future__ import annotations

import csv
import io
import itertools
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bai.web.panel.numbers.showback import BYS, By, showback_csv, showback_page
from reconciler.values.records import Allocation
from tests.bai.web.lab import Lab
from tests.bai.web.panel.numbers.test_numbers_pages import get
from tests.bai.web.panel.rendering import (
    HOSTILE,
    SECRET,
    assert_harmless,
    hostile,
    render,
    texts_of,
    two_projects,
    view_of,
)
from tests.reconciler.lab import session

Hours = dict[tuple[str, ...], float]
USER = """
apiVersion: bai/v1
kind: User
metadata: {{name: {name}}}
spec: {{email: {name}@x.org, projects: [p]}}
"""
MONTHS = ("2027-01", "2027-02", "2027-03", "2027-04")


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Where clocks are changed in the night of 2027-03-28."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def hours(lab: Lab, month: str, by: By = "project-user", who: str = "viewer") -> Hours:
    """Names → GPU hours, as the file has them."""
    rows = csv.DictReader(io.StringIO(showback_csv(view_of(lab, who), month, by).text))
    names = by.split("-")
    return {tuple(row[name] for name in names): float(row["gpuHours"]) for row in rows}


def sleep_until(lab: Lab, when: str) -> None:
    moment = datetime.fromisoformat(when).replace(tzinfo=UTC).timestamp()
    lab.world.clock.sleep(moment - lab.world.clock.now())


@pytest.mark.usefixtures("berlin")
def test_hours_of_months_are_the_true_ones(tmp_path: Path) -> None:
    """Over the ends of months, and over the night in which Berlin's clocks are changed: months are of UTC."""
    lab = Lab(tmp_path)
    for name in ("ada", "ben"):
        lab.write(name, USER.format(name=name))
    lab.write("a", session("a", "owner: ada@x.org, resources: {cpu: 1, cuda.device: 2}"))
    lab.once()
    lab.once()
    sleep_until(lab, "2027-03-20T12:00:00")
    lab.write("b", session("b", "owner: ben@x.org, resources: {cpu: 1, cuda.device: 1}"))
    lab.once()
    lab.once()
    sleep_until(lab, "2027-04-02T00:30:00")
    lab.drop("a")
    lab.once()
    lab.once()
    sleep_until(lab, "2027-04-10T00:00:00")
    lab.once()
    holdings = lab.workspace.store.holdings("here", 0.0, 1e12)
    (a,) = holdings.ended
    b, now = holdings.recorded["Session/p/b"].started_at, lab.world.clock.now()
    assert b is not None
    starts = [datetime(2027, number, 1, tzinfo=UTC).timestamp() for number in range(1, 6)]
    edges = dict(zip(MONTHS, itertools.pairwise(starts), strict=True))
    found = {month: hours(lab, month) for month in MONTHS}
    for month, (since, until) in edges.items():
        for user, begin, end, gpus in (("ada", a.started, a.ended, 2), ("ben", b, now, 1)):
            true = gpus * max(0.0, min(end, until) - max(begin, since)) / 3600
            assert found[month].get(("p", user), 0.0) == pytest.approx(true, abs=1e-6)
    assert found["2027-02"] == {("p", "ada"): 2 * 28 * 24.0}
    whole = sum(sum(each.values()) for each in found.values())
    assert whole == pytest.approx((2 * (a.ended - a.started) + (now - b)) / 3600, abs=1e-5)
    for month in MONTHS:
        for by, _ in BYS:
            assert sum(hours(lab, month, by).values()) == pytest.approx(sum(found[month].values()), abs=1e-5)
    assert hours(lab, "2026-12") == {} and hours(lab, "2027-05") == {}
    lab.close()


def test_viewers_of_some_projects_get_theirs_alone(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    two_projects(lab)
    lab.world.clock.sleep(3600)
    lab.once()
    everybodys, own = hours(lab, "", "project"), hours(lab, "", "project", "ours")
    assert everybodys.keys() == {("p",), (SECRET,)} and own == {("p",): everybodys["p",]}
    for by, _ in BYS:
        page = showback_page(view_of(lab, "ours"), "", by)
        assert not [text for text in texts_of(page) if SECRET in text]
        assert SECRET not in showback_csv(view_of(lab, "ours"), "", by).text
    lab.close()


def test_what_users_are_called_is_text_on_the_page_and_in_the_file(tmp_path: Path) -> None:
    """Documents have no such names; a store that somebody else has written may."""
    lab = Lab(tmp_path)
    lab.once()
    store, now = lab.workspace.store, lab.world.clock.now()
    lease = store.acquire("here", "me", 60, now)
    names = ("=1+1", "+1", "-2+3", "@x", "\t=1", "ada", HOSTILE, 'a","b\n=1')
    began, gpu = now - 3600, {"cuda.device": 1000}
    held = [
        Allocation(f"Session/p/s{at}", 1, name, began, began, now, 1000, 2**30, gpu)
        for at, name in enumerate(names)
    ]
    store.write(lease, held)
    store.release(lease)
    answer = get(lab, "/numbers/showback.csv?month=2027-01")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="here-2027-01-project-user.csv"'
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    header, *rows = csv.reader(io.StringIO(answer.text))
    assert header == ["project", "user", "sessions", "starts", "gpuHours", "cpuHours", "memoryGiBHours"]
    assert len(rows) == len(names) and {tuple(row[2:]) for row in rows} == {("1", "1", "1.0", "1.0", "1.0")}
    users = [row[1] for row in rows]
    assert {"'=1+1", "'+1", "'-2+3", "'@x", "ada"} < set(users)
    assert not [user for user in users if user.startswith(("=", "+", "-", "@")) or not user.isprintable()]
    shown = get(lab, "/numbers/showback?month=2027-01").text.partition("<main")[2]
    assert "&lt;img src=x" in shown and "<img" not in shown and "\x1b" not in shown and "\u202e" not in shown
    page = showback_page(view_of(lab), "2027-01", "user")
    assert_harmless(render("numbers/showback.html", page=hostile(page)))
    lab.close()


def test_months_can_be_chosen_and_the_file_is_of_the_same(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.once()
    page = showback_page(view_of(lab), "", "project")
    assert page.month == "2027-01" and page.goes_on
    assert page.months[:3] == ("2027-01", "2026-12", "2026-11") and len(page.months) == 24
    old = showback_page(view_of(lab), "2001-02", "project")
    assert old.months[-1] == "2001-02" and not old.goes_on
    shown = get(lab, "/numbers/showback?month=2026-12&by=session").text
    assert "/clusters/here/numbers/showback.csv?month=2026-12&amp;by=session" in shown
    assert "Nothing was held." in shown
    lab.close()
