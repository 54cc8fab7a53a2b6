"""Where apps are and who may open them changes while sessions run: as a plan says it, nothing restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

from bai.render.plan.terminal import render_plan
from tests.bai.apps import PORTS, PROXY
from tests.bai.test_render import text_of
from tests.reconciler.lab import Lab, action, session, summary


@pytest.fixture
def running(tmp_path: Path) -> Lab:
    made = Lab(tmp_path)
    made.write({"lab": session("lab", PORTS), "proxy": PROXY})
    assert summary(made.converge()) == {}
    return made


def said(lab: Lab) -> str:
    return text_of(render_plan(lab.plan()))


def test_who_may_open_an_app_changes_in_place(running: Lab) -> None:
    kernel = running.kernel("lab")
    running.write({"lab": session("lab", f"{PORTS}, apps: {{jupyter: {{access: project}}}}")})
    plan = running.plan()
    assert summary(plan) == {"Session/p/lab": "update"}
    assert action(plan, "Session/p/lab").changes[0].path == "spec.apps.jupyter.access"
    text = said(running)
    assert "~ Session/p/lab" in text and "access" in text and "stops" not in text, text
    assert summary(running.converge()) == {} and running.kernel("lab") == kernel
    running.write({"lab": session("lab", PORTS)})
    assert summary(running.plan()) == {"Session/p/lab": "update"}
    assert summary(running.converge()) == {} and running.kernel("lab") == kernel


def test_where_apps_are_changes_without_a_session_that_hears_of_it(running: Lab) -> None:
    kernel = running.kernel("lab")
    running.write({"proxy": PROXY.replace("apps.example", "lab.example")})
    assert summary(running.plan()) == {"AppProxy/proxy": "update"}
    text = said(running)
    assert "~ AppProxy/proxy" in text and "https://*.lab.example:8443" in text, text
    assert "Plan: 1 to update in place." in text, text
    assert summary(running.converge()) == {}
    running.drop("proxy")
    assert summary(running.plan()) == {"AppProxy/proxy": "delete"}
    assert summary(running.converge()) == {} and running.kernel("lab") == kernel
