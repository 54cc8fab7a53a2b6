"""URLs of apps, where sessions are shown: by commands, the API and pages, to whom they are to be told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bai.queries import models
from bai.queries.answers import answer
from bai.render.printout import Lines, Table
from bai.web.panel.views.session_page import session_page
from tests.bai.apps import PORTS, PROXY
from tests.bai.web.lab import Lab
from tests.bai.web.panel.rendering import assert_harmless, hostile, render, view_of
from tests.reconciler.lab import session

SESSION = "Session/p/lab"
JUPYTER = "https://jupyter--lab--p.apps.example:8443"
BOARD = "https://board--lab--p.apps.example:8443"
OTHERS = """
apiVersion: bai/v1
kind: Project
metadata: {name: example}
spec: {}
---
apiVersion: bai/v1
kind: Project
metadata: {name: apps}
spec: {}
---
apiVersion: bai/v1
kind: Project
metadata: {name: jupyter}
spec: {}
---
apiVersion: bai/v1
kind: Project
metadata: {name: kind}
spec: {}
---
apiVersion: bai/v1
kind: User
metadata: {name: ada}
spec: {projects: [p]}
"""
RULES = "owner: ada, apps: {board: {access: project}}"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One session with apps, one without; projects of others are called as a part of their domain, an app,
    and fields of answers."""
    made = Lab(tmp_path_factory.mktemp("lab"))
    made.write("others", OTHERS)
    made.write("lab", session("lab", f"{PORTS}, {RULES}"))
    made.write("plain", session("plain"))
    made.write("theirs", session("theirs", PORTS).replace("project: p", "project: example"))
    made.write("proxy", PROXY)
    for _ in range(3):
        made.once()
    yield made
    made.close()


def lines_of(lab: Lab, query: models.Query, who: str = "viewer") -> list[str]:
    found = answer(view_of(lab, who), query)
    return [
        "".join(span.text for span in spans)
        for block in found.blocks
        if isinstance(block, Lines)
        for spans in block.lines
    ]


def test_the_wide_list_has_a_column_of_them_and_the_usual_one_has_none(shown: Lab) -> None:
    (wide,) = answer(view_of(shown), models.GetQuery(kind="Session", form="wide", project="p")).blocks
    assert isinstance(wide, Table)
    at = wide.columns.index("apps")
    assert [row[at] for row in wide.rows] == [f"{JUPYTER} {BOARD}", ""]
    (usual,) = answer(view_of(shown), models.GetQuery(kind="Session")).blocks
    assert isinstance(usual, Table) and "apps" not in usual.columns


def test_whoever_asks_for_one_session_is_told_where_its_apps_are(shown: Lab) -> None:
    assert lines_of(shown, models.GetQuery(kind="Session", name="p/lab")) == [
        f"jupyter  {JUPYTER}  ready, for its owner ada and operators of p",
        f"board  {BOARD}  ready, for whoever may look at p",
    ]
    assert lines_of(shown, models.GetQuery(kind="Session", name="plain")) == []


def test_programs_get_them_with_each_session(shown: Lab) -> None:
    found = answer(view_of(shown), models.GetQuery(kind="Session", form="json", project="p")).document
    assert {each["id"]: each["apps"] for each in found["items"]} == {
        SESSION: [
            {"name": "jupyter", "url": JUPYTER, "protocol": "http", "access": "operators"},
            {"name": "board", "url": BOARD, "protocol": "http", "access": "project"},
        ],
        "Session/p/plain": [],
    }


def test_the_description_has_state_and_who_may_open_them(shown: Lab) -> None:
    lines = lines_of(shown, models.DescribeQuery(resource="p/lab"))
    at = lines.index("Apps")
    assert lines[at : at + 4] == [
        "Apps",
        f"  jupyter  {JUPYTER}",
        "    state   ready",
        "    open to its owner ada and operators of p",
    ]
    assert "Apps" not in lines_of(shown, models.DescribeQuery(resource="plain"))
    (first, _) = answer(view_of(shown), models.DescribeQuery(resource="p/lab", form="json")).document["apps"]
    assert first == {
        "name": "jupyter", "url": JUPYTER, "protocol": "http", "access": "operators", "state": "ready"
    }  # fmt: skip


def test_the_api_has_them_and_a_part_of_the_domain_that_is_a_project_s_name_stays(shown: Lab) -> None:
    for who in ("viewer", "ours"):
        found = shown.get(f"/api/v1/clusters/here/resources/{SESSION}", who)
        assert [each["url"] for each in found["apps"]] == [JUPYTER, BOARD]
    everything = shown.get("/api/v1/clusters/here/resources", "ours")
    assert "theirs" not in str(everything)


def test_projects_of_others_that_are_called_as_an_app_or_a_field_hide_nothing(shown: Lab) -> None:
    path = "/api/v1/clusters/here/commands/apps?form=json&session=lab"
    assert shown.get(path, "ours") == shown.get(path)
    assert {each["kind"] for each in shown.get("/api/v1/clusters/here/resources?kind=Session", "ours")} == {
        "Session"
    }


@pytest.mark.parametrize("name", ["example/theirs", "theirs", "Session/example/theirs"])
def test_whoever_does_not_see_a_project_does_not_hear_of_its_apps(shown: Lab, name: str) -> None:
    path = f"/api/v1/clusters/here/commands/apps?form=json&session={name}"
    assert shown.status(path, "ours") == 404
    assert shown.get(path)["document"]["apps"] != []


def test_the_page_links_to_them_in_a_tab_that_cannot_reach_back(shown: Lab) -> None:
    found = session_page(view_of(shown, "ours"), "p", "lab")
    page = render("session.html", page=found)
    assert f'<a href="{JUPYTER}" target="_blank" rel="noopener noreferrer">' in page
    assert "its owner ada and operators of p" in page
    assert_harmless(render("session.html", page=hostile(found)))
    assert "noopener" not in render("session.html", page=session_page(view_of(shown), "p", "plain"))


def test_without_an_app_proxy_there_is_the_command_that_reaches_them(lab: Lab) -> None:
    lab.write("lab", session("lab", PORTS))
    lab.write("plain", session("plain", "ports: [{name: db, port: 1, protocol: tcp}]"))
    for _ in range(2):
        lab.once()
    lines = lines_of(lab, models.DescribeQuery(resource="lab"))
    assert "  here    bai port-forward p/lab jupyter board" in lines
    assert "Apps" not in lines_of(lab, models.DescribeQuery(resource="plain"))
    assert lab.get(f"/api/v1/clusters/here/resources/{SESSION}")["apps"] == []


def test_a_session_that_waits_has_its_urls_already(lab: Lab) -> None:
    lab.write("proxy", PROXY)
    lab.write("lab", session("lab", f"{PORTS}, resources: {{cuda.device: 99}}"))
    lab.once()
    found: Any = answer(view_of(lab), models.DescribeQuery(resource="lab", form="json")).document
    assert {each["state"] for each in found["apps"]} == {"PENDING"}


def test_what_shows_no_apps_loads_no_documents_for_them(tmp_path: Path) -> None:
    """Nor does what would show some where the cluster has no AppProxy."""

    class Unloaded:
        wanted = {"Session/p/lab": "digest"}  # noqa: RUF012

        @property
        def desired(self) -> Any:
            raise AssertionError("documents were loaded")

    from bai.queries.apps.by_session import apps_by_session

    assert apps_by_session(Unloaded(), ["Session/p/lab"]) == {}  # type: ignore[arg-type]
