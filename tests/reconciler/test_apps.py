"""Apps by the names under which browsers find them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.values.apps.app import app_label
from reconciler.values.apps.directory import AppDirectory
from reconciler.values.records import Recorded
from reconciler.values.state import Existing
from schemas.kinds.app_proxy import AppProxy
from schemas.kinds.session import Session

PROXY = AppProxy.model_validate(
    {
        "apiVersion": "bai/v1", "kind": "AppProxy", "metadata": {"name": "apps"},
        "spec": {"url": "https://*.apps.example:8443"},
    }
)  # fmt: skip
PORTS = [
    {"name": "jupyter", "port": 8888},
    {"name": "board", "port": 6006, "protocol": "https"},
    {"name": "db", "port": 5432, "protocol": "tcp"},
]
NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)


def session(name: str = "lab", project: str = "vision", **spec: Any) -> Session:
    return Session.model_validate(
        {
            "apiVersion": "bai/v1", "kind": "Session", "metadata": {"name": name, "project": project},
            "spec": {"ports": PORTS, **spec},
        }
    )  # fmt: skip


def directory(*sessions: Session) -> AppDirectory:
    return AppDirectory(PROXY, {each.identity: each for each in sessions}, {})


def found(label: str, *sessions: Session, there: Mapping[str, Existing] | None = None) -> Any:
    return directory(*sessions).find(label, there or {}, {})


def test_an_app_is_found_by_its_name_its_sessions_and_its_projects() -> None:
    app = found("jupyter--lab--vision", session(owner="jo", apps={"jupyter": {"access": "project"}}))
    assert app.url == "https://jupyter--lab--vision.apps.example:8443"
    assert app.host == "jupyter--lab--vision.apps.example:8443"
    assert (app.access, app.owner, app.port, app.protocol) == ("project", "jo", 8888, "http")
    assert (app.identity, app.phase, app.kernel) == ("Session/vision/lab", "PENDING", "")


def test_who_says_nothing_opens_an_app_to_operators_alone() -> None:
    assert found("board--lab--vision", session()).access == "operators"


def test_a_running_session_tells_its_container_and_node() -> None:
    record = Recorded("Session/vision/lab", "c", 1, "d", phase="RUNNING", kernels=("k1", "k2"))
    there = {"Session/vision/lab": Existing("Session/vision/lab", record, "RUNNING", reason="as wanted")}
    app = found("jupyter--lab--vision", session(), there=there)
    assert (app.kernel, app.phase, app.reason) == ("k1", "RUNNING", "as wanted")


@pytest.mark.parametrize(
    "label",
    ["db--lab--vision", "jupyter--lab", "jupyter--lab--robots", "JUPYTER--lab--vision", "", "--", "----",
     "a--jupyter--lab--vision", "jupyter--lab--vision--"],
)  # fmt: skip
def test_what_is_no_app_is_not_found(label: str) -> None:
    assert found(label, session()) is None


def test_names_that_could_be_taken_for_others_are_told_apart() -> None:
    one, other = session("a--b", "c"), session("a", "b--c")
    assert found("jupyter--a--b--c", one, other) is None
    for each in (one, other):
        label = app_label("jupyter", each.name, each.project or "")
        assert found(label, one, other).identity == each.identity


@given(NAMES, NAMES, NAMES)
def test_every_label_is_one_of_a_host_name(name: str, of: str, project: str) -> None:
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", app_label(name, of, project))


@given(st.tuples(NAMES, NAMES, NAMES), st.tuples(NAMES, NAMES, NAMES))
def test_no_two_apps_have_one_label(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    assert (app_label(*one) == app_label(*other)) == (one == other)
