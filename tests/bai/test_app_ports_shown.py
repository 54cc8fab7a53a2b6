"""Apps by ports as people and programs are told of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bai.cli.sessions import apps
from bai.cli.sessions.apps import checked_url, show_in_browser
from bai.render.resources.apps import app_lines, apps_json, unbound_port
from reconciler.values.apps.app import App
from schemas.problems.errors.server import ServerError

MAPPED = App(
    project="p", session="cache", name="db", host="gpu.example:31000", url="tcp://gpu.example:31000",
    protocol="tcp", port=6379, access="public", owner="jo", phase="RUNNING",
)  # fmt: skip
WITHOUT = replace(MAPPED, host="", url="", unmapped="all ports for tcp, 31000-31000, are taken")


def test_an_app_without_a_port_says_why() -> None:
    assert list(app_lines([MAPPED, WITHOUT])) == [
        "db  tcp://gpu.example:31000  ready, for everybody, without a login",
        "db  no port: all ports for tcp, 31000-31000, are taken  ready, for everybody, without a login",
    ]
    assert apps_json([MAPPED, WITHOUT]) == [
        {"name": "db", "url": "tcp://gpu.example:31000", "protocol": "tcp", "access": "public"},
        {"name": "db", "url": "", "protocol": "tcp", "access": "public", "unmapped": WITHOUT.unmapped},
    ]


def test_a_port_that_the_server_cannot_have_is_told_of_its_app_alone() -> None:
    taken = {31000: "address already in use"}
    assert unbound_port(MAPPED, taken) == "the server cannot listen at port 31000: address already in use"
    assert unbound_port(MAPPED, {31001: "address already in use"}) == ""
    assert unbound_port(WITHOUT, taken) == ""


def test_no_browser_is_given_raw_tcp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apps, "_has_display", lambda: True)
    monkeypatch.setattr("webbrowser.open", pytest.fail)
    assert checked_url(MAPPED.url) == MAPPED.url and not show_in_browser(MAPPED.url)
    with pytest.raises(ServerError):
        checked_url("tcp://gpu.example:31000\n")
